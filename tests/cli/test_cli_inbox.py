"""`capataz inbox`: what waits is listed and shown, an answer is a fact, and the run goes on, in another process too."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from capataz.cli.main import main

BANK = '''
import sqlite3
from capataz import Agent, Policy, tool
from capataz.events.facts import Fault
from capataz.testing.scripted import ScriptedModel, calls, says

def done():
    with sqlite3.connect("effects.db", timeout=5) as db:
        db.execute("create table if not exists effects (eur int, recipient text)")
        return db.execute("select eur, recipient from effects").fetchall()

def approve(eur, to):
    return eur >= 50

@tool(kind="write", target="to", confirm=lambda eur, to: (eur, to) in done(), approve=approve)
def transfer(eur: int, to: str) -> str:
    """Send money."""
    done()
    with sqlite3.connect("effects.db", timeout=5) as db:
        db.execute("insert into effects values (?, ?)", (eur, to))
    return "sent"

@tool(kind="write", target="to", confirm=lambda eur, to: (eur, to) in done(), approve=approve)
def changed(eur: int, to: str, memo: str = "") -> str:
    """Send money, as another version of the shop does it."""
    return transfer.function(eur, to)

def first_asks_for_a_and_then_for_b(request):
    asked = any(message.calls for message in request.history)
    return says("done") if asked else calls(("transfer", {"eur": 100, "to": "A"}))

bank = Agent("bank", ScriptedModel(first_asks_for_a_and_then_for_b), [transfer])
# What a restarted process would hear of the model, were it asked for the same turn again.
def wrong(request):
    return says("done") if request.history[-1].role == "tool" else calls(("transfer", {"eur": 900, "to": "B"}))

restarted = Agent("bank", ScriptedModel(wrong), [transfer])
other_tools = Agent("bank", restarted.model, [__import__("dataclasses").replace(changed, name="transfer")])
other_policy = Agent("bank", restarted.model, [transfer], policy=Policy(claims=7))
refused = Agent("bank", ScriptedModel(Fault("auth", "key", "the key was refused", 401), says("hello")), role="talking")
unsupported = Fault("invalid_input", "unsupported-parameter", "Unsupported parameter: 'temperature'", 400)
learns = Agent("bank", ScriptedModel(unsupported, name="o9"), role="talking")
'''


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a bank in it; nothing of this test's process ever drives its runs."""
    (tmp_path / "bank.py").write_text(BANK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CAPATAZ_STORE", raising=False)
    return tmp_path


def capataz(*words: str, status: int = 0) -> Any:
    """The command, in a process of its own; its JSON."""
    program = Path(sys.executable).with_name("capataz")
    ran = subprocess.run(
        [str(program), *words, "--json"], capture_output=True, text=True, timeout=60, env={**os.environ, "USER": "ana"}
    )
    assert ran.returncode == status, ran.stderr + ran.stdout
    return json.loads(ran.stdout) if ran.stdout else ran.stderr


def here(*words: str, status: int = 0) -> Any:
    """The command, in this process; its JSON."""
    done = CliRunner().invoke(main, [*words, "--json"], env={"USER": "ana"})
    sys.modules.pop("bank", None)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout) if done.stdout else done.stderr


def effects() -> list[tuple[int, str]]:
    with sqlite3.connect("effects.db", timeout=5) as db:
        db.execute("create table if not exists effects (eur int, recipient text)")
        return db.execute("select eur, recipient from effects").fetchall()


