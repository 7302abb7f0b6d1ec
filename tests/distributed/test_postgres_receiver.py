"""Spans taken in by several receivers at once over one PostgreSQL database: each run is told once, and sealed."""

from __future__ import annotations

import asyncio
import base64

import psycopg

from capataz.events.facts import RunStarted
from capataz.lens.trace.fold import trace
from capataz.ports import KeptSpan
from capataz.stores.postgres import PostgresStore
from capataz.stores.sealing import Seal
from capataz.testing.scripted import FakeClock
from capataz.web.receiver import Receiver, receiver_for
from tests.web.test_received_spans import TRACE, WHOLE, model, post

KEY = base64.urlsafe_b64encode(bytes(32)).decode()


def receiver(url: str, seal: Seal | None = None) -> tuple[PostgresStore, Receiver]:
    store = PostgresStore(url, seal=seal or Seal())
    made = receiver_for(store, FakeClock())
    assert made is not None
    return store, made


async def test_spans_taken_in_by_two_at_once_make_one_run(database: str) -> None:
    here, one = receiver(database)
    there, two = receiver(database)
    counts = await asyncio.gather(*(each.take(post(span), None) for each in (one, two) for span in WHOLE))
    assert counts == [(1, 0)] * 10
    await asyncio.gather(one.sweep(), two.sweep())
    await asyncio.gather(one.tick(), two.tick())
    late = {**model("c1", "0b", 2, tokens=500), "endTimeUnixNano": str(1_780_000_000_000_000_000 + 9 * 10**9)}
    await two.take(post(late), None)
    await two.tick()
    events = await here.read(TRACE)
    assert trace(events).spend.tokens == 620
    assert isinstance(events[0].fact, RunStarted)
    assert (events[0].fact.agent, events[0].fact.source) == ("support", "otel")
    assert [row.outcome for row in await there.runs()] == ["answered"]
    await here.close()
    await there.close()


async def test_what_spans_say_is_sealed_where_there_is_a_key(database: str) -> None:
    store = PostgresStore(database, seal=Seal([KEY]))
    book = store.spans()
    span = KeptSpan("t", "s", 1.0, b"a canary")
    assert (await book.keep([span], 1.0, 10))[0] == frozenset({"t"})
    assert (await book.keep([span], 2.0, 10))[0] == frozenset()
    with psycopg.connect(database) as connection:
        assert b"canary" not in connection.execute("SELECT body FROM capataz.span").fetchall()[0][0]
    assert await book.of("t") == [span]
    await store.close()
