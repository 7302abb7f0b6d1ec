"""The webhook: a signed word that a run waits, sent beside the run and never in its way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from capataz import Agent, App, Escalated, Misuse, tool
from capataz.events.facts import Fault
from capataz.runtime.webhook import SIGNATURE, TIMESTAMP, Webhook, signed, verify
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says

SECRET = "a secret both sides know"
REFUSED = Fault("auth", "key", "the key of ana@example.com was refused", 401)


@dataclass
class Receiver:
    """The system of a person: it keeps what it is told and answers with its statuses, the last one for ever."""

    url: str = ""
    statuses: list[int] = field(default_factory=lambda: [204])
    bodies: list[bytes] = field(default_factory=list[bytes])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    hang: bool = False

    async def take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.hang:
            await asyncio.Event().wait()
        status = self.statuses[min(len(self.bodies), len(self.statuses)) - 1]
        return web.Response(status=status, headers={"location": self.url} if status == 307 else {})


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    monkeypatch.setenv("CAPATAZ_WEBHOOK_SECRET", SECRET)
    found = Receiver()
    server = web.Application()
    server.router.add_post("/hook", found.take)
    runner = web.AppRunner(server, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield found
    await runner.cleanup()


def app_of(receiver: Receiver, clock: FakeClock) -> App:
    return App(MemoryStore(), clock=clock, chance=FakeChance(), webhook=receiver.url)


async def escalate(receiver: Receiver, clock: FakeClock, model: ScriptedModel | None = None, tools: Any = ()) -> str:
    async with app_of(receiver, clock) as app:
        agent = Agent("clerk", model or ScriptedModel(REFUSED), tools, role="acting" if tools else "talking")
        outcome = await agent.arun("write to ana@example.com", app=app)
        assert isinstance(outcome, Escalated)
        return outcome.run


async def test_it_is_told_signed_and_masked(receiver: Receiver) -> None:
    clock = FakeClock()
    run = await escalate(receiver, clock)
    [body], [headers] = receiver.bodies, receiver.headers
    told = json.loads(body)
    assert (told["event"], told["run"], told["agent"], told["reason"]) == ("run.escalated", run, "clerk", "auth")
    assert told["answers"] == ["retry", "answer", "abort"]
    assert told["task"] == "write to <EMAIL>"
    assert b"ana@example.com" not in body
    assert SECRET.encode() not in body
    assert verify(SECRET, body, headers, clock.now())


async def test_an_approval_is_told_with_what_would_run(receiver: Receiver) -> None:
    @tool(kind="write", target="to", approve=True)
    def transfer(eur: int, to: str) -> str:
        """Send money."""
        return "sent"

    await escalate(receiver, FakeClock(), ScriptedModel(calls(("transfer", {"eur": 5, "to": "A"}))), [transfer])
    told = json.loads(receiver.bodies[0])
    assert told["approval"]["shown"] == 'transfer(eur=5, to="A")'
    assert told["approval"]["arguments"] == {"eur": 5, "to": "A"}
    assert "approve" in told["answers"]


async def test_code_that_is_not_asynchronous_tells_it_too(receiver: Receiver) -> None:
    app = App(MemoryStore(), clock=FakeClock(), webhook=receiver.url)
    agent = Agent("clerk", ScriptedModel(REFUSED), role="talking")
    outcome = await asyncio.to_thread(agent.run, "hi", app=app)
    assert isinstance(outcome, Escalated)
    assert [json.loads(body)["run"] for body in receiver.bodies] == [outcome.run]


async def test_a_run_that_ends_by_itself_tells_nobody(receiver: Receiver) -> None:
    async with app_of(receiver, FakeClock()) as app:
        await Agent("clerk", ScriptedModel(says("hello")), role="talking").arun("hi", app=app)
    assert receiver.bodies == []


@pytest.mark.parametrize(
    ("statuses", "sent", "given_up"),
    [
        ([503, 204], 2, 0),
        ([429, 500, 204], 3, 0),
        ([500], 3, 1),
        ([401], 1, 1),
        ([307], 1, 1),
    ],
)
async def test_it_is_tried_a_bounded_number_of_times(
    receiver: Receiver, statuses: list[int], sent: int, given_up: int
) -> None:
    receiver.statuses = statuses
    hook = Webhook(receiver.url, SECRET, FakeClock())
    hook.tell({"run": "r"})
    await hook.drain()
    assert (len(receiver.bodies), hook.failed) == (sent, given_up)


async def test_nobody_there_is_no_error_of_the_run(receiver: Receiver) -> None:
    receiver.url = "http://127.0.0.1:9/hook"
    await escalate(receiver, FakeClock())


async def test_a_receiver_that_takes_nothing_is_told_of_once_and_so_is_the_end_of_it(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.statuses = [403, 403, 403, 204]
    hook = Webhook(receiver.url, SECRET, FakeClock())
    for rule in ("loops", "errors", "cost", "silence"):
        hook.tell({"event": "alert", "rule": rule})
        await hook.drain()
    assert hook.failed == 3
    begun, ended = caplog.messages
    assert begun.startswith("the webhook at 127.0.0.1 does not take what it is told: status 403 (told again every")
    assert ended == "over after 0 s and 3 times: the webhook at 127.0.0.1 does not take what it is told"


async def test_a_receiver_that_hangs_holds_nothing_up(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capataz.runtime.webhook.DRAIN", 0.2)
    receiver.hang = True
    app = app_of(receiver, FakeClock())
    async with asyncio.timeout(20):
        outcome = await Agent("clerk", ScriptedModel(REFUSED), role="talking").arun("hi", app=app)
        assert isinstance(outcome, Escalated)
        await app.close()


@pytest.mark.parametrize(
    "forge",
    [
        lambda body, headers: (body + b" ", headers),
        lambda body, headers: (body, {**headers, TIMESTAMP: "1000001"}),
        lambda body, headers: (body, {**headers, SIGNATURE: headers[SIGNATURE][:-1] + "x"}),
        lambda body, headers: (body, {**headers, SIGNATURE: "é"}),
        lambda body, headers: (body, {TIMESTAMP: headers[TIMESTAMP]}),
        lambda body, headers: (body, {}),
        lambda body, headers: (body, {TIMESTAMP: "999000", SIGNATURE: signed(SECRET, "999000", body)}),
    ],
)
def test_what_was_changed_or_is_old_does_not_verify(
    forge: Callable[[bytes, dict[str, str]], tuple[bytes, dict[str, str]]],
) -> None:
    body = b'{"run": "r"}'
    headers = {TIMESTAMP: "1000000", SIGNATURE: signed(SECRET, "1000000", body)}
    assert verify(SECRET, body, headers, 1_000_010.0)
    assert not verify("another secret", body, headers, 1_000_010.0)
    changed, forged = forge(body, headers)
    assert not verify(SECRET, changed, forged, 1_000_010.0)


def test_an_address_or_a_secret_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAPATAZ_WEBHOOK_SECRET", raising=False)
    with pytest.raises(Misuse, match="CAPATAZ_WEBHOOK_SECRET"):
        App("memory:", webhook="https://example.com/hook")
    monkeypatch.setenv("CAPATAZ_WEBHOOK_SECRET", SECRET)
    for url in ("example.com/hook", "ftp://example.com", "https://"):
        with pytest.raises(Misuse, match="webhook"):
            App("memory:", webhook=url)
    assert SECRET not in repr(App("memory:", webhook="https://example.com/hook")._webhook)
