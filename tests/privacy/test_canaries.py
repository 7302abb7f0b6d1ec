"""Planted values, and every way out searched for them: providers, logs, spans, pages, the command line, webhooks.

Three kinds of reports are held here as kinds, not as cases: secrets in what a failed attempt carries along, secrets in
a summary that is older than the mask, and secrets in places nobody thinks of (keys of objects, URLs, reasoning).
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from click.testing import CliRunner
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from capataz import Agent, Answered, App, Escalated, tool
from capataz.cli.main import main
from capataz.events.facts import Fault
from capataz.memory.conversation import Arrived, Told
from capataz.mistakes import ModelRefused
from capataz.policy.policy import Policy
from capataz.ports import Deadlines, ModelRequest, Observer, Reply
from capataz.stores.sqlite import SqliteStore
from capataz.telemetry.json_logs import JsonLines
from capataz.telemetry.otel import OpenTelemetry
from capataz.testing.script import Ask, Script, Turn, say, status
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls
from capataz.testing.worker import UnreliableWorker
from capataz.testing.worker_wire import Dialect

PLANTED = {
    "in the instructions": "sk-proj-C4n4ryInstructions0123456789abcdefABCDEF",
    "said by the person": "canary.person@example.org",
    "the person's card": "4539 1488 0343 6467",
    "in an argument": "canary.argument@example.org",
    "in a result": "ghp_C4n4ryResult0123456789abcdefghijklm",
    "a key of an object": "canary.key@example.org",
    "in an error": "postgres://app:c4n4ry-error-pw@db.internal/shop",
    "in a header": "Bearer c4n4ry-header-0123456789abcdef",
    "in a URL": "https://api.internal/v1?api_key=c4n4ry-url-0123456789",
    "in the reasoning": "canary.reasoning@example.org",
    "in an old summary": "ghp_C4n4rySummary0123456789abcdefghijkl",
    "configured": "tilting-at-windmills",
}
MARKS = {name: value.removeprefix("Bearer ").rpartition("=")[2] for name, value in PLANTED.items()}
MARKS["in an error"] = "c4n4ry-error-pw"
QUICK = Deadlines(connect=2, first_byte=2, silence=2, total=5)


def found(text: str | bytes, *names: str) -> list[str]:
    """The planted values that stand in a text."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return [name for name in (names or MARKS) if MARKS[name] in shown]


@tool(kind="read")
def look(who: str) -> dict[str, Any]:
    """Look somebody up."""
    return {
        PLANTED["a key of an object"]: {"token": PLANTED["in a result"], "deep": [[PLANTED["in a URL"]]]},
        "said": f"call with {PLANTED['in a header']}",
        "words": PLANTED["configured"],
    }


@tool(kind="read")
def crm(who: str) -> str:
    """Ask the customer database."""
    try:
        raise ValueError(f"refused: {PLANTED['in a header']}")
    except ValueError as error:
        error.add_note(f"while reading {PLANTED['in a URL']}")
        raise ConnectionError(f"cannot reach {PLANTED['in an error']}") from error


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDMILL_SECRET", PLANTED["configured"])
    monkeypatch.setenv("CAPATAZ_WEBHOOK_SECRET", "a secret both sides know")
    monkeypatch.delenv("CAPATAZ_KEY", raising=False)


TASK = "I am " + PLANTED["said by the person"] + ", my card is " + PLANTED["the person's card"] + ". Who am I?"


def planted_agent(model: str, base_url: str, **given: Any) -> Agent:
    return Agent(
        "canary",
        model,
        [look, crm],
        instructions=f"Use {PLANTED['in the instructions']} and {PLANTED['configured']}.",
        role="talking",
        base_url=base_url,
        api_key="sk-test-own-key",
        deadlines=QUICK,
        policy=Policy(),
        **given,
    )


BUSY = Script(
    (
        Turn("I look.", (Ask("look", {"who": PLANTED["in an argument"]}),), thinking=PLANTED["in the reasoning"]),
        Turn("Now the other.", (Ask("crm", {"who": "x"}),), thinking=PLANTED["in the reasoning"]),
    ),
    after=say("You are known."),
)


# ── what reaches a provider ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_nothing_planted_reaches_a_provider(dialect: Dialect, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    await old_summary(store)
    async with UnreliableWorker({"busy": BUSY, "sums": Script((), say("A summary."))}) as worker, App(store) as app:
        base = worker.url(dialect)
        agent = planted_agent(f"{dialect}:busy", base, window=600, keep_last=2, summary_model=None)
        first = await agent.arun(TASK, app=app, conversation="c")
        await agent.arun(TASK + " Again.", app=app, conversation="c")
        bodies = [orjson.dumps(served.body) for served in worker.served]
        assert worker.violations == []
    assert isinstance(first, Answered)
    assert len(bodies) >= 5
    assert any(b"cannot reach" in body for body in bodies)
    assert any(b"Summary so far" in body for body in bodies)
    for body in bodies:
        # What a provider has signed goes back to it byte for byte, or it refuses it; nobody else is given it.
        assert set(found(body)) <= ({"in the reasoning"} if dialect == "anthropic" else set())
    assert any(b"EMAIL_" in body for body in bodies)


