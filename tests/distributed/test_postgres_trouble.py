"""Servers restart, freeze, refuse or belong to somebody else: the error says so, and what was committed is there."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time

import psycopg
import pytest

from capataz.events.codec import encode
from capataz.events.facts import Event, RunEnded, RunStarted, WaitEnded
from capataz.mistakes import Fenced, StoreError
from capataz.ports import Job, Lease
from capataz.stores.index import Progress
from capataz.stores.postgres import PostgresStore
from capataz.stores.postgres.server import migrations
from capataz.testing.servers import PASSWORD, PostgresServer, free_port, postgres_server

WRITER = """
import asyncio, os, sys
from capataz.events.facts import Event, RunStarted, WaitEnded
from capataz.stores.postgres import PostgresStore

async def one(store, run):
    lease = await store.claim(run, "w")
    seq = 0
    while seq < int(sys.argv[3]):
        batch = [Event(seq + n, 1.0, WaitEnded(seq + n) if seq + n else RunStarted(run, "a", "t")) for n in range(2)]
        await store.append(lease, seq, batch)
        seq += 2
        os.write(1, f"{run} {seq}\\n".encode())

async def main():
    store = PostgresStore(sys.argv[1])
    await asyncio.gather(*(one(store, f"{sys.argv[2]}-{n}") for n in range(8)))
    await store.close()

asyncio.run(main())
"""
FIGHTER = """
import asyncio, sys
from capataz.events.facts import Event, WaitEnded
from capataz.mistakes import Fenced
from capataz.stores.postgres import PostgresStore

async def main():
    store, won = PostgresStore(sys.argv[1]), 0
    for _ in range(60):
        lease = await store.claim("shared", sys.argv[2])
        try:
            seq = len(await store.read("shared"))
            await store.append(lease, seq, [Event(seq, 1.0, WaitEnded(lease.epoch))])
            won += 1
        except Fenced:
            pass
    await store.close()
    print(won)

