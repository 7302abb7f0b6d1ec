"""Worker processes on one PostgreSQL, with the database's own queue and with Temporal: killed, frozen, poisoned."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from capataz import Aborted, Agent, App
from capataz.engines.temporal import TemporalEngine
from capataz.events.facts import RunResumed, ToolStarted
from capataz.runtime.handle import Handle
from tests.distributed import cluster_crew

BEAT = 0.5
SLACK = 1.0
"""Seconds: of a busy machine, for the start of the next step after the takeover was decided."""
HERE = Path(__file__).parent


@dataclass
class Gang:
    folder: Path
    url: str
    temporal: str
    app: App
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        command = Path(sys.executable).with_name("capataz")
        words = [str(command), "worker", "cluster_crew:app", "--beat", str(BEAT), *options]
        given = {"CREW_URL": self.url, "CREW_TEMPORAL": self.temporal, "CREW_BEAT": str(BEAT)}
        with (self.folder / "workers.log").open("ab") as log:
            worker = subprocess.Popen(words, cwd=HERE, env={**os.environ, **given}, stderr=log)
        self.workers.append(worker)
        return worker

    @property
    def said(self) -> str:
        return (self.folder / "workers.log").read_text()

    def effects(self) -> list[tuple[int, str]]:
        with psycopg.connect(self.url) as connection:
            return [(pid, key) for pid, key in connection.execute("SELECT pid, key FROM effect ORDER BY n")]

    def doubled(self) -> list[str]:
        return [key for key, count in Counter(key for _, key in self.effects()).items() if count > 1]

    async def submit(self, agent: Agent) -> Handle:
        return await agent.asubmit("go", app=self.app)

    async def until(self, holds: Callable[[], bool], seconds: float = 40.0) -> None:
        limit = time.monotonic() + seconds
        while not await asyncio.to_thread(holds):
            assert time.monotonic() < limit, f"not within {seconds} s\n{self.said}"
            await asyncio.sleep(0.02)

    async def taken_up(self, handle: Handle) -> float:
        """When another worker had the run."""
        async with asyncio.timeout(20):
            while True:
                for event in await self.app.store.read(handle.run):
                    if isinstance(event.fact, RunResumed):
                        return event.at
                await asyncio.sleep(0.05)

    async def end(self, worker: subprocess.Popen[bytes]) -> int:
        await self.until(lambda: worker.poll() is not None)
        return int(worker.returncode)


@pytest.fixture(params=["local", "temporal"])
async def gang(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> AsyncIterator[Gang]:
    address: str = request.getfixturevalue("temporal") if request.param == "temporal" else ""
    await asyncio.to_thread(cluster_crew.make_table, database)
    # A queue of its own for each test: the server is shared.
    engine = TemporalEngine(address, beat=BEAT) if address else None
    async with App(database, engine=engine) as app:
        gang = Gang(tmp_path, database, address, app)
        yield gang
        for worker in gang.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                worker.kill()
            worker.wait(10)


async def test_when_one_of_two_is_killed_the_other_has_its_runs_within_three_beats(gang: Gang) -> None:
    handles = [await gang.submit(cluster_crew.endless) for _ in range(2)]
    first = gang.start("--slots", "2")
    await gang.until(lambda: len(gang.effects()) >= 2)
    second = gang.start("--slots", "6")
    handles += [await gang.submit(cluster_crew.endless) for _ in range(2)]
    await gang.until(lambda: second.pid in {pid for pid, _ in gang.effects()})
    first.kill()
    killed = time.time()
    taken = [await gang.taken_up(handle) for handle in handles[:2]]
    assert max(taken) - killed < 3 * BEAT + SLACK
    for handle in handles:
        await handle.acancel("enough")
        await handle.await_(timeout=30)
    assert gang.doubled() == []
    logs = [await gang.app.store.read(handle.run) for handle in handles]
    known = {e.fact.idempotency_key for log in logs for e in log if isinstance(e.fact, ToolStarted)}
    assert {key for _, key in gang.effects()} <= known, "every act that took place was intended in a log before"
    second.send_signal(signal.SIGTERM)
    assert await gang.end(second) == 0, gang.said


async def test_a_worker_that_was_frozen_and_wakes_up_writes_and_starts_nothing(gang: Gang) -> None:
    handle = await gang.submit(cluster_crew.steady)
    first = gang.start()
    await gang.until(lambda: len(gang.effects()) >= 5)
    first.send_signal(signal.SIGSTOP)
    second = gang.start()
    outcome = await handle.await_(timeout=60)
    assert not isinstance(outcome, Aborted)
    log = await gang.app.store.read(handle.run)
    before = [key for pid, key in gang.effects() if pid == first.pid]
    first.send_signal(signal.SIGCONT)
    await asyncio.sleep(2.0)
    after = [key for pid, key in gang.effects() if pid == first.pid]
    assert len(after) - len(before) <= 1, "at most the act that was under way, with its start in the log"
    assert await gang.app.store.read(handle.run) == log
    assert gang.doubled() == []
    for worker in (first, second):
        worker.send_signal(signal.SIGTERM)
        assert await gang.end(worker) == 0, gang.said


async def test_a_run_that_kills_its_workers_ends_and_the_others_do_not_suffer(gang: Gang) -> None:
    handle = await gang.submit(cluster_crew.poisoned)
    ends: list[int] = []
    while len(ends) < 8 and await handle.apoll() is None:
        worker = gang.start("--crashes", "2")
        while worker.poll() is None and await handle.apoll() is None:  # noqa: ASYNC110 - it happens elsewhere
            await asyncio.sleep(0.05)
        if worker.poll() is None:
            worker.send_signal(signal.SIGTERM)
        ends.append(await gang.end(worker))
    outcome = await handle.apoll()
    assert isinstance(outcome, Aborted), gang.said
    assert outcome.reason == "poison"
    assert [key for _, key in gang.effects()] == ["die", "die"]
    assert ends == [-signal.SIGKILL, -signal.SIGKILL, 0]


async def test_a_stopped_worker_hands_its_runs_on_at_their_next_step(gang: Gang) -> None:
    handle = await gang.submit(cluster_crew.endless)
    first = gang.start()
    await gang.until(lambda: len(gang.effects()) >= 3)
    second = gang.start()
    first.send_signal(signal.SIGTERM)
    assert await gang.end(first) == 0, gang.said
    await gang.until(lambda: second.pid in {pid for pid, _ in gang.effects()})
    assert await handle.acancel("enough")
    outcome = await handle.await_(timeout=30)
    assert isinstance(outcome, Aborted)
    assert (outcome.reason, outcome.detail) == ("cancelled", "enough")
    row = await gang.app.engine.look(handle.run)
    assert row is not None
    assert row.crashes.total == 0
    assert gang.doubled() == []
