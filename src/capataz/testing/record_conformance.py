"""What every store of records must keep, each promise a test: spans are unique, and a record is told anew as a whole.

    class TestMyRecords(RecordConformance):
        def make_store(self, folder: Path) -> RecordStore:
            return MyStore(folder / "log")

`make_store` called twice with one folder must give two stores on the same spans, unless `durable` is False.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from capataz.events.facts import Event, MessageReceived, RunStarted
from capataz.mistakes import Fenced, Misuse, StoreError
from capataz.ports import KeptSpan, RecordStore
from capataz.testing.conformance import events, refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


def span(trace: str = "t", span: str = "s", ended: float = 1.0, body: bytes = b"{}") -> KeptSpan:
    return KeptSpan(trace, span, ended, body)


def record(*texts: str, source: str = "otel") -> list[Event]:
    """What a run of another runtime (or, by its `source`, of our own) has said."""
    said = (MessageReceived("user", text) for text in texts)
    return events([RunStarted("r", "a", "task", source=source), *said])


class RecordConformance:
    """The suite. Subclass it, name the subclass `Test…`, and give it `make_store`."""

    durable = True
    """Whether a second store on the same folder sees what the first one wrote."""

    def make_store(self, folder: Path) -> RecordStore:
        raise NotImplementedError("give your test class a make_store")

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[RecordStore]:
        store = self.make_store(folder)
        try:
            yield store
        finally:
            await store.close()

    # ── spans ────────────────────────────────────────────────────────────────────────────────────────────

    async def test_what_comes_twice_is_there_once_and_is_no_news(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            book = store.spans()
            assert await book.keep([span(), span(span="u")], 1.0, 10) == (frozenset({"t"}), 0)
            assert await book.keep([span(), span(span="u")], 2.0, 10) == (frozenset(), 0)
            assert len(await book.of("t")) == 2
            assert await book.open(before=1.5) == [("t", 1.0)]

    async def test_the_later_snapshot_stays_whatever_the_order_of_arrival(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            book = store.spans()
            await book.keep([span(ended=5.0, body=b"late")], 1.0, 10)
            assert (await book.keep([span(ended=3.0, body=b"early")], 2.0, 10))[0] == frozenset()
            assert [kept.body for kept in await book.of("t")] == [b"late"]
            await book.keep([span(ended=7.0, body=b"latest")], 3.0, 10)
            assert [kept.body for kept in await book.of("t")] == [b"latest"]
            assert await book.open(before=9.0) == [("t", 3.0)]

    async def test_a_body_may_hold_anything(self, tmp_path: Path) -> None:
        body = bytes(range(256))
        async with self.opened(tmp_path) as store:
            await store.spans().keep([span(body=body)], 1.0, 10)
            assert await store.spans().of("t") == [span(body=body)]

    async def test_a_full_trace_refuses_new_spans_and_still_takes_snapshots(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            book = store.spans()
            assert await book.keep([span(), span(span="u"), span(span="v")], 1.0, 2) == (frozenset({"t"}), 1)
            assert await book.keep([span(ended=9.0), span(trace="o")], 1.0, 2) == (frozenset({"t", "o"}), 0)

    async def test_a_trace_is_settled_unless_news_came_in_between_and_then_forgotten(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            book = store.spans()
            await book.keep([span()], 1.0, 10)
            await book.keep([span(span="u")], 2.0, 10)
            await book.settle("t", 1.0)
            assert await book.open(before=9.0) == [("t", 2.0)]
            assert await book.forget(before=9.0) == 0
            await book.settle("t", 2.0)
            assert await book.open(before=9.0) == []
            assert await book.forget(before=2.0) == 0
            assert await book.forget(before=9.0) == 1
            assert await book.of("t") == []
            assert await book.keep([span()], 9.0, 10) == (frozenset({"t"}), 0)

    async def test_many_at_once_lose_no_span_and_fill_no_trace_beyond_its_room(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as other:
            books = [one.spans(), other.spans() if self.durable else one.spans()]
            batches = [[span(f"t{t}", f"s{n}-{s}") for t in range(3) for s in range(4)] for n in range(20)]
            done = [books[n % 2].keep(batch if n % 3 else batch[::-1], 1.0, 50) for n, batch in enumerate(batches)]
            refused_ones = sum(count for _, count in await asyncio.gather(*done))
            assert [len(await one.spans().of(f"t{t}")) for t in range(3)] == [50] * 3
            assert refused_ones == 3 * (80 - 50)

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────

    async def test_a_record_is_told_anew(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "me")
            await store.rewrite(lease, record("a", "b", "c"))
            assert await store.read("r") == record("a", "b", "c")
            await store.rewrite(lease, record("d"))
            assert await store.read("r") == record("d")
            assert [row.events for row in await store.runs()] == [2]
            await store.append(lease, 2, [Event(2, 103.0, MessageReceived("user", "e"))])
            assert len(await store.read("r")) == 3

    async def test_a_log_of_our_own_is_never_told_anew(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "me")
            own = record("a", source="capataz")
            assert "no record of another runtime" in await refused(store.rewrite(lease, own), Misuse)
            await store.append(lease, 0, own)
            assert "log of our own" in await refused(store.rewrite(lease, record("b")), Fenced)
            assert await store.read("r") == own

    async def test_whoever_lost_the_run_rewrites_nothing(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            old = await store.claim("r", "me")
            await store.rewrite(await store.claim("r", "other"), record("a"))
            await refused(store.rewrite(old, record("b")), Fenced)
            assert await store.read("r") == record("a")

    async def test_a_closed_store_says_so(self, tmp_path: Path) -> None:
        store = self.make_store(tmp_path)
        await store.close()
        assert "closed" in await refused(store.spans().of("t"), StoreError)
