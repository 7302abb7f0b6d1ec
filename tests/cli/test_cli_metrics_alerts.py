"""`capataz metrics`, `capataz alerts`, `--log-json` and `--otel`: on a store, in the form programs read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from capataz import Agent, App, tool
from capataz.cli.main import main
from capataz.runtime.webhook import SIGNATURE, verify
from capataz.stores.memory import MemoryStore
from capataz.telemetry.reading import PAGE, Scrape, figures_since, rows_since
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says

SECRET = "known to both"


@tool(kind="read")
def look(order: str) -> str:
    """Look an order up."""
    return "paid"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with three runs of two agents, one of them a loop."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def fill() -> None:
        async with App(url) as app:
            well = [calls(("look", {"order": "1"})), says("paid")]
            for _ in range(2):
                await app.arun(Agent("good", ScriptedModel(*well), [look], role="talking"), "go", task_type="ask")
            again = ScriptedModel(calls(("look", {"order": "1"})))
            await app.arun(Agent("bad", again, [look], role="talking"), "go")

    asyncio.run(fill())
    return url


def run(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == status, done.output
    return done.stdout


def test_metrics_by_each_grouping(store: str) -> None:
    told = json.loads(run("metrics", "--store", store, "--json"))
    assert told["all"]["runs"] == 3
    assert told["agent"]["bad"]["loop_rate"] == 1
    assert told["agent"]["good"]["loop_rate"] == 0
    assert told["all"]["completion_rate"] is None
    assert json.loads(run("metrics", "--store", store, "--by", "tool", "--json"))["tool"]["look"]["error_rate"] == 0
    assert (
        "scripted at ScriptedModel" in json.loads(run("metrics", "--store", store, "--by", "model", "--json"))["model"]
    )
    assert len(json.loads(run("metrics", "--store", store, "--by", "version", "--json"))["version"]) == 2
    for by in ("agent", "task", "tool", "model", "version"):
        assert by in run("metrics", "--store", store, "--by", by)
    assert "no runs" in run("metrics", "--store", store, "--agent", "nobody")
    assert 'capataz_runs_started_total{agent="good"} 2' in run("metrics", "--store", store, "--prometheus")
    run("metrics", "--store", store, "--since", "soon", status=2)
    assert json.loads(run("metrics", "--store", store, "--since", "1h", "--json"))["all"]["runs"] == 3


def test_no_data_is_a_state_of_its_own(store: str) -> None:
    Path("capataz-alerts.toml").write_text(
        '[[rules]]\nmetric = "tokens_total"\nagent = "billing-bot"\nover = 1000\n'
        '[[rules]]\nmetric = "tokens_total"\nover = 10\n'
    )
    never, all_runs = json.loads(run("alerts", "--store", store, "--json"))
    assert (never["state"], all_runs["state"]) == ("no data", "firing")
    assert len(all_runs["runs"]) == 3
    assert "no data" in run("alerts", "list", "--store", store)


def test_a_rule_on_nothing_is_refused(store: str) -> None:
    Path("typo.toml").write_text('[[rules]]\nmetric = "tokens_total_typo"\nover = 1000\n')
    done = CliRunner().invoke(main, ["alerts", "--store", store, "--rules", "typo.toml"])
    assert done.exit_code == 2
    assert "did you mean 'tokens_total'?" in done.stderr


def test_a_check_tells_once_and_a_mail_is_ready(store: str) -> None:
    Path("r.toml").write_text('[[rules]]\nname = "tokens"\nmetric = "tokens_total"\nover = 10\n')
    words = (
        "alerts",
        "check",
        "--store",
        store,
        "--rules",
        "r.toml",
        "--mail",
        "box.txt",
        "--link",
        "https://r.example.com/",
    )
    first = json.loads(run(*words, "--json", status=1))
    assert first[0]["told"] == "fired"
    second = json.loads(run(*words, "--json", status=1))
    assert second[0]["told"] is None
    box = Path("box.txt").read_text()
    assert box.startswith("Subject: ALERT tokens (warning)\n\n")
    assert box.count("Subject:") == 1
    assert "https://r.example.com/" in box
    Path("r.toml").write_text('[[rules]]\nname = "tokens"\nmetric = "tokens_total"\nover = 10000000\n')
    assert json.loads(run(*words, "--json"))[0]["told"] == "resolved"


class Ear:
    """A webhook's receiving side, in the thread of a loop of its own."""

    def __init__(self, status: int) -> None:
        self.status, self.heard = status, list[tuple[bytes, dict[str, str]]]()

    async def hear(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.heard.append((await request.read(), headers))
        return web.Response(status=self.status)


@pytest.mark.parametrize("status", [200, 404])
def test_a_test_fires_every_rule_through_the_real_way_out(
    store: str, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("CAPATAZ_WEBHOOK_SECRET", SECRET)
    ear = Ear(status)

    async def listen() -> Any:
        app = web.Application()
        app.router.add_post("/hook", ear.hear)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        words = ["alerts", "test", "--webhook", f"http://127.0.0.1:{runner.addresses[0][1]}/hook", "--json"]
        try:
            return await asyncio.to_thread(CliRunner().invoke, main, words)
        finally:
            await runner.cleanup()

    done = asyncio.run(listen())
    messages = [json.loads(body) for body, _ in ear.heard]
    assert len(messages) == 10
    assert {message["event"] for message in messages} == {"alert.test"}
    assert all(message["test"] and message["state"] == "firing" for message in messages)
    body, headers = ear.heard[0]
    assert SIGNATURE in headers
    assert verify(SECRET, body, headers, int(headers["x-capataz-timestamp"]))
    assert done.exit_code == (0 if status == 200 else 2), done.output
    if status != 200:
        assert "nobody there was told" in done.stderr


def test_the_metrics_a_rule_may_name_are_listed() -> None:
    assert "loop_rate" in run("alerts", "metrics")
    assert json.loads(run("alerts", "metrics", "--json"))["steps"]["judged"] == "mean"


AGENT = """
from capataz import Agent
from capataz.testing.scripted import ScriptedModel, says
agent = Agent("a", ScriptedModel(says("write to ana@example.com")), role="talking")
"""


def test_a_run_logs_json_and_sends_spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("logged_agent.py").write_text(AGENT)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    words = ["run", "logged_agent:agent", "go", "--store", "memory:", "--log-json", "--otel", "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"v"')]
    assert [line["event"] for line in lines] == ["run.started", "model.replied", "run.ended"]
    assert "ana@example.com" not in done.stderr
    assert '"name": "invoke_agent a"' in done.stderr
    assert json.loads(done.stdout)["outcome"] == "answered", "one JSON value and nothing else"


def test_an_exporter_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("refused_agent.py").write_text(AGENT)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    done = CliRunner().invoke(main, ["run", "refused_agent:agent", "go", "--store", "memory:", "--otel"])
    assert done.exit_code == 2
    assert "choose otlp, console or none" in done.stderr


# ── reading a store ──────────────────────────────────────────────────────────────────────────────────────


async def test_every_run_is_read_once_though_many_began_at_the_same_moment() -> None:
    app = App(store := MemoryStore(), clock=FakeClock(), chance=FakeChance())
    agent = Agent("a", ScriptedModel(says("x")), role="talking")
    number = PAGE + 20
    for _ in range(number):
        await app.arun(agent, "go")
    rows = [row.run async for row in rows_since(store)]
    assert len(rows) == len(set(rows)) == number
    assert len([f async for f in figures_since(store)]) == number
    await app.close()


async def test_a_scrape_reads_only_what_is_new_and_never_counts_twice() -> None:
    clock = FakeClock()
    app = App(store := MemoryStore(), clock=clock, chance=FakeChance())
    agent = Agent("a", ScriptedModel(says("x")), role="talking")
    scrape = Scrape(store)
    for number in range(1, 4):
        await app.arun(agent, "go")
        clock.move(10)
        text = await scrape.text(clock.now())
        assert f'capataz_runs_started_total{{agent="a"}} {number}\n' in text
        assert await scrape.text(clock.now()) == text
    await app.close()
