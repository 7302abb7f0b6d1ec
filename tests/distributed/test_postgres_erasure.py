"""Erasure, retention and encryption keep the same promises in PostgreSQL as in a file."""

from __future__ import annotations

import psycopg
import pytest

from capataz.events.facts import Event, RunStarted
from capataz.mistakes import Sealed, StoreError
from capataz.ports import Job, KeptSpan
from capataz.runtime.erasing import erase, sweep
from capataz.stores.postgres import PostgresStore
from capataz.stores.sealing import SHOWN, Seal
from tests.distributed.test_postgres_conversations import everything
from tests.stores.test_erasure import SAID, conversed, driven, hold

KEY = "A" * 43 + "="


@pytest.mark.parametrize("keys", [(), (KEY,)])
async def test_what_was_said_is_gone_and_the_log_still_folds(database: str, keys: tuple[str, ...]) -> None:
    store = PostgresStore(database, seal=Seal(keys))
    await hold(store, await driven(store))
    await store.close()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        rows = [
            connection.execute(f"SELECT * FROM capataz.{name}".encode()).fetchall() for name in ("event", "run", "job")
        ]
    assert [word for word in SAID if word in str(rows)] == []


async def test_retention_leaves_what_is_young_or_not_over(database: str) -> None:
    store = PostgresStore(database)
    old = await driven(store)
    lease = await store.claim("open", "w")
    await store.append(lease, 0, [Event(0, 1.0, RunStarted("open", "a", "secret"))])
    (ended,) = [row.ended_at or 0.0 for row in await store.runs() if row.run == old]
    assert await sweep(store, ended) == 0
    assert await sweep(store, ended + 1) == 1
    assert await sweep(store, ended + 1) == 0
    with pytest.raises(StoreError, match="not over"):
        await erase(store, "open")
    await store.close()


async def test_what_its_conversation_keeps_of_an_erased_run_goes_too(database: str) -> None:
    await conversed(PostgresStore(database))
    assert "Ana P" not in everything(database)


async def test_the_spans_of_a_run_go_with_what_it_said(database: str) -> None:
    store = PostgresStore(database)
    run = await driven(store)
    await store.spans().keep([KeptSpan(run, "s", 1.0, b"a canary"), KeptSpan("t", "s", 1.0, b"{}")], 1.0, 10)
    await erase(store, run)
    assert [await store.spans().of(name) for name in (run, "t")] == [[], [KeptSpan("t", "s", 1.0, b"{}")]]
    assert await store.spans().open(before=9.0) == [("t", 1.0)]
    await store.close()


async def test_without_the_key_nothing_is_read_and_a_job_is_left_to_others(database: str) -> None:
    store = PostgresStore(database, seal=Seal((KEY,)))
    lease = await store.claim("r", "w")
    await store.append(lease, 0, [Event(0, 1.0, RunStarted("r", "a", "secret"))])
    await store.queue().enqueue(Job("j", "a", "secret too"))
    with psycopg.connect(database) as connection:
        rows = [
            connection.execute(f"SELECT * FROM capataz.{name}".encode()).fetchall() for name in ("event", "run", "job")
        ]
    assert "secret" not in str(rows)
    blind = PostgresStore(database)
    with pytest.raises(Sealed):
        await blind.read("r")
    assert [row.task for row in await blind.runs()] == [SHOWN]
    assert await blind.queue().claim("w", ("a",), 5.0) == []
    row = await store.queue().look("j")
    assert row is not None
    assert (row.state, row.job.task, row.crashes.total) == ("queued", "secret too", 0)
    await blind.close()
    await store.close()
