"""What was said leaves the logs of runs that are over; what is left folds to the same end. On SQLite; PostgreSQL too,
where there is one (tests/distributed)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from capataz import Agent, App, ToolContext, tool
from capataz.events.codec import decode, encode
from capataz.events.facts import Call, Event, ModelReplied, RunEnded, RunStarted, ToolFinished
from capataz.guards.catalogue import default_guards
from capataz.guards.watch import Watch
from capataz.kernel.evolve import fold
from capataz.kernel.state import Rules
from capataz.memory.conversation import Told
from capataz.mistakes import Misuse, NotFound, Sealed, StoreError
from capataz.policy.policy import Policy
from capataz.ports import Store
from capataz.privacy.erase import MARK, digest, erased, is_erased
from capataz.runtime.erasing import erase, sweep
from capataz.runtime.handle import queue_of
from capataz.runtime.report import outcome_of
from capataz.stores.memory import MemoryStore
from capataz.stores.sealing import Seal
from capataz.stores.sqlite import SqliteStore
from capataz.testing.scripted import ScriptedModel, calls, says

SAID = ("Ana Pérez", "ana@example.org", "order-4711", "flowers")
RULES = Rules(Policy(), Watch(default_guards()))


@tool(kind="write", target="order", confirm=lambda order, **_: True)
def refund(order: str, note: str, context: ToolContext) -> dict[str, str]:
    return {"ana@example.org": f"refunded {order}"}


def clerk() -> Agent:
    asks = calls(("refund", {"order": "order-4711", "note": "flowers for Ana Pérez"}))
    return Agent("clerk", ScriptedModel(asks, says("Done, Ana Pérez: order-4711.")), tools=[refund])


async def driven(store: Store) -> str:
    app, agent = App(store), clerk()
    handle = await agent.asubmit("Refund order-4711 of Ana Pérez, ana@example.org", app=app)
    await app.worker(agent).work(until_idle=True)
    return handle.run


async def hold(store: Store, run: str) -> None:
    """The promises, whatever the store."""
    before = await store.read(run)
    assert all(word in str(before) for word in SAID)
    done = await erase(store, run)
    after = await store.read(run)
    row = await queue_of(store).look(run)
    assert row is not None
    rest = f"{after} {await store.runs()} {row}"
    assert [word for word in SAID if word in rest] == []
    was, now = fold(RULES, before), fold(RULES, after)
    assert (now.over, now.spend) == (was.over, was.spend)
    assert (outcome_of(now).name, outcome_of(now).reason) == (outcome_of(was).name, outcome_of(was).reason)
    assert [type(event.fact) for event in after] == [type(event.fact) for event in before]
    first = before[0].fact
    assert isinstance(first, RunStarted)
    kept = after[0].fact
    assert isinstance(kept, RunStarted)
    assert kept.task == digest(first.task, done.key), "whoever keeps the key can prove what stood there"
    assert is_erased(kept)
    assert (done.runs, (await erase(store, run)).runs) == (1, 1)
    assert await store.read(run) == after, "erasing again changes nothing"


async def test_what_was_said_is_gone_and_the_log_still_folds(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "capataz.db")
    await hold(store, await driven(store))
    await store.close()
    raw = await asyncio.to_thread(lambda: b"".join(path.read_bytes() for path in tmp_path.iterdir()))
    assert [word for word in SAID if word.encode() in raw] == [], "nor is it left in the file or beside it"


async def test_the_same_where_everything_is_encrypted(tmp_path: Path) -> None:
    key = "A" * 43 + "="
    store = SqliteStore(tmp_path / "capataz.db", seal=Seal((key,)))
    await hold(store, await driven(store))
    await store.close()


async def conversed(store: Any) -> None:
    """Two runs of a conversation, with a summary of both; the first is erased."""
    async with App(store) as app:
        agent = Agent("clerk", ScriptedModel("Hello, Ana Pérez", "Hello again, Ben"), role="talking")
        first = await agent.arun("I am Ana Pérez", app=app, conversation="c")
        second = await agent.arun("I am Ben", app=app, conversation="c")
        await store.conversations().leave("c", second.run, Told("Hello again, Ben", "Ana Pérez and Ben", 2))
        await erase(store, second.run)
        thread, said = await app.conversations.read("c")
        assert (thread.summary, len(said)) == ("Ana Pérez and Ben", 4), "it does not hold what was erased"
        assert [item.text for item in said[:2]] == ["I am Ana Pérez", "Hello, Ana Pérez"]
        await erase(store, first.run)
        thread, said = await app.conversations.read("c")
        assert (thread.summary, thread.summarised) == ("", 2)
        assert all(item.text.startswith(MARK) for item in said)
        assert (await agent.arun("who am I?", app=app, conversation="c")).name == "answered"


async def test_what_its_conversation_keeps_of_an_erased_run_goes_too(tmp_path: Path) -> None:
    await conversed(SqliteStore(tmp_path / "capataz.db"))
    raw = await asyncio.to_thread(lambda: b"".join(path.read_bytes() for path in tmp_path.iterdir()))
    assert "Ana Pérez".encode() not in raw


async def test_what_cannot_be_erased_as_a_whole_is_left_whole(tmp_path: Path) -> None:
    """A part of it was written with a key that is not there."""
    key = "A" * 43 + "="
    readable, sealed = SqliteStore(tmp_path / "capataz.db"), SqliteStore(tmp_path / "capataz.db", seal=Seal((key,)))
    for store, run in ((readable, "r"), (sealed, "child")):
        lease = await store.claim(run, "w")
        ended = [Event(0, 1.0, RunStarted(run, "a", "secret", root="r")), Event(1, 2.0, RunEnded("answered", "x"))]
        await store.append(lease, 0, ended)
    with pytest.raises(Sealed):
        await erase(readable, "r")
    assert "secret" in str(await readable.read("r"))
    assert (await erase(sealed, "r")).runs == 2
    assert "secret" not in str(await sealed.read("r"))
    await readable.close()
    await sealed.close()


async def test_a_run_that_is_not_over_is_left_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "capataz.db")
    lease = await store.claim("r", "w")
    await store.append(lease, 0, [Event(0, 1.0, RunStarted("r", "a", "secret"))])
    with pytest.raises(StoreError, match="run r is not over"):
        await erase(store, "r")
    (event,) = await store.read("r")
    assert event.fact == RunStarted("r", "a", "secret")
    with pytest.raises(NotFound, match="ghost"):
        await erase(store, "ghost")
    await store.close()


async def test_retention_erases_what_ended_before_a_time_and_nothing_else(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "capataz.db")
    old, young = await driven(store), await driven(store)
    ends = {row.run: row.ended_at or 0.0 for row in await store.runs()}
    seen: list[str] = []
    assert await sweep(store, ends[old], seen.append) == 0
    assert await sweep(store, ends[young], seen.append) == 1
    assert seen == [old]
    assert is_erased((await store.read(old))[0].fact)
    assert not is_erased((await store.read(young))[0].fact)
    assert await sweep(store, ends[young] + 1, seen.append) == 1
    assert await sweep(store, ends[young] + 1, seen.append) == 0
    await store.close()


async def test_a_store_that_cannot_erase_says_so() -> None:
    with pytest.raises(Misuse, match="MemoryStore cannot erase"):
        await erase(MemoryStore(), "r")


def test_only_what_was_said_is_taken_and_repetition_still_shows() -> None:
    call = Call(1, 0, "c1", "find", {"q": "Ana", "page": 2}, kind="search", target="Ana")
    reply = erased(Event(3, 5.0, ModelReplied(1, 1, "Ana", (call, call), stop="calls")), b"k").fact
    assert isinstance(reply, ModelReplied)
    one, two = reply.calls
    assert one == two
    assert (one.tool, one.kind, one.id, one.turn, reply.stop) == ("find", "search", "c1", 1, "calls")
    assert set(one.arguments) == {"q", "page"}
    assert one.arguments["q"] == one.target == reply.text
    assert str(one.arguments["page"]).startswith(MARK)
    finished = Event(4, 6.0, ToolFinished(call, {"Ana": 1}, full="Ana", seconds=2.5))
    again = decode(4, 6.0, encode(erased(finished, b"k")))
    assert again == erased(finished, b"k")
    assert "Ana" not in str(again)
    assert erased(again, b"other") == again