asyncio.run(main())
"""


def events(first: int, count: int) -> list[Event]:
    return [Event(first + n, 1.0, WaitEnded(n) if first + n else RunStarted("r", "a", "t")) for n in range(count)]


def start(program: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True)


async def refused(store: PostgresStore) -> str:
    with pytest.raises(StoreError) as raised:
        await store.claim("r", "w")
    await store.close()
    assert PASSWORD not in str(raised.value)
    assert "capataz:" not in str(raised.value)
    return str(raised.value)


# ── a server that cannot be had ──────────────────────────────────────────────────────────────────────────


async def test_a_server_that_is_not_there_is_said_at_once(database: str) -> None:
    begun = time.monotonic()
    said = await refused(PostgresStore(f"postgresql://capataz:secret@127.0.0.1:{free_port()}/logs"))
    assert "could not claim run r in postgresql://127.0.0.1:" in said
    assert "make sure that it runs" in said
    assert time.monotonic() - begun < 5


async def test_a_wrong_password_and_a_missing_database_are_told_apart(postgres: PostgresServer) -> None:
    said = await refused(PostgresStore(f"postgresql://capataz:wrong@127.0.0.1:{postgres.port}/postgres"))
    assert "check the user, its password" in said
    assert "wrong" not in said
    assert "createdb" in await refused(PostgresStore(postgres.url("nothing")))


async def test_a_server_without_a_free_connection_says_which_limit_to_raise(
    postgres: PostgresServer,
) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS crowd")
        connection.execute("CREATE ROLE crowd LOGIN PASSWORD 'crowd' CONNECTION LIMIT 1")
    url = f"postgresql://crowd:crowd@127.0.0.1:{postgres.port}/postgres"
    with psycopg.connect(url):
        said = await refused(PostgresStore(url, schema="mine", away=0.5))
    assert "too many connections" in said
    assert "raise the server's limit (max_connections" in said


async def test_a_user_who_may_not_make_the_schema_is_told_what_to_grant(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    said = await refused(PostgresStore(f"postgresql://guest:guest@127.0.0.1:{postgres.port}/postgres", schema="mine"))
    assert "permission denied" in said
    assert "CREATE" in said


async def test_a_database_that_takes_no_writes_says_to_name_the_primary(database: str) -> None:
    store = PostgresStore(database)
    await store.claim("r", "w")
    await store.close()
    said = await refused(PostgresStore(f"{database}?options=-c%20default_transaction_read_only%3Don"))
    assert "name the primary" in said


async def test_a_schema_of_another_program_is_left_alone(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA capataz")
        connection.execute("CREATE TABLE capataz.run (mine integer)")
    assert "belongs to another program" in await refused(PostgresStore(database))
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'capataz'").fetchall() == [
            ("run",)
        ]


# ── the schema through the versions ──────────────────────────────────────────────────────────────────────


async def test_a_log_of_a_newer_version_is_left_alone(database: str) -> None:
    store = PostgresStore(database)
    await store.claim("r", "w")
    await store.close()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE capataz.capataz_schema SET version = 99")
    assert "upgrade Capataz" in await refused(PostgresStore(database))


@pytest.mark.parametrize("version", [number for number, _ in migrations()])
async def test_a_log_of_every_version_opens_today(database: str, version: int) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA capataz")
        connection.execute("SET search_path TO capataz")
        connection.execute("CREATE TABLE capataz_schema (version integer NOT NULL)")
        connection.execute("INSERT INTO capataz_schema VALUES (%s)", [version])
        for number, script in migrations():
            if number <= version:
                connection.execute(script.encode())
        connection.execute("INSERT INTO run (run, epoch, owner, events, agent) VALUES ('old', 3, 'w', 1, 'a')")
        body = encode(Event(0, 5.0, RunStarted("old", "a", "t")))
        connection.execute("INSERT INTO event SELECT id, 0, 5.0, %b FROM run", [body])
    store = PostgresStore(database)
    lease = await store.claim("old", "w")
    assert lease.epoch == 4
    await store.append(lease, 1, [Event(1, 6.0, RunEnded("answered", "answered"))])
    assert len(await store.read("old")) == 2
    queue = store.queue()
    assert await queue.enqueue(Job("new", "a", "t")) == "new"
    assert [claim.job.run for claim in await queue.claim("w", ("a",), 1.0)] == ["new"]
    await store.close()


# ── many processes, killed and frozen ones ───────────────────────────────────────────────────────────────


async def test_processes_write_side_by_side_even_to_a_new_database(database: str) -> None:
    children = [start(WRITER, database, f"p{n}", "20") for n in range(3)]
    for child in children:
        await asyncio.to_thread(child.communicate, timeout=60)
    assert [child.returncode for child in children] == [0] * 3
    store = PostgresStore(database)
    assert len(await store.runs()) == 24
    for row in await store.runs():
        assert [event.seq for event in await store.read(row.run)] == list(range(20))
    await store.close()


async def test_processes_that_fight_for_a_run_never_write_over_one_another(database: str) -> None:
    store = PostgresStore(database)
    lease = await store.claim("shared", "first")
    await store.append(lease, 0, events(0, 1))
    children = [start(FIGHTER, database, f"p{n}") for n in range(3)]
    said = [(await asyncio.to_thread(child.communicate, timeout=60))[0] for child in children]
    log = await store.read("shared")
    assert len(log) == 1 + sum(map(int, said))
    epochs = [event.fact.turn for event in log if isinstance(event.fact, WaitEnded)]
    assert epochs == sorted(set(epochs)), "each write is of a later owner than the one before it"
    with pytest.raises(Fenced):
        await store.append(lease, len(log), [Event(len(log), 0.0, WaitEnded(0))])
    await store.close()


async def test_what_was_acknowledged_survives_kill_9_of_the_writer(database: str) -> None:
    chance, acknowledged = random.Random(3), dict[str, int]()
    for life in range(4):
        child = start(WRITER, database, f"life{life}", "1000000")
        assert child.stdout is not None
        first = await asyncio.to_thread(child.stdout.readline)
        await asyncio.sleep(chance.uniform(0.0, 0.2))
        child.kill()
        said, _ = await asyncio.to_thread(child.communicate)
        acknowledged |= {line.split()[0]: int(line.split()[1]) for line in (first + said).splitlines() if " " in line}
    await hold_against(PostgresStore(database), acknowledged)


async def hold_against(store: PostgresStore, acknowledged: dict[str, int]) -> None:
    assert acknowledged
    for run, count in acknowledged.items():
        log = await store.read(run)
        assert len(log) >= count
        assert [event.seq for event in log] == list(range(len(log)))
        assert len(log) % 2 == 0, "an append is written whole or not at all"
    for row in await store.runs(limit=100):
        progress = Progress()
        for event in await store.read(row.run):
            progress.fold(event)
        assert (row.events, row.status) == (progress.events, progress.status)
    await store.close()


async def test_a_frozen_writer_does_not_hold_up_the_one_who_takes_its_runs_over(database: str) -> None:
    child = start(WRITER, database, "frozen", "1000000")
    assert child.stdout is not None
    await asyncio.to_thread(child.stdout.readline)
    store = PostgresStore(database)
    for _ in range(3):
        child.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        leases = [await store.claim(f"frozen-{n}", "heir") for n in range(8)]
        assert time.monotonic() - begun < 9, "a lock of the frozen one is taken from it after five seconds"
        assert all(lease.owner == "heir" for lease in leases)
    lengths = [len(await store.read(lease.run)) for lease in leases]
    child.send_signal(signal.SIGCONT)
    await asyncio.sleep(0.5)
    assert [len(await store.read(lease.run)) for lease in leases] == lengths, "the zombie writes nothing"
    child.kill()
    await asyncio.to_thread(child.communicate)
    await store.close()


# ── the server itself in trouble: one of its own for each of these ──────────────────────────────────────────────


async def one_run(store: PostgresStore, run: str, stop: asyncio.Event, told: dict[str, int], lost: list[str]) -> None:
    lease, seq = await store.claim(run, "w"), 0
    while not stop.is_set():
        try:
            await store.append(lease, seq, events(seq, 2))
            seq = told[run] = seq + 2
        except StoreError as error:
            lost.append(str(error))
            lease, seq = await again(store, run)


async def again(store: PostgresStore, run: str) -> tuple[Lease, int]:
    while True:
        try:
            lease = await store.claim(run, "w")
            return lease, len(await store.read(run))
        except StoreError:
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_a_restart_under_load_is_bridged_and_nothing_committed_is_lost(
    postgres: PostgresServer, how: signal.Signals
) -> None:
    with postgres_server(durable=True) as server:
        store, stop = PostgresStore(server.url()), asyncio.Event()
        told, lost = dict[str, int](), list[str]()
        runs = [asyncio.create_task(one_run(store, f"r{n}", stop, told, lost)) for n in range(8)]
        for _ in range(3):
            await asyncio.sleep(0.7)
            await asyncio.to_thread(server.stop, how)
            await asyncio.to_thread(server.start)
        await asyncio.sleep(0.7)
        stop.set()
        await asyncio.gather(*runs)
        assert lost == [], "a restart of a second or two is waited for"
        assert min(told.values()) > 20
        await hold_against(store, told)


async def test_a_server_that_stays_away_is_a_clear_error_and_then_it_goes_on(postgres: PostgresServer) -> None:
    with postgres_server() as server:
        store = PostgresStore(server.url(), away=1.0)
        lease = await store.claim("r", "w")
        await store.append(lease, 0, events(0, 1))
        server.stop(signal.SIGQUIT)
        begun = time.monotonic()
        with pytest.raises(StoreError, match=r"append to run r in postgresql://127.*nothing committed is lost"):
            await store.append(lease, 1, events(1, 1))
        with pytest.raises(StoreError, match="read run r in"):
            await store.read("r")
        assert time.monotonic() - begun < 6
        server.start()
        await store.append(lease, 1, events(1, 1))
        assert len(await store.read("r")) == 2
        await store.close()


async def test_a_frozen_server_does_not_hold_the_caller(postgres: PostgresServer) -> None:
    with postgres_server() as server:
        store = PostgresStore(server.url(), timeout=1.0)
        lease = await store.claim("r", "w")
        await store.append(lease, 0, events(0, 1))
        await store.read("r")
        server.everyone(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            with pytest.raises(StoreError, match=r"no answer for 1 s\. Whether it was done is not known"):
                await store.append(lease, 1, events(1, 1))
            with pytest.raises(StoreError, match="no answer for 1 s"):
                await store.read("r")
            assert time.monotonic() - begun < 4
        finally:
            server.everyone(signal.SIGCONT)
        await asyncio.sleep(0.5)
        lease = await store.claim("r", "heir")
        seq = len(await store.read("r"))
        assert seq in (1, 2)
        await store.append(lease, seq, events(seq, 1))
        await store.close()
