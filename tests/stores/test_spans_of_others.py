"""Spans of other runtimes are unique, and a record of one is told anew as a whole; our own logs never are."""

from __future__ import annotations

import base64
from pathlib import Path

from capataz.ports import RecordStore
from capataz.stores.memory import MemoryStore
from capataz.stores.sealing import Seal
from capataz.stores.sqlite import SqliteStore
from capataz.testing.record_conformance import RecordConformance, span


class TestSqliteRecords(RecordConformance):
    def make_store(self, folder: Path) -> RecordStore:
        return SqliteStore(folder / "capataz.db")


class TestMemoryRecords(RecordConformance):
    durable = False

    def make_store(self, folder: Path) -> RecordStore:
        return MemoryStore()


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
