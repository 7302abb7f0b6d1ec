"""One balance for many machines: never overspent, whatever is killed, cut or asked for at once."""

from __future__ import annotations

import asyncio
import random
from decimal import Decimal

import psycopg

from capataz.money.accounts import Limit
from capataz.stores.postgres import PostgresStore
from capataz.testing.account_conformance import Desk, replied, wanted
from tests.money.test_balances import killed_with_a_call_in_flight, two_hundred_runs

LIMIT = Limit("tenant", "acme", "total", tokens=3000)


async def test_two_hundred_runs_in_four_processes_never_overspend_one_balance(database: str) -> None:
    store = PostgresStore(database)
    await store.claim("made", "before the race")
    await two_hundred_runs(database, store)


async def test_a_worker_killed_with_a_call_in_flight_loses_no_reservation_and_frees_none(database: str) -> None:
    await killed_with_a_call_in_flight(database)


async def test_a_connection_that_breaks_while_reserving_makes_no_call_count_twice_or_not_at_all(database: str) -> None:
    """The server's sessions are ended at random moments: what was answered is what is held."""
    desks = [Desk(PostgresStore(database)) for _ in range(3)]
    for n in range(120):
        await desks[n % 3].begin(f"r{n}")
    done = asyncio.Event()

    async def cut() -> int:
        count = 0
        chance = random.Random(7)
        while not done.is_set():
            await asyncio.to_thread(end_sessions, database)
            count += 1
            await asyncio.sleep(chance.uniform(0.0, 0.15))
        return count

    async def call(n: int) -> bool:
        """Whether the second call, which is left under way, was admitted."""
        desk, run = desks[n % 3], f"r{n}"
        if await desk.asked(run, wanted(50), LIMIT) is not None:
            return False
        await desk.end(run, replied(10, "0.01"))
        await asyncio.sleep(n / 100)
        return await desk.asked(run, wanted(50), LIMIT) is None

    cutting = asyncio.create_task(cut())
    admitted = await asyncio.gather(*(call(n) for n in range(120)))
    done.set()
    assert await cutting > 3
    with psycopg.connect(database) as connection:
        held = {run for (run,) in connection.execute("SELECT run FROM capataz.reservation")}
    (row,) = await desks[0].accounts.spent("tenant")
    assert held == {f"r{n}" for n in range(120) if admitted[n]}
    assert row.tokens == row.calls * 10
    assert (row.guessed, row.over) == (0, 0)
    assert 3000 - 50 < row.tokens + 50 * len(held) <= 3000
    for desk in desks:
        await desk.store.close()


def end_sessions(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def test_accounts_under_several_limits_are_taken_in_one_order(database: str) -> None:
    """Two that reserve on the same accounts the other way round wait for one another, and neither is refused for it."""
    limits = [Limit("tenant", "acme", "day", tokens=10**9), Limit("user", "*", "day", tokens=10**9)]
    desks = [Desk(PostgresStore(database)) for _ in range(4)]

    async def call(n: int) -> None:
        desk = desks[n % 4]
        await desk.begin(f"r{n}")
        for _ in range(5):
            assert await desk.asked(f"r{n}", wanted(5), *limits[:: 1 if n % 2 else -1]) is None
            await desk.end(f"r{n}", replied(5, "0.01"))

    await asyncio.gather(*(call(n) for n in range(80)))
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row == (0,)
    assert await desks[0].used() == (80 * 5 * 5, Decimal(4))
    for desk in desks:
        await desk.store.close()
