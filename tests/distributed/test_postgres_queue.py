"""What waits for a person goes on however the answer and the end of the work meet; and what a claim looks at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg
import pytest

from capataz.events.facts import EscalationAnswered, Event, RunEscalated, RunStarted
from capataz.ports import Claim, Job
from capataz.stores.postgres import PostgresStore
from capataz.stores.postgres.queue import PostgresSentQueue
from capataz.stores.postgres.server import Connection, migrations

LEASE = 60.0


@dataclass
class Meeting:
    """A run that has asked a person, and whose worker is about to say so to the queue."""

    store: PostgresStore
    queue: PostgresSentQueue
    other: Connection

    async def asked(self, run: str) -> Claim:
        await self.queue.enqueue(Job(run, "a", "t"))
        (claim,) = await self.queue.claim("w", ("a",), LEASE)
        lease = await self.store.claim(run, "w")
        asked = [Event(0, 1.0, RunStarted(run, "a", "t")), Event(1, 1.0, RunEscalated("doubt", "?"))]
        await self.store.append(lease, 0, asked)
        return claim

    async def answer(self, run: str) -> None:
        lease = await self.store.claim(run, "inbox")
        await self.store.append(lease, 2, [Event(2, 2.0, EscalationAnswered("retry", "ana"))])

    async def state(self, run: str) -> str:
        row = await self.queue.look(run)
        assert row is not None
        return row.state


@asynccontextmanager
async def meeting(database: str) -> AsyncGenerator[Meeting]:
    store = PostgresStore(database)
    await store.runs()
    with psycopg.connect(database, options="-c search_path=capataz -c lock_timeout=5s") as other:
        yield Meeting(store, store.queue(), other)
    await store.close()


async def test_an_answer_that_is_just_being_written_is_not_waited_for_and_not_lost(database: str) -> None:
    async with meeting(database) as it:
        claim = await it.asked("r")
        with it.other.transaction():
            it.other.execute("UPDATE run SET status = 'running' WHERE run = 'r'")
            begun = time.monotonic()
            assert await it.queue.finish(claim, "waiting", "doubt")
            assert time.monotonic() - begun < 2
        assert await it.state("r") == "queued"


async def test_an_answer_waits_for_the_end_of_the_work_and_no_longer(database: str) -> None:
    async with meeting(database) as it:
        await it.asked("r")
        with it.other.transaction():
            it.other.execute("UPDATE job SET state = 'waiting' WHERE run = 'r'")
            answering = asyncio.create_task(it.answer("r"))
            await asyncio.sleep(0.3)
            assert not answering.done()
        await answering
        assert await it.state("r") == "queued"


async def test_an_append_waits_for_nobody_who_claims(database: str) -> None:
    async with meeting(database) as it:
        for run in ("r", "s"):
            assert await it.queue.finish(await it.asked(run), "waiting", "doubt")
        await it.queue.enqueue(Job("mine", "a", "t"))
        with it.other.transaction():
            assert it.other.execute("SELECT run FROM claim_jobs('v', '{a}', 9, NULL, 9, '')").fetchall() == [("mine",)]
            await asyncio.wait_for(it.answer("r"), 3)
        assert [await it.state(run) for run in ("r", "s")] == ["queued", "waiting"]


async def test_a_claim_waits_for_no_job_that_somebody_holds(database: str) -> None:
    async with meeting(database) as it:
        for run in ("queued", "parked", "lapsed", "free"):
            await it.queue.enqueue(Job(run, "a", "t"))
        it.other.execute("UPDATE job SET state = 'parked', due = 0 WHERE run = 'parked'")
        it.other.execute("UPDATE job SET state = 'claimed', until = 0 WHERE run = 'lapsed'")
        it.other.commit()
        it.other.execute("SELECT 1 FROM job WHERE run <> 'free' FOR UPDATE")
        claims = await asyncio.wait_for(it.queue.claim("w", ("a",), LEASE, most=9), 3)
        assert [claim.job.run for claim in claims] == ["free"]
        it.other.rollback()
        claims = await it.queue.claim("w", ("a",), LEASE, most=9)
        assert [claim.job.run for claim in claims] == ["queued", "parked", "lapsed"]


async def test_no_answer_is_lost_and_nobody_locks_up_when_all_happens_at_once(database: str) -> None:
    async with meeting(database) as it:
        runs = [f"r{n}" for n in range(60)]
        claims = {run: await it.asked(run) for run in runs}
        before = it.other.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        stop = asyncio.Event()

        async def others() -> None:
            n = 0
            while not stop.is_set():
                await it.queue.enqueue(Job(f"other-{n}", "b", "t"))
                await it.queue.claim("w2", ("b",), LEASE, most=4)
                n += 1

        busy = asyncio.create_task(others())
        await asyncio.gather(
            *(it.queue.finish(claims[run], "waiting", "doubt") for run in runs), *(it.answer(run) for run in runs)
        )
        stop.set()
        await busy
        assert {await it.state(run) for run in runs} == {"queued"}
        it.other.rollback()
        assert (
            before
            == it.other.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
        )


# ── from earlier versions ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", [number for number, _ in migrations() if number >= 2])
async def test_what_was_answered_in_a_queue_of_every_version_goes_on(database: str, version: int) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA capataz")
        connection.execute("SET search_path TO capataz")
        connection.execute("CREATE TABLE capataz_schema (version integer NOT NULL)")
        connection.execute("INSERT INTO capataz_schema VALUES (%s)", [version])
        for number, script in migrations():
            if number <= version:
                connection.execute(script.encode())
        for run, status, engine in (
            ("waiting", "escalated", ""),
            ("answered", "running", ""),
            ("elsewhere", "running", "temporal"),
        ):
            connection.execute(
                "INSERT INTO run (run, epoch, owner, events, status) VALUES (%s, 1, 'w', 2, 'escalated')", [run]
            )
            connection.execute(
                "INSERT INTO job (run, agent, task, tenant, priority, due, engine, state, enqueued_at) "
                "VALUES (%s, 'a', 't', '', 0, 0, %s, 'waiting', 0)",
                [run, engine],
            )
            connection.execute("UPDATE run SET status = %s WHERE run = %s", [status, run])
    store = PostgresStore(database)
    queue = store.queue()
    states = {row.job.run: row.state for row in await queue.jobs()}
    assert states == {"waiting": "waiting", "answered": "queued", "elsewhere": "waiting"}
    assert await store.queue("temporal").answered() == ["elsewhere"]
    lease = await store.claim("waiting", "inbox")
    await store.append(lease, 2, [Event(2, 9.0, EscalationAnswered("retry", "ana"))])
    claims = await queue.claim("w", ("a",), LEASE, most=9)
    assert [claim.job.run for claim in claims] == ["waiting", "answered"]
    await store.close()


# ── what a claim costs ───────────────────────────────────────────────────────────────────────────────────

_MANY = (
    "INSERT INTO job (run, agent, task, tenant, priority, due, engine, state, enqueued_at, until) "
    "SELECT 'r' || n, %s, 't', CASE WHEN %s THEN 'tenant-' || n %% 60 ELSE '' END, 9, 9e9, '', %s, 0, 9e9 "
    "FROM generate_series(1, 3000) AS n"
)
_RUNS = (
    "INSERT INTO run (run, epoch, owner, status) SELECT 'r' || n, 1, 'w', 'escalated' FROM generate_series(1, 3000) n"
)
_LOOKED_AT = (
    "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables WHERE relname IN ('job', 'run', 'tenant')"
)


def claiming(connection: Connection) -> int:
    """Rows that are looked at to claim sixteen jobs."""
    with connection.transaction():
        for n in range(20):
            connection.execute(
                "INSERT INTO job (run, agent, task, tenant, priority, due, engine, state, enqueued_at) "
                "VALUES (%s, 'a', 't', '', 10, 0, '', 'queued', 0)",
                [f"mine-{n}"],
            )
    with connection.transaction(force_rollback=True):
        taken = connection.execute("SELECT run FROM claim_jobs('w', '{a,b}', 9, NULL, 16, '')").fetchall()
        assert [run for (run,) in taken] == [f"mine-{n}" for n in range(16)]
        row = connection.execute(_LOOKED_AT).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("agent", "others", "state"),
    [
        pytest.param("a", False, "waiting", id="that wait for people"),
        pytest.param("z", False, "queued", id="of another fleet"),
        pytest.param("a", False, "parked", id="parked"),
        pytest.param("a", False, "done", id="over"),
        pytest.param("a", True, "claimed", id="at work for other tenants"),
        pytest.param("a", False, "queued", id="queued"),
    ],
)
async def test_a_claim_looks_at_nothing_it_cannot_take(database: str, agent: str, others: bool, state: str) -> None:
    async with meeting(database) as it:
        it.other.execute(_RUNS)
        it.other.execute(_MANY, [agent, others, state])
        it.other.commit()
        it.other.execute("ANALYZE")
        it.other.commit()
        assert claiming(it.other) < 100
