"""The queue of the embedded stores: SQL in the store's own file, or in a database in memory for the store in memory.

Both run the same statements, so what is tested on one holds for the other. Nothing here may look into a log.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol, TypeVar

from capataz.faults.lasting import Lasting
from capataz.mistakes import Sealed, StoreError
from capataz.ports import Claim, Crashes, Job, JobRow, JobState, Orders, WorkerBeat, WorkerRow
from capataz.stores.sealing import OPEN, Seal
from capataz.stores.sqlite import queue_tables as tables
from capataz.stores.sqlite.file import migrations, run_script

T = TypeVar("T")
_log = logging.getLogger("capataz.store")
SEALED_PAUSE = 15.0
"""Seconds a worker takes nothing more once it was given a job it has no key for: those that have the key go on."""
Work = Callable[[sqlite3.Connection], T]


class Perform(Protocol):
    """Does a piece of work with the connection, as one transaction. `reads` says that it changes nothing."""

    def __call__(self, doing: str, work: Work[T], reads: bool = False) -> Awaitable[T]: ...


class SqlQueue:
    """A `Queue` on the tables of `schema/sqlite-00*.sql`. `clock` is the time of all its workers, in seconds."""

    def __init__(self, perform: Perform, clock: Callable[[], float] = time.time, seal: Seal = OPEN) -> None:
        self._perform, self._clock, self._seal = perform, clock, seal
        self._resting = float("-inf")
        self._troubles = Lasting(_log.warning, time.monotonic)

    async def enqueue(self, job: Job) -> str:
        sealed = replace(job, task=self._seal.close_text(job.task, place_of_job(job.run)))
        return await self._perform(f"enqueue run {job.run} in", partial(tables.enqueue, now=self._clock(), job=sealed))

    async def claim(
        self, worker: str, agents: Collection[str], lease: float, *, per_tenant: int | None = None, most: int = 1
    ) -> list[Claim]:
        def work(connection: sqlite3.Connection) -> list[Claim]:
            return tables.claim(connection, self._clock(), worker, agents, lease, per_tenant, most)

        if time.monotonic() < self._resting:
            return []
        claims = await self._perform("claim a run from", work)
        return [claim for claim in [await self._opened(claim) for claim in claims] if claim is not None]

    async def _opened(self, claim: Claim) -> Claim | None:
        """The claim with its task readable. A worker without the key gives the job back, for one that has it."""
        try:
            task = self._seal.open_text(claim.job.task, place_of_job(claim.job.run))
        except Sealed as error:
            self._troubles.failed("runs are left to a worker that has the key", f"run {claim.job.run}: {error}")
            self._resting = time.monotonic() + SEALED_PAUSE
            await self.release(claim)
            return None
        return replace(claim, job=replace(claim.job, task=task))

    async def begin(self, claim: Claim, step: str) -> Crashes | None:
        return await self._perform(f"begin run {claim.job.run} in", partial(tables.begin, claim=claim, step=step))

    async def release(self, claim: Claim, until: float | None = None) -> bool:
        work = partial(tables.release, now=self._clock(), claim=claim, until=until)
        return await self._perform(f"release run {claim.job.run} in", work)

    async def finish(self, claim: Claim, state: Literal["done", "waiting", "dead", "cancelled"], reason: str) -> bool:
        work = partial(tables.finish, claim=claim, state=state, reason=reason)
        return await self._perform(f"finish run {claim.job.run} in", work)

    async def cancel(self, run: str, reason: str) -> JobState | None:
        return await self._perform(f"cancel run {run} in", partial(tables.cancel, run=run, reason=reason))

    async def beat(self, beat: WorkerBeat, lease: float) -> Orders:
        def work(connection: sqlite3.Connection) -> Orders:
            return tables.beat(connection, self._clock(), beat, lease)

        return await self._perform("write a beat to", work)

    async def leave(self, worker: str, crashed: bool = False) -> int:
        return await self._perform(f"sign {worker} off in", partial(tables.leave, worker=worker, crashed=crashed))

    async def lead(self, worker: str, lease: float) -> bool:
        work = partial(tables.lead, now=self._clock(), worker=worker, lease=lease)
        return await self._perform("look after the workers of", work)

    async def look(self, run: str) -> JobRow | None:
        row = await self._perform(f"look for run {run} in", partial(tables.look, run=run), reads=True)
        return None if row is None else self._listed(row)

    async def jobs(
        self, states: Collection[JobState] = (), limit: int = 100, *, tenant: str | None = None, untaken: bool = False
    ) -> list[JobRow]:
        asked = partial(tables.jobs, states=states, limit=limit, tenant=tenant, untaken=untaken)
        rows = await self._perform("list the jobs of", asked, reads=True)
        return [self._listed(row) for row in rows]

    def _listed(self, row: JobRow) -> JobRow:
        return replace(row, job=replace(row.job, task=self._seal.shown(row.job.task, place_of_job(row.job.run))))

    async def workers(self) -> list[WorkerRow]:
        return await self._perform("list the workers of", tables.workers, reads=True)


def place_of_job(run: str) -> str:
    """What a sealed task is bound to."""
    return f"run {run}, its task"


class InMemory:
    """Performs a queue's work on a database in memory. `logs` gives the runs and how they stand, for the waking."""

    def __init__(self, logs: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._logs = logs
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    async def __call__(self, doing: str, work: Work[T], reads: bool = False, alone: Sequence[str] = ()) -> T:
        return self.perform(doing, work)

    def perform(self, doing: str, work: Work[T]) -> T:
        with self._lock:
            if self._closed:
                raise StoreError(f"could not {doing} the store in memory: it is closed, and what it held is gone")
            connection = self._opened()
            connection.execute("BEGIN")
            try:
                value = work(connection)
                connection.execute("COMMIT")
            except (sqlite3.Error, UnicodeError, OverflowError) as error:
                raise StoreError(f"could not {doing} the store in memory: {error}") from error
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            return value

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._closed = None, True

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(":memory:", timeout=1.0, isolation_level=None, check_same_thread=False)
            for _, script in migrations():
                run_script(connection, script)
            self._connection = connection
        waiting = {str(run) for (run,) in self._connection.execute("SELECT run FROM job WHERE state = 'waiting'")}
        if waiting:
            going = (run for run, status in self._logs() if run in waiting and status != "escalated")
            tables.wake(self._connection, going)
        return self._connection
