"""The commands of docs/production-cluster.md for backup and restore, run while the store is written to."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import psycopg
import pytest

from capataz.events.facts import Event, RunStarted, WaitEnded
from capataz.stores.postgres import PostgresStore
from capataz.testing.servers import PASSWORD, PostgresServer


async def write(store: PostgresStore, run: str, stop: asyncio.Event) -> None:
    lease, seq = await store.claim(run, "w"), 0
    while not stop.is_set():
        await store.append(lease, seq, [Event(seq, 1.0, WaitEnded(seq) if seq else RunStarted(run, "a", "t"))])
        seq += 1


async def test_a_dump_taken_under_load_is_whole_and_can_be_gone_on_with(
    postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    def tool(name: str, *words: str) -> None:
        command = [str(postgres.programs / name), "-h", "127.0.0.1", "-p", str(postgres.port), "-U", "capataz", *words]
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    if not (postgres.programs / "pg_dump").exists():
        pytest.skip("no pg_dump beside the server")
    store, stop = PostgresStore(database), asyncio.Event()
    writing = [asyncio.create_task(write(store, f"r{n}", stop)) for n in range(10)]
    await asyncio.sleep(1.0)
    name, copy = database.rpartition("/")[2], f"{database.rpartition('/')[2]}_copy"
    dump = tmp_path / "capataz.dump"
    await asyncio.to_thread(tool, "pg_dump", "--format=custom", "--schema=capataz", f"--file={dump}", name)
    stop.set()
    await asyncio.gather(*writing)
    await store.close()
    await asyncio.to_thread(tool, "createdb", copy)
    await asyncio.to_thread(tool, "pg_restore", "--exit-on-error", f"--dbname={copy}", str(dump))
    restored = PostgresStore(postgres.url(copy))
    rows = await restored.runs()
    assert len(rows) == 10
    for row in rows:
        log = await restored.read(row.run)
        assert [event.seq for event in log] == list(range(row.events))
        lease = await restored.claim(row.run, "heir")
        assert lease.epoch == 2, "the fence came with it"
        await restored.append(lease, row.events, [Event(row.events, 2.0, WaitEnded(0))])
    await restored.close()
    with psycopg.connect(postgres.url(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM capataz.claim_jobs('w', '{a}', 1, NULL, 1, '')").fetchone() == (
            0,
        )