async def old_summary(store: SqliteStore) -> None:
    """What was kept before anybody masked anything."""
    talks = store.conversations()
    await talks.arrive(Arrived("c", "before", "canary", "hello", patience=9))
    assert await talks.enter("c", "before", 9) is not None
    summary = f"Deployed with token {PLANTED['in an old summary']}"
    for n in range(15):
        await talks.leave("c", f"more-{n}", Told(f"clean message {n}: " + " ".join(f"word{n + k}" for k in range(12))))
    await talks.leave("c", "before", Told("hi", summary, 1))


@pytest.mark.parametrize("writes", ["repeats what it was given", "fails", "says nothing"])
async def test_an_old_summary_leaks_into_nothing(tmp_path: Path, writes: str) -> None:
    """The secret is in no request, in no new summary, in no page; the old one may stay in the store as it was kept."""
    store = SqliteStore(tmp_path / "log.db")
    await old_summary(store)
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> Reply | Fault | str:
        asked.append(request)
        if not request.history[-1].text.startswith("Summary so far:"):
            return "answered"
        if writes == "fails":
            return Fault("transient", "server-error", "down", 500)
        return request.history[-1].text.partition("New messages")[0] if writes.startswith("repeats") else ""

    agent = Agent("canary", ScriptedModel(model), role="talking", window=400, keep_last=2)
    async with App(store, clock=FakeClock(), chance=FakeChance()) as app:
        outcome = await agent.arun("and now?", app=app, conversation="c")
        thread, _ = await app.conversations.read("c")
    assert isinstance(outcome, Answered)
    assert any("Summary so far" in request.history[-1].text for request in asked)
    assert found(str([(request.system, request.history) for request in asked])) == []
    if writes.startswith("repeats"):
        assert "Deployed with token" in thread.summary
        assert found(thread.summary) == []
    url = f"sqlite:///{tmp_path / 'log.db'}"
    for command in (["show"], ["show", "--json"], ["conversations", "show", "c"]):
        assert found(await asyncio.to_thread(capataz, url, *command)) == []


def capataz(url: str, *arguments: str) -> str:
    done = CliRunner().invoke(main, [*arguments, "--store", url])
    assert done.exit_code == 0, done.output
    return done.output


# ── what a failed attempt carries along ──────────────────────────────────────────────────────────────────────


@dataclass
class Leaky:
    """A provider that echoes what it was sent in its errors, and a person's system that is told of escalations."""

    url: str = ""
    asked: int = 0
    told: list[bytes] = field(default_factory=list[bytes])

    async def model(self, request: web.Request) -> web.Response:
        self.asked += 1
        sent = f"{request.headers.get('authorization')} {request.url} {PLANTED['in a URL']}"
        if self.asked == 1 and request.transport is not None:
            request.transport.abort()
            return web.Response()
        if self.asked == 2:
            return web.json_response({"error": {"message": f"bad: {sent}", "type": "server_error"}}, status=500)
        return web.json_response({"error": {"message": f"no: {sent}", "type": "permission_error"}}, status=403)

    async def hook(self, request: web.Request) -> web.Response:
        self.told.append(await request.read())
        return web.Response(status=204)


