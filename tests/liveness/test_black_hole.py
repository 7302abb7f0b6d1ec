"""A server that accepts and never answers stands behind every kind of external call in turn: none waits for ever."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from capataz import Agent, App, Deadlines, Escalated, Fault, Policy, tool
from capataz.checks import Check, CheckContext, evaluate, http_answers
from capataz.events.facts import Call, Event, RunStarted
from capataz.mistakes import ModelRefused, StoreError
from capataz.models.providers import resolve
from capataz.ports import ModelRequest
from capataz.runtime import supervise
from capataz.runtime.webhook import Webhook
from capataz.runtime.world import RealClock
from capataz.stores.sqlite import SqliteStore
from capataz.testing.scripted import ScriptedModel, calls
from capataz.tools.call import use
from capataz.tools.effects import confirm
from capataz.tools.signature import ToolContext
from capataz.tools.usercode import Threads
from tests.liveness.conftest import Yard

LIMIT, SLACK = 0.2, 1.5
Wait = Callable[[str], Awaitable[None]]


@pytest.fixture
async def hole() -> AsyncIterator[str]:
    """Host and port of a server that reads and says nothing."""
    open_ones: list[asyncio.StreamWriter] = []

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.append(writer)
        while await reader.read(65536):
            pass

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for writer in open_ones:
        writer.close()


def ask(place: str) -> str:
    """What a careless tool does: no time limit of its own."""
    host, _, port = place.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.settimeout(2.0)  # only so that the thread of this test ends one day
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return connection.recv(1).decode()


async def a_model(place: str, provider: str) -> None:
    model, name = resolve(f"{provider}:m", base_url=f"http://{place}", api_key="any")
    limits = Deadlines(connect=LIMIT, first_byte=LIMIT, silence=LIMIT, total=LIMIT)
    with pytest.raises(ModelRefused):
        await model.complete(ModelRequest(name, "", [], deadlines=limits), lambda: None)
    await model.close()


async def a_tool(place: str) -> None:
    look = tool(kind="read", timeout=LIMIT)(ask)
    call = Call(1, 0, "c", look.name, {"place": place}, kind="read")
    threads = Threads(2)
    used = await use(look, call, ToolContext("r", 1, "k", lambda _: None), threads=threads)
    assert used.error
    assert threads.leaked == 1


async def a_read_back(place: str) -> None:
    act = tool(kind="write", confirm=lambda place, **_: ask(place))(ask)
    call = Call(1, 0, "c", act.name, {"place": place}, kind="write")
    answer, words = await confirm(act, call, None, "k", phase="after", threads=Threads(1), seconds=LIMIT)
    assert (answer, words) == ("unknown", "confirm gave no answer within 0.2 s")


CONTEXT = CheckContext("r", "", (), 0.0)


async def a_check(place: str) -> None:
    passed, words = await evaluate(Check("there", lambda _: (bool(ask(place)), ""), LIMIT), CONTEXT)
    assert not passed
    assert "no answer within 0.2 s" in words


async def an_http_check(place: str) -> None:
    passed, words = await evaluate(http_answers(f"http://{place}/", timeout=LIMIT), CONTEXT)
    assert not passed
    assert "no answer within 0.2 s" in words


CALLS: dict[str, Wait] = {
    "openai": lambda place: a_model(place, "openai"),
    "anthropic": lambda place: a_model(place, "anthropic"),
    "tool": a_tool,
    "read-back": a_read_back,
    "check": a_check,
    "http check": an_http_check,
}


@pytest.mark.parametrize("name", list(CALLS))
async def test_no_call_waits_for_ever(name: str, hole: str) -> None:
    begun = time.monotonic()
    await CALLS[name](hole)
    assert time.monotonic() - begun < LIMIT + SLACK


async def test_a_webhook_that_swallows_everything_holds_up_no_run(hole: str) -> None:
    hook = Webhook(f"http://{hole}/", "secret", RealClock())
    begun = time.monotonic()
    hook.tell({"run": "r"})
    assert time.monotonic() - begun < 0.1
    for task in tuple(hook._sending):
        task.cancel()
    await asyncio.sleep(0)


async def test_a_store_whose_disk_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    store = SqliteStore(path, timeout=LIMIT, busy=20.0)
    lease = await store.claim("r", "w")
    other = sqlite3.connect(path, isolation_level=None, timeout=1)
    other.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    with pytest.raises(StoreError, match=r"no answer for 0\.2 s"):
        await store.append(lease, 0, [Event(0, 0.0, RunStarted("r", "a", "t"))])
    with pytest.raises(StoreError, match=r"no answer for 0\.2 s"):
        await store.queue().claim("w", ("a",), 1.0)
    assert time.monotonic() - begun < 2 * LIMIT + SLACK
    other.execute("ROLLBACK")
    other.close()
    await store.close()


async def test_a_supervisor_that_swallows_everything(yard: Yard, hole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "SUPERVISOR_SECONDS", LIMIT)
    down = Fault("transient", "status-500", "down", retries=0)
    agent = Agent("a", ScriptedModel(down), role="talking", supervisor=lambda _: ask(hole), policy=Policy())
    begun = time.monotonic()
    outcome = await agent.arun("go", app=yard.app)
    assert isinstance(outcome, Escalated)
    assert time.monotonic() - begun < LIMIT + SLACK


async def test_a_hanging_app_can_still_be_closed(tmp_path: Path, hole: str) -> None:
    async with App(f"sqlite:///{tmp_path / 'capataz.db'}") as app:
        look = tool(kind="read", timeout=30)(ask)
        agent = Agent("a", ScriptedModel(calls(("ask", {"place": hole}))), tools=[look], role="talking")
        running = asyncio.create_task(agent.arun("go", app=app))
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert time.monotonic() - begun < SLACK
