"""Worker processes: killed, frozen, poisoned, blocked, drained; what they leave to one another."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from capataz import Aborted, App
from capataz.cli.exits import UNFIT
from capataz.events.facts import Event, RunResumed, ToolStarted
from capataz.runtime.handle import Handle, queue_of
from tests.engines import crew

BEAT = 0.2
HERE = Path(__file__).parent


@dataclass
class Crew:
    folder: Path
    app: App
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        command = Path(sys.executable).with_name("capataz")
        words = [str(command), "worker", "crew:app", "--beat", str(BEAT), *options]
        with (self.folder / "workers.log").open("ab") as log:
            worker = subprocess.Popen(words, cwd=HERE, env={**os.environ, "CREW": str(self.folder)}, stderr=log)
        self.workers.append(worker)
        return worker

    @property
    def said(self) -> str:
        return (self.folder / "workers.log").read_text()

    def effects(self) -> list[tuple[float, int, str]]:
        path = self.folder / "effects.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(float(at), int(pid), words) for at, pid, words in (line.split(" ", 2) for line in lines)]

    async def submit(self, agent: str) -> Handle:
        known = {each.name: each for each in crew.app.agents}
        return await known[agent].asubmit("go", app=self.app)

    async def freeze(self, worker: subprocess.Popen[bytes]) -> None:
        """Stop it, but not while it holds the file: a sleeping process keeps its lock.

        A thread that is inside the kernel when the signal is sent may still take the lock there: only when all its
        threads stand still it is worth looking.
        """
        while True:
            worker.send_signal(signal.SIGSTOP)
            await asyncio.to_thread(os.waitid, os.P_PID, worker.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            other = sqlite3.connect(self.folder / "capataz.db", timeout=0.2, isolation_level=None)
            try:
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
                return
            except sqlite3.OperationalError:
                worker.send_signal(signal.SIGCONT)
                await asyncio.sleep(0.01)
            finally:
                other.close()

    async def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        limit = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < limit, f"not within {seconds} s\n{self.said}"
            await asyncio.sleep(0.01)

    async def settled(self, handle: Handle, *states: str) -> None:
        """The queue knows of a run's end a moment after its log."""
        async with asyncio.timeout(20):
            queue = queue_of(self.app.store)
            while (row := await queue.look(handle.run)) is None or row.state not in states:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def end(self, worker: subprocess.Popen[bytes], seconds: float = 20.0) -> int:
        await self.until(lambda: worker.poll() is not None, seconds)
        return int(worker.returncode)


@pytest.fixture
async def gang(tmp_path: Path) -> AsyncIterator[Crew]:
    async with App(f"sqlite:///{tmp_path / 'capataz.db'}") as app:
        gang = Crew(tmp_path, app)
        yield gang
        for worker in gang.workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait(10)


def keys(gang: Crew) -> list[str]:
    return [words for _, _, words in gang.effects() if words.startswith("act ")]


async def test_when_one_of_two_is_killed_the_other_has_its_runs_within_three_beats(gang: Crew) -> None:
    first, second = gang.start("--slots", "2"), gang.start("--slots", "4")
    await gang.until(lambda: gang.said.count("slots for") == 2)
    await gang.freeze(second)  # so that the first one gets them
    handles = [await gang.submit("long") for _ in range(2)]
    await gang.until(lambda: len({words.split(":")[0] for words in keys(gang)}) == 2)
    second.send_signal(signal.SIGCONT)
    await asyncio.sleep(2 * BEAT)
    first.kill()
    killed = time.time()
    outcomes = [await handle.await_(timeout=30) for handle in handles]
    assert all(not isinstance(outcome, Aborted) for outcome in outcomes)
    taken = [
        event.at
        for handle in handles
        for event in await gang.app.store.read(handle.run)
        if isinstance(event.fact, RunResumed)
    ]
    assert taken, "the first worker had runs"
    assert max(taken) - killed < 3 * BEAT + 0.5, "and a little for the looking"
    assert len(keys(gang)) == len(set(keys(gang))), "no act was done twice"
    second.send_signal(signal.SIGTERM)
    assert await gang.end(second) == 0