@pytest.mark.usefixtures("bank")
def test_what_was_approved_runs_after_a_restart_and_nothing_else() -> None:
    asked = capataz("run", "bank:bank", "pay A", status=4)
    [item] = capataz("inbox")
    assert item["run"] == asked["run_id"]
    assert item["approval"]["shown"] == 'transfer(eur=100, to="A")'
    assert item["approval"]["arguments"] == {"eur": 100, "to": "A"}
    assert effects() == []
    answered = capataz("inbox", "answer", item["run"], "--approve", "--digest", item["approval"]["digest"])
    assert answered == {"run": item["run"], "decision": "approve", "by": "ana"}
    assert here("inbox") == []
    assert "does not wait" in here("inbox", "show", item["run"], status=2)
    resume = "import bank; from capataz import App; print(App().resume(bank.restarted, '" + item["run"] + "').name)"
    ran = subprocess.run([sys.executable, "-c", resume], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "completed"
    assert effects() == [(100, "A")]


@pytest.mark.parametrize("agent", ["other_tools", "other_policy"])
@pytest.mark.usefixtures("bank")
def test_if_tools_or_policy_changed_while_it_waited_it_is_asked_again(agent: str) -> None:
    run = here("run", "bank:bank", "pay A", status=4)["run_id"]
    before = here("inbox")[0]["approval"]["digest"]
    here("inbox", "answer", run, "--approve", "--agent", f"bank:{agent}", status=4)
    assert effects() == []
    [item] = here("inbox")
    assert item["approval"]["digest"] != before
    assert "any more" in here("inbox", "answer", run, "--approve", "--digest", before, status=2)
    ended = here("inbox", "answer", run, "--approve", "--agent", f"bank:{agent}")
    assert ended["outcome"] == "completed"
    assert effects() == [(100, "A")]


@pytest.mark.usefixtures("bank")
def test_a_corrected_call_is_what_runs_whatever_the_model_wanted() -> None:
    run = here("run", "bank:bank", "pay A", status=4)["run_id"]
    correct = ("--correct", '{"eur": 50, "to": "A"}', "--by", "eva")
    ended = here("inbox", "answer", run, *correct, "--agent", "bank:restarted")
    assert ended["outcome"] == "completed"
    assert effects() == [(50, "A")]


@pytest.mark.usefixtures("bank")
def test_no_and_stop_are_answers_too() -> None:
    run = here("run", "bank:bank", "pay A", status=4)["run_id"]
    ended = here("inbox", "answer", run, "--reject", "not this month", "--agent", "bank:restarted", status=3)
    assert ended["reason"] == "rejected"
    assert effects() == []
    run = here("run", "bank:bank", "pay A again", status=4)["run_id"]
    assert here("inbox", "answer", run, "--abort")["decision"] == "abort"
    assert here("runs", "--outcome", "aborted")[0]["run_id"] == run


@pytest.mark.usefixtures("bank")
def test_the_policy_of_a_run_can_be_given_to_the_command() -> None:
    Path("policy.toml").write_text("claims = 7")
    under = ("--policy", "policy.toml")
    run = here("run", "bank:bank", "pay A", *under, status=4)["run_id"]
    ended = here("inbox", "answer", run, "--approve", "--agent", "bank:restarted", *under)
    assert ended["outcome"] == "completed"
    assert effects() == [(100, "A")]


@pytest.fixture
def refused(bank: Path, runner: CliRunner) -> str:
    done = runner.invoke(main, ["run", "bank:refused", "hi", "--json"])
    sys.modules.pop("bank", None)
    assert done.exit_code == 4, done.output
    return str(json.loads(done.output)["run_id"])


def test_it_is_shown_in_words_with_what_can_be_answered(runner: CliRunner, refused: str) -> None:
    listed = runner.invoke(main, ["inbox"]).output
    assert "the key was refused" in " ".join(listed.split())
    shown = runner.invoke(main, ["inbox", "show", refused[:8]]).output
    assert "auth: auth: the key was refused (after 1 try)" in shown
    assert f"capataz inbox answer {refused} --retry" in shown
    assert "--approve" not in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "exactly one decision"),
        (["--retry", "--abort"], "not --retry and --abort"),
        (["--correct", "[1]"], "JSON object"),
        (["--correct", "{"], "JSON object"),
        (["--approve"], "does not wait for an approval"),
        (["--say", " "], "needs words"),
        (["--retry", "--digest", "0123"], "any more"),
        (["--retry", "--agent", "bank:nobody"], "has no 'nobody'"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(
    runner: CliRunner, refused: str, words: list[str], problem: str
) -> None:
    done = runner.invoke(main, ["inbox", "answer", refused, *words])
    assert done.exit_code == 2
    assert problem in done.output
    assert json.loads(runner.invoke(main, ["inbox", "--json"]).output)[0]["run"] == refused


def test_an_empty_inbox_says_so(runner: CliRunner, refused: str) -> None:
    runner.invoke(main, ["inbox", "answer", refused, "--abort", "enough"])
    assert runner.invoke(main, ["inbox", "list"]).output.strip() == "nothing waits for a person"


@pytest.mark.usefixtures("bank")
def test_what_a_model_refused_is_offered_as_a_line_for_the_table(runner: CliRunner) -> None:
    for _ in range(2):
        runner.invoke(main, ["run", "bank:learns", "hi"])
    sys.modules.pop("bank", None)
    assert runner.invoke(main, ["models", "learned"]).output.strip() == (
        "[[model]]\nmatch = '^o9$'\ntemperature = \"never\""
    )
    [found] = json.loads(runner.invoke(main, ["models", "learned", "--json"]).output)
    assert found["parameter"] == "temperature"
