"""The local engine: slots that are filled from a queue, in one process or in several that share a store.

It only dispatches. What a run is, whether it may go on and how it ends are the driver's and the log's. This is the
third of the three places with a broad `except`: whatever a job raises, the other slots go on. A job that raised is
left to its lease, and whoever claims it next counts the crash.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Collection
from dataclasses import dataclass

from capataz.faults.lasting import Lasting
from capataz.mistakes import Fenced, StoreError, Unreadable
from capataz.ports import Claim, Driven, Driver, Job, JobRow, Queue
from capataz.privacy.scrubbed import scrubbed

_log = logging.getLogger("capataz.worker")
NOT_CLAIMED = "no work can be claimed"
GIVEN_BACK = "runs are given back, to be tried again"
NOT_TOLD = "the queue could not be told of runs, which are left to their leases"
MOST_AT_ONCE = 16
"""Jobs taken in one go, so that workers that start together share what is there."""


class LocalEngine:
    """An `Engine` over a queue: workers on this queue take the runs by themselves."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def submit(self, job: Job) -> str:
        return await self._queue.enqueue(job)

    async def cancel(self, run: str, reason: str) -> bool:
        return await self._queue.cancel(run, reason) is not None

    async def look(self, run: str) -> JobRow | None:
        return await self._queue.look(run)

    async def wake(self, run: str) -> bool:
        """Nothing has to be done: the queue sees that the log has gone on."""
        row = await self._queue.look(run)
        return row is not None and row.state == "waiting"

    async def close(self) -> None:
        """Nothing of its own is open."""


@dataclass(frozen=True, slots=True)
class Share:
    """How much work one worker takes. `lease` and `poll` are seconds."""

    slots: int
    agents: Collection[str]
    lease: float
    poll: float
    per_tenant: int | None = None


class Slots:
    """Claims jobs while there is a free slot and drives each in a task of its own."""

    def __init__(self, queue: Queue, driver: Driver, worker: str, share: Share) -> None:
        self._queue, self._driver, self._worker, self._share = queue, driver, worker, share
        self._tasks: dict[asyncio.Task[None], Claim] = {}
        self._stopping = False
        self._nudged = asyncio.Event()
        self._troubles = Lasting(_log.warning, time.monotonic)

    @property
    def busy(self) -> int:
        return len(self._tasks)

    def stop(self) -> None:
        """Take nothing more. In the loop."""
        self._stopping = True
        self._nudged.set()

    def nudge(self) -> None:
        """Look for work now, not only at the next poll. In the loop."""
        self._nudged.set()

    def abandon(self, run: str) -> None:
        """This run cannot be stopped: leave its task behind and use the slot for another. In the loop."""
        for task, claim in tuple(self._tasks.items()):
            if claim.job.run == run:
                del self._tasks[task]
                self._nudged.set()

    async def serve(self, until_idle: bool = False) -> None:
        """Until `stop`; then what is under way is still there: see `drain`. With `until_idle`, also until there is
        nothing to be had and nothing under way, here or in a worker that may be dead; raises `StoreError` where nobody
        can say whether that is so."""
        while not self._stopping:
            took = await self._take(until_idle)
            if until_idle and not took and not self._tasks and not await self._held():
                return
            if not took:
                await self._wait()

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way, at most so long; what is left is cancelled and given back."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        left = tuple(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=max(1.0, seconds / 4))

    async def _take(self, until_idle: bool) -> int:
        free = self._share.slots - len(self._tasks)
        if free <= 0:
            return 0
        share = self._share
        try:
            claims = await self._queue.claim(
                self._worker, share.agents, share.lease, per_tenant=share.per_tenant, most=min(free, MOST_AT_ONCE)
            )
        except StoreError as error:
            if until_idle and not self._tasks:
                raise
            self._troubles.failed(NOT_CLAIMED, error)
            return 0
        self._troubles.over(NOT_CLAIMED)
        for claim in claims:
            task = asyncio.get_running_loop().create_task(self._job(claim), name=f"capataz run {claim.job.run}")
            self._tasks[task] = claim
            task.add_done_callback(self._ended)
        return len(claims)

    async def _held(self) -> bool:
        """Whether a worker has a run that this one may have to take over."""
        held = await self._queue.jobs(["claimed"])
        return any(row.job.agent in self._share.agents for row in held)

    async def _wait(self) -> None:
        """For a free slot, a nudge, or the time of the next look."""
        try:
            async with asyncio.timeout(self._share.poll):
                await self._nudged.wait()
        except TimeoutError:
            return
        self._nudged.clear()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._nudged.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a job ended with an error that is not its own: %s", scrubbed(error, os.environ))

    async def _job(self, claim: Claim) -> None:
        run = claim.job.run
        try:
            driven = await self._driver(claim)
            self._troubles.over(GIVEN_BACK, calm=2 * self._share.lease)
        except asyncio.CancelledError:
            await self._give_back(claim, None)
            raise
        except Unreadable as error:
            driven = Driven("dead", f"its log cannot be read: {error}")
        except Fenced as lost:
            _log.info("run %s is somebody else's: %s", run, lost)
            await self._give_back(claim, None)
            return
        except StoreError as error:
            self._troubles.failed(GIVEN_BACK, f"run {run}: {error}")
            await self._give_back(claim, self._share.lease)
            return
        except Exception as error:  # noqa: BLE001 - one of the three places: a job must not take the other slots down
            _log.error(
                "run %s broke its job; whoever claims it next counts a crash: %s", run, scrubbed(error, os.environ)
            )
            return
        await self._settle(claim, driven)

    async def _give_back(self, claim: Claim, later: float | None) -> None:
        """In good order. Where that fails, the lease runs out, and it looks like a crash."""
        until = None if later is None else claim.until + later
        try:
            await self._queue.release(claim, until)
        except StoreError as error:
            self._troubles.failed(NOT_TOLD, error)
        else:
            self._troubles.over(NOT_TOLD)

    async def _settle(self, claim: Claim, driven: Driven) -> None:
        try:
            if driven.state == "hung":
                return
            if driven.state == "parked":
                await self._queue.release(claim, driven.until)
            else:
                await self._queue.finish(claim, driven.state, driven.reason)
        except StoreError as error:
            self._troubles.failed(NOT_TOLD, error)
        else:
            self._troubles.over(NOT_TOLD)