async def test_a_worker_that_was_frozen_and_wakes_up_writes_and_starts_nothing(gang: Crew) -> None:
    handle = await gang.submit("steady")
    first = gang.start()
    await gang.until(lambda: len(gang.effects()) >= 5)
    await gang.freeze(first)
    frozen = len(await gang.app.store.read(handle.run))
    second = gang.start()
    outcome = await handle.await_(timeout=60)
    assert not isinstance(outcome, Aborted)
    await gang.settled(handle, "done", "waiting")  # waiting: the act that was under way is in doubt
    log = await gang.app.store.read(handle.run)
    before = [effect for effect in gang.effects() if effect[1] == first.pid]
    first.send_signal(signal.SIGCONT)
    await gang.until(lambda: "somebody else's" in gang.said)
    await asyncio.sleep(0.3)
    after = [words for _, pid, words in gang.effects() if pid == first.pid][len(before) :]
    assert len(after) <= 1, "at most what was under way when it was frozen"
    for words in after:
        assert words.startswith("look") or begun(log[:frozen]) == words, "it starts no act"
    assert await gang.app.store.read(handle.run) == log, "and writes nothing"
    assert len(keys(gang)) == len(set(keys(gang)))
    for worker in (first, second):
        worker.send_signal(signal.SIGTERM)
        assert await gang.end(worker) == 0


def begun(log: list[Event]) -> str:
    """What `crew.act` writes for the act whose beginning is the last thing in the log."""
    last = log[-1].fact
    return f"act {last.idempotency_key}" if isinstance(last, ToolStarted) else ""


async def test_a_run_that_kills_its_workers_ends_and_is_not_claimed_again(gang: Crew) -> None:
    handle = await gang.submit("poisoned")
    ends: list[int] = []
    while len(ends) < 12 and await handle.apoll() is None:
        ends.append(await gang.end(gang.start("--until-idle")))
    outcome = await handle.apoll()
    assert isinstance(outcome, Aborted)
    assert outcome.reason == "poison"
    assert "3 times at the same step" in outcome.detail
    assert [words for _, _, words in gang.effects()] == ["index 6624"] * 3
    assert ends == [-signal.SIGKILL] * 3 + [0], "each waits for what the one before it has left"
    row = await queue_of(gang.app.store).look(handle.run)
    assert row is not None
    assert (row.state, row.crashes.here) == ("dead", 3)


async def test_a_worker_whose_loop_is_blocked_says_so_and_ends_for_its_process_manager(gang: Crew) -> None:
    blocked, well = await gang.submit("blocker"), await gang.submit("steady")
    worker = gang.start("--stall", "0.6", "--slots", "2")
    assert await gang.end(worker) == UNFIT
    assert "blocked for" in gang.said
    assert f"by run {blocked.run}" in gang.said
    queue = queue_of(gang.app.store)
    guilty, innocent = await queue.look(blocked.run), await queue.look(well.run)
    assert guilty is not None
    assert innocent is not None
    assert (guilty.state, guilty.crashes.total) == ("queued", 1)
    assert innocent.crashes.total == 0
    assert await queue.workers() == []


async def test_a_worker_whose_threads_leak_away_finishes_and_ends(gang: Crew) -> None:
    handle = await gang.submit("holder")
    worker = gang.start()
    assert await gang.end(worker) == UNFIT
    assert "threads are held by tools that do not come back" in gang.said
    row = await queue_of(gang.app.store).look(handle.run)
    assert row is not None
    assert row.state in ("queued", "done")


async def test_a_thread_that_a_tool_has_started_does_not_hold_up_the_end(gang: Crew) -> None:
    handle = await gang.submit("apart")
    assert await gang.end(gang.start("--until-idle")) == 0, "within 20 s; the thread sleeps for 60"
    assert "are left behind: asyncio_" in gang.said
    row = await queue_of(gang.app.store).look(handle.run)
    assert row is not None
    assert row.state == "done"
