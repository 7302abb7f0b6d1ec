"""Spans of other runtimes are unique, and a record of one is told anew as a whole; our own logs never are."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from capataz.events.facts import Event, Fact, MessageReceived, RunStarted
from capataz.mistakes import Fenced, Misuse
from capataz.ports import KeptSpan, RecordStore
from capataz.stores.memory import MemoryStore
from capataz.stores.sealing import Seal
from capataz.stores.sqlite import SqliteStore


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RecordStore:
    return SqliteStore(tmp_path / "log.db") if request.param == "sqlite" else MemoryStore()


def span(trace: str = "t", span: str = "s", ended: float = 1.0, body: bytes = b"{}") -> KeptSpan:
    return KeptSpan(trace, span, ended, body)


async def test_what_comes_twice_is_there_once_and_is_no_news(store: RecordStore) -> None:
    book = store.spans()
    assert await book.keep([span(), span(span="u")], 1.0, 10) == (frozenset({"t"}), 0)
    assert await book.keep([span(), span(span="u")], 2.0, 10) == (frozenset(), 0)
    assert len(await book.of("t")) == 2
    assert await book.open(before=1.5) == [("t", 1.0)]
    await store.close()


async def test_the_later_snapshot_stays_whatever_the_order_of_arrival(store: RecordStore) -> None:
    book = store.spans()
    await book.keep([span(ended=5.0, body=b"late")], 1.0, 10)
    assert (await book.keep([span(ended=3.0, body=b"early")], 2.0, 10))[0] == frozenset()
    assert [kept.body for kept in await book.of("t")] == [b"late"]
    await book.keep([span(ended=7.0, body=b"latest")], 3.0, 10)
    assert [kept.body for kept in await book.of("t")] == [b"latest"]
    await store.close()


async def test_a_full_trace_refuses_new_spans_and_still_takes_snapshots(store: RecordStore) -> None:
    book = store.spans()
    assert await book.keep([span(), span(span="u"), span(span="v")], 1.0, 2) == (frozenset({"t"}), 1)
    assert await book.keep([span(ended=9.0), span(trace="other")], 1.0, 2) == (frozenset({"t", "other"}), 0)
    await store.close()


async def test_a_trace_is_settled_unless_news_came_in_between_and_then_forgotten(store: RecordStore) -> None:
    book = store.spans()
    await book.keep([span()], 1.0, 10)
    await book.keep([span(span="u")], 2.0, 10)
    await book.settle("t", 1.0)
    assert await book.open(before=9.0) == [("t", 2.0)]
    assert await book.forget(before=9.0) == 0
    await book.settle("t", 2.0)
    assert await book.open(before=9.0) == []
    assert await book.forget(before=9.0) == 1
    assert await book.of("t") == []
    await store.close()


def record(*texts: str, source: str = "otel") -> list[Event]:
    facts: list[Fact] = [
        RunStarted("r", "a", "task", source=source),
        *(MessageReceived("user", text) for text in texts),
    ]
    return [Event(seq, float(seq), fact) for seq, fact in enumerate(facts)]


async def test_a_record_is_told_anew(store: RecordStore) -> None:
    lease = await store.claim("r", "me")
    await store.rewrite(lease, record("a", "b", "c"))
    assert await store.read("r") == record("a", "b", "c")
    await store.rewrite(lease, record("d"))
    assert await store.read("r") == record("d")
    [row] = await store.runs()
    assert row.events == 2
    await store.close()


async def test_a_log_of_our_own_is_never_told_anew(store: RecordStore) -> None:
    lease = await store.claim("r", "me")
    with pytest.raises(Misuse, match="no record of another runtime"):
        await store.rewrite(lease, record(source="capataz"))
    await store.append(lease, 0, record("a", source="capataz"))
    with pytest.raises(Fenced, match="log of our own"):
        await store.rewrite(lease, record("b"))
    assert await store.read("r") == record("a", source="capataz")
    await store.close()


async def test_whoever_lost_the_run_rewrites_nothing(store: RecordStore) -> None:
    old = await store.claim("r", "me")
    await store.rewrite(await store.claim("r", "other"), record("a"))
    with pytest.raises(Fenced):
        await store.rewrite(old, record("b"))
    assert await store.read("r") == record("a")
    await store.close()


async def test_what_spans_say_is_sealed_where_there_is_a_key_and_repeats_are_still_none(tmp_path: Path) -> None:
    seal = Seal([base64.urlsafe_b64encode(bytes(32)).decode()])
    store = SqliteStore(tmp_path / "log.db", seal=seal)
    book = store.spans()
    assert (await book.keep([span(body=b"a canary")], 1.0, 10))[0] == frozenset({"t"})
    assert (await book.keep([span(body=b"a canary")], 2.0, 10))[0] == frozenset()
    assert [kept.body for kept in await book.of("t")] == [b"a canary"]
    newer = Seal([base64.urlsafe_b64encode(b"x" * 32).decode(), base64.urlsafe_b64encode(bytes(32)).decode()])
    assert await store.rekey(newer) == 1
    await store.close()
    store = SqliteStore(tmp_path / "log.db", seal=newer)
    assert [kept.body for kept in await store.spans().of("t")] == [b"a canary"]
    await store.close()
    assert all(b"canary" not in path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240 - it is a test