@pytest.fixture
async def leaky() -> AsyncIterator[Leaky]:
    server_ = Leaky()
    server = web.Application()
    server.router.add_post("/v1/chat/completions", server_.model)
    server.router.add_post("/hook", server_.hook)
    runner = web.AppRunner(server, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server_.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server_
    await runner.cleanup()


LEAKS = ("sk-test-LEAK-0001", "tok-LEAK-0002", "pw-LEAK-0003", "c4n4ry-url-0123456789")


@tool(kind="read")
def shop() -> str:
    """Ask the shop."""
    try:
        raise OSError("GET https://shop.internal/?key=sk-test-LEAK-0001 with Authorization: Bearer tok-LEAK-0002")
    except OSError as error:
        error.add_note("connection string postgres://u:pw-LEAK-0003@h/db")
        raise RuntimeError("cannot reach postgres://u:pw-LEAK-0003@h/db") from error


class Raises(ScriptedModel):
    """A model of the user's own that lets its exception out, with the request in its text."""

    async def complete(self, request: ModelRequest, beat: Any) -> Reply:
        number = len(self.requests)
        reply = await super().complete(request, beat)
        if number == 0:
            words = "500 for https://api.internal/?key=sk-test-LEAK-0001; Authorization: Bearer tok-LEAK-0002"
            raise ModelRefused(Fault("transient", "server-error", words, 500))
        return reply


def everything(folder: Path) -> str:
    return "".join(item.read_bytes().decode("utf-8", "replace") for item in folder.iterdir() if item.is_file())


def searched(where: dict[str, str]) -> dict[str, list[str]]:
    return {name: [leak for leak in LEAKS if leak in text] for name, text in where.items()}


async def test_what_a_failed_attempt_carries_is_in_no_record(
    leaky: Leaky, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    exporter, tracers, lines = InMemorySpanExporter(), TracerProvider(), io.StringIO()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    url = f"sqlite:///{tmp_path / 'log.db'}"
    watchers: list[Observer] = [OpenTelemetry(tracers, content=True), JsonLines(lines, debug=True)]
    async with App(
        url, clock=FakeClock(), chance=FakeChance(), telemetry=watchers, webhook=f"{leaky.url}/hook", mask=True
    ) as app:
        own = Raises(calls(("shop", {})), calls(("shop", {})), "done", "done")
        await Agent("own", own, [shop], role="talking").arun("go", app=app)
        far = Agent(
            "far",
            "openai:any",
            [shop],
            role="talking",
            base_url=f"{leaky.url}/v1",
            api_key="sk-test-LEAK-0001",
            deadlines=QUICK,
        )
        outcome = await far.arun("go", app=app)
        assert isinstance(outcome, Escalated)
        await asyncio.sleep(0.05)
        store_file = await asyncio.to_thread(everything, tmp_path)  # while the write-ahead log is still there
        shown = await asyncio.to_thread(command_line, url, tmp_path)
    spans = "".join(
        f"{span.name} {dict(span.attributes or {})} {span.status.description} "
        f"{[(event.name, dict(event.attributes or {})) for event in span.events]}"
        for span in exporter.get_finished_spans()
    )
    out = capfd.readouterr()
    where = {
        "store": store_file,
        "spans": spans,
        "json lines": lines.getvalue(),
        "log": caplog.text,
        "stdout": out.out,
        "stderr": out.err,
        "webhook": b"".join(leaky.told).decode(),
        "outcome": f"{outcome}",
        **shown,
    }
    assert leaky.asked >= 3
    assert leaky.told
    assert "chat" in spans
    assert "shop" in lines.getvalue()
    assert searched(where) == {name: [] for name in where}


def command_line(url: str, folder: Path) -> dict[str, str]:
    page = folder.parent / f"{folder.name}.html"
    listed = json.loads(capataz(url, "runs", "--json"))
    shown = {"runs": str(listed), "page": "", "inbox": capataz(url, "inbox", "--json")}
    for row in listed:
        shown[f"show {row['agent']}"] = capataz(url, "show", row["run_id"])
        capataz(url, "show", row["run_id"], "--html", str(page))
        shown["page"] += page.read_text()
    assert "far" in shown["inbox"]
    return shown


# ── what is shown of a healthy run ───────────────────────────────────────────────────────────────────────────


async def test_nothing_planted_is_shown_by_default(
    leaky: Leaky, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    exporter, tracers, lines = InMemorySpanExporter(), TracerProvider(), io.StringIO()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    url = f"sqlite:///{tmp_path / 'log.db'}"
    watchers: list[Observer] = [OpenTelemetry(tracers, content=True), JsonLines(lines, debug=True)]
    stuck = Script(
        (Turn("I look.", (Ask("look", {"who": PLANTED["in an argument"]}),)), status(403)), after=status(403)
    )
    async with (
        UnreliableWorker({"busy": BUSY, "stuck": stuck}) as worker,
        App(url, telemetry=watchers, webhook=f"{leaky.url}/hook") as app,
    ):
        await planted_agent("openai:busy", worker.url()).arun(TASK, app=app, conversation="c")
        waiting = await planted_agent("openai:stuck", worker.url()).arun(TASK, app=app)
        assert isinstance(waiting, Escalated)
        shown = await asyncio.to_thread(everything_shown, url, tmp_path, waiting.run)
    spans = "".join(f"{span.name} {dict(span.attributes or {})}" for span in exporter.get_finished_spans())
    out = capfd.readouterr()
    where = {
        "spans": spans,
        "json lines": lines.getvalue(),
        "webhook": b"".join(leaky.told).decode(),
        "stdout": out.out,
        "stderr": out.err,
        **shown,
    }
    assert {name: found(text) for name, text in where.items()} == {name: [] for name in where}
    assert "<EMAIL>" in where["show"]
    assert "EMAIL" in where["spans"]


def everything_shown(url: str, folder: Path, run: str) -> dict[str, str]:
    page = folder.parent / f"{folder.name}.html"

    def show(*arguments: str) -> str:
        return capataz(url, *arguments)

    names = [row["run_id"] for row in json.loads(show("runs", "--json"))]
    pages = ""
    for name in names:
        show("show", name, "--html", str(page))
        pages += page.read_text()
    return {
        "runs": show("runs") + show("runs", "--json"),
        "show": "".join(show("show", name) + show("show", name, "--json") for name in names),
        "page": pages,
        "inbox": show("inbox") + show("inbox", "show", run) + show("inbox", "--json"),
        "conversations": show("conversations") + show("conversations", "show", "c"),
        "models": show("models", "learned"),
    }


def test_a_person_may_see_their_own_log(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"

    async def run() -> None:
        async with App(url) as app:
            await Agent("canary", ScriptedModel("hello"), role="talking").arun(TASK, app=app)

    asyncio.run(run())
    shown = CliRunner().invoke(main, ["show", "--store", url, "--reveal"]).output
    assert found(shown, "said by the person") == ["said by the person"]
