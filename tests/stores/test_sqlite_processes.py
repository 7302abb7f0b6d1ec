"""Several processes share one file: nobody's events are lost, and only one of them owns a run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from capataz.events.facts import Event, RunStarted, WaitEnded
from capataz.mistakes import Fenced
from capataz.stores.sqlite import SqliteStore

WRITER = """
import asyncio, sys
from capataz.events.facts import Event, WaitEnded
from capataz.stores.sqlite import SqliteStore

async def one(store, run):
    lease = await store.claim(run, "w")
    for seq in range(40):
        await store.append(lease, seq, [Event(seq, 1.0, WaitEnded(seq))])

async def main():
    store = SqliteStore(sys.argv[1])
    await asyncio.gather(*(one(store, f"{sys.argv[2]}-{n}") for n in range(5)))
    await store.close()

asyncio.run(main())
"""

FIGHTER = """
import asyncio, sys
from capataz.events.facts import Event, WaitEnded
from capataz.mistakes import Fenced
from capataz.stores.sqlite import SqliteStore

async def main():
    store, won = SqliteStore(sys.argv[1]), 0
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


def start(program: str, path: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program, str(path), name], stdout=subprocess.PIPE, text=True)


def finish(children: list[subprocess.Popen[str]]) -> list[str]:
    said = [child.communicate(timeout=50)[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children)
    return said


async def test_processes_write_side_by_side_even_to_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    await asyncio.to_thread(finish, [start(WRITER, path, f"p{n}") for n in range(4)])
    store = SqliteStore(path)
    assert len(await store.runs()) == 20
    for row in await store.runs():
        assert [event.seq for event in await store.read(row.run)] == list(range(40))
    await store.close()


async def test_processes_that_fight_for_a_run_never_write_over_one_another(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    store = SqliteStore(path)
    lease = await store.claim("shared", "first")
    await store.append(lease, 0, [Event(0, 0.0, RunStarted("shared", "a", "t"))])
    said = await asyncio.to_thread(finish, [start(FIGHTER, path, f"p{n}") for n in range(3)])
    events = await store.read("shared")
    assert len(events) == 1 + sum(map(int, said))
    epochs = [event.fact.turn for event in events if isinstance(event.fact, WaitEnded)]
    assert epochs == sorted(set(epochs)), "each write is of a later owner than the one before it"
    with pytest.raises(Fenced):
        await store.append(lease, len(events), [Event(len(events), 0.0, WaitEnded(0))])
    await store.close()
