"""The process is killed at any instant: what was acknowledged is there, in order, and the list agrees with the log."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from capataz.stores.index import Progress
from capataz.stores.sqlite import SqliteStore

WRITER = """
import asyncio, os, sys
from capataz.events.facts import Event, RunStarted, WaitEnded
from capataz.stores.sqlite import SqliteStore

async def one(store, run):
    lease = await store.claim(run, "w")
    seq = 0
    while True:
        batch = [Event(seq + n, 1.0, WaitEnded(seq + n) if seq + n else RunStarted(run, "a", "t")) for n in range(2)]
        await store.append(lease, seq, batch)
        seq += 2
        os.write(1, f"{run} {seq}\\n".encode())

async def main():
    store = SqliteStore(sys.argv[1])
    await asyncio.gather(*(one(store, f"{sys.argv[2]}-{n}") for n in range(8)))

asyncio.run(main())
"""


def killed_after(path: Path, name: str, seconds: float) -> dict[str, int]:
    """Start a writer, kill it -9 this long after its first acknowledgement; how far each run was acknowledged."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(seconds)
        child.kill()
        lines = (first + child.stdout.read()).decode().splitlines()
        child.wait(10)
    return {run: int(seq) for run, seq in (line.split() for line in lines if line.count(" ") == 1)}


@pytest.mark.parametrize("round_", range(8))
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, round_: int) -> None:
    path = tmp_path / "capataz.db"
    chance = random.Random(round_)
    acknowledged: dict[str, int] = {}
    for life in range(2):
        acknowledged |= killed_after(path, f"life{life}", chance.uniform(0.0, 0.15))
    store = SqliteStore(path)
    assert acknowledged
    for run, count in acknowledged.items():
        events = await store.read(run)
        assert len(events) >= count
        assert [event.seq for event in events] == list(range(len(events)))
        assert len(events) % 2 == 0, "an append is written whole or not at all"
    for row in await store.runs(limit=100):
        progress = Progress()
        for event in await store.read(row.run):
            progress.fold(event)
        assert (row.events, row.status, row.spend.seconds) == (progress.events, progress.status, progress.seconds)
    await store.close()
