"""Spending, limits and conversations on the command line; what is shown is masked."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from capataz import Agent, App
from capataz.cli.main import main
from capataz.events.facts import Usage
from capataz.testing.scripted import ScriptedModel, says


@pytest.fixture
def kept(tmp_path: Path) -> str:
    """A store with one conversation of Ana's: two runs."""
    url = f"sqlite:///{tmp_path / 'talks.db'}"

    async def talk() -> None:
        agent = Agent(
            "clerk",
            ScriptedModel(
                says("I wrote to ana@example.com", Usage(100, 20, cache_read=60, reasoning=5)),
                says("Yes.", Usage(40, 2)),
            ),
            role="talking",
        )
        async with App(url, prices={"scripted": (10.0, 100.0)}) as app:
            for text in ("Write to ana@example.com", "Did you?"):
                await agent.arun(text, app=app, conversation="ana-7", tenant="acme", user="ana")

    asyncio.run(talk())
    return url


def capataz(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(main, list(arguments), input=given)


def as_json(*arguments: str) -> object:
    done = capataz(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_spend_adds_up_by_agent_tenant_user_and_source(kept: str) -> None:
    line = {
        "calls": 2,
        "input_tokens": 140,
        "output_tokens": 22,
        "cache_read_tokens": 60,
        "cache_write_tokens": 0,
        "reasoning_tokens": 5,
        "money": "0.0036000000",
        "calls_without_price": 0,
        "calls_guessed": 0,
        "calls_over_reservation": 0,
    }
    for by, name in (("agent", "clerk"), ("tenant", "acme"), ("user", "acme/ana"), ("source", "loop")):
        assert as_json("spend", "--store", kept, "--by", by) == [{"name": name, **line}]
    runs = as_json("spend", "--store", kept, "--by", "run")
    assert isinstance(runs, list)
    assert len(runs) == 2
    assert as_json("spend", "--store", kept, "--period", "1999-01") == []
    assert "$0.0036" in capataz("spend", "--store", kept).stdout


def test_an_unknown_price_is_shown_as_unknown(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'free.db'}"
    asyncio.run(_one(url))
    assert "?" in capataz("spend", "--store", url).stdout
    (line,) = json.loads(capataz("spend", "--store", url, "--json").stdout)
    assert (line["money"], line["calls_without_price"]) == (None, 1)


async def _one(url: str) -> None:
    async with App(url) as app:
        await Agent("clerk", ScriptedModel("x"), role="talking").arun("t", app=app)


def test_limits_are_set_listed_and_taken_away_and_a_run_is_under_them(kept: str) -> None:
    done = capataz("accounts", "set", "tenant", "acme", "--period", "total", "--tokens", "200", "--store", kept)
    assert done.exit_code == 0, done.output
    assert as_json("accounts", "list", "--store", kept) == [
        {"whose": "tenant", "name": "acme", "period": "total", "tokens": 200, "money": None}
    ]

    async def run() -> str:
        async with App(kept) as app:
            return (await Agent("clerk", ScriptedModel("x"), role="talking").arun("t", app=app, tenant="acme")).reason

    assert asyncio.run(run()) == "budget-tenant-total"
    assert capataz("accounts", "unset", "tenant", "acme", "--store", kept).exit_code == 0
    assert capataz("accounts", "unset", "tenant", "acme", "--store", kept).exit_code == 1
    assert asyncio.run(run()) == "answered"
    assert capataz("accounts", "set", "tenant", "acme", "--store", kept).exit_code == 2


def test_conversations_are_listed_shown_masked_and_erased(kept: str) -> None:
    (thread,) = json.loads(capataz("conversations", "--store", kept, "--json").stdout)
    assert (thread["conversation"], thread["messages"], thread["user"]) == ("ana-7", 4, "ana")
    shown = capataz("conversations", "show", "ana-7", "--store", kept)
    assert "<EMAIL>" in shown.stdout
    assert "ana@example.com" not in shown.stdout
    assert "ana@example.com" in capataz("conversations", "show", "ana-7", "--store", kept, "--reveal").stdout
    assert capataz("conversations", "erase", "ana-7", "--store", kept, given="n\n").exit_code != 0
    assert as_json("conversations", "erase", "ana-7", "--yes", "--store", kept) == {"conversation": "ana-7", "runs": 2}
    assert capataz("conversations", "show", "ana-7", "--store", kept).exit_code == 2
    assert as_json("conversations", "list", "--store", kept) == []


def test_runs_show_and_inbox_are_masked_unless_a_person_asks(kept: str) -> None:
    for command in (["runs"], ["show"], ["runs", "--json"], ["show", "--json"]):
        assert "ana@example.com" not in capataz(*command, "--store", kept).stdout
    run = json.loads(capataz("runs", "--store", kept, "--json").stdout)[-1]["run_id"]
    assert "<EMAIL>" in capataz("show", run, "--store", kept).stdout
    assert "ana@example.com" in capataz("show", run, "--store", kept, "--reveal").stdout


def test_a_run_in_a_conversation_from_the_command_line(runner: CliRunner, agents: Path, store: str) -> None:
    given = ["--conversation", "c", "--user", "ana", "--store", store, "--json"]
    first = runner.invoke(main, ["run", "crew:answers", "hello", *given])
    assert first.exit_code == 0, first.output
    (thread,) = json.loads(runner.invoke(main, ["conversations", "--store", store, "--json"]).stdout)
    assert (thread["conversation"], thread["user"], thread["messages"]) == ("c", "ana", 2)


def test_an_error_shows_no_password_of_a_store() -> None:
    done = capataz("runs", "--store", "mysql://app:hunter2secret@db/x")
    assert done.exit_code == 2
    assert "hunter2secret" not in done.output
