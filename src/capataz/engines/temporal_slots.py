"""A worker's slots, filled by Temporal: each activity takes one run from the queue and drives it to its next stop.

Heartbeats come from the activity's own coroutine, on the loop of the runs: a loop that is blocked beats no more, and
its runs go to another worker. What came of a run is told to the queue first and to Temporal second, and Temporal is
told no more than how it stands.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from datetime import timedelta
from importlib.metadata import version

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from capataz.engines.local import GIVEN_BACK, NOT_TOLD, Share
from capataz.engines.temporal import SentQueue, TemporalDispatch, TemporalEngine
from capataz.engines.temporal_workflow import DRIVE, OVER, Leg, RunWorkflow
from capataz.faults.lasting import Lasting
from capataz.mistakes import Fenced, StoreError, Unreadable
from capataz.ports import Claim, Driven, Driver
from capataz.privacy.scrubbed import scrubbed

_log = logging.getLogger("capataz.worker")
NOT_MINE = 5.0
"""Seconds before a run of an agent that this worker has not is sent on."""
SWEEP = 5.0
RETRY = 2.0
"""Seconds between two tries to reach Temporal at the start; later on its own client tries."""
UNKNOWN = "it was cancelled in Temporal"


class TemporalSlots:
    """The same to a worker as the slots of the local engine, with Temporal in the place of the queue's claims."""

    def __init__(self, engine: TemporalEngine, queue: SentQueue, driver: Driver, worker: str, share: Share) -> None:
        self._engine, self._queue, self._driver = engine, queue, driver
        self._worker, self._share = worker, share
        self._dispatch = TemporalDispatch(engine, queue)
        self._tasks: dict[str, asyncio.Task[Leg]] = {}
        self._left: dict[str, asyncio.Event] = {}
        self._stopping = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._troubles = Lasting(_log.warning, time.monotonic)

    @property
    def busy(self) -> int:
        return len(self._tasks)

    def stop(self) -> None:
        """Take nothing more. In the loop."""
        self._stopping.set()

    def nudge(self) -> None:
        """Temporal sends work by itself."""

    def abandon(self, run: str) -> None:
        """This run cannot be stopped: leave its task behind and use the slot for another. In the loop."""
        if (left := self._left.get(run)) is not None:
            left.set()

    async def serve(self, until_idle: bool = False) -> None:
        """Until `stop`; then what is under way is still there: see `drain`."""
        client = await self._reach()
        if client is None:
            return
        beat = timedelta(seconds=self._engine.beat / 2)
        worker = Worker(
            client,
            task_queue=self._engine.task_queue,
            workflows=[RunWorkflow],
            activities=[self.drive],
            workflow_runner=UnsandboxedWorkflowRunner(),
            identity=self._worker,
            build_id=f"capataz-{version('capataz')}",  # else it reads all modules there are: seconds, on this loop
            max_cached_workflows=0,  # what is kept for a dead worker would have to time out first
            max_concurrent_activities=self._share.slots,
            max_heartbeat_throttle_interval=beat,
            default_heartbeat_throttle_interval=beat,
            graceful_shutdown_timeout=timedelta(days=1),  # `drain` has an end of its own
        )
        running = asyncio.create_task(worker.run())
        try:
            await self._until_stopped(running, until_idle)
        finally:
            self._closing = asyncio.create_task(_end(worker, running))

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way, at most so long; what is left is cancelled and given back."""
        if self._closing is None:
            return
        await asyncio.wait({self._closing}, timeout=seconds)
        for task in tuple(self._tasks.values()):
            task.cancel()
        await asyncio.wait({self._closing}, timeout=max(1.0, seconds / 4))

    async def _reach(self) -> Client | None:
        """Temporal, as soon as it is there; None when the worker is stopped before."""
        unreached = f"Temporal at {self._engine.target} cannot be reached"
        while not self._stopping.is_set():
            try:
                client = await self._engine.client()
            except RuntimeError as error:
                self._troubles.failed(unreached, error)
            else:
                self._troubles.over(unreached)
                return client
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY):
                    await self._stopping.wait()
        return None

    async def _until_stopped(self, running: asyncio.Task[None], until_idle: bool) -> None:
        stopped = asyncio.create_task(self._stopping.wait())
        swept = 0.0
        try:
            while not stopped.done() and not running.done():
                if time.monotonic() - swept > SWEEP:
                    swept = time.monotonic()
                    await self._dispatch.sweep(SWEEP)
                if until_idle and not self._tasks and await self._is_idle():
                    return
                await asyncio.wait({stopped, running}, timeout=self._share.poll, return_when="FIRST_COMPLETED")
        finally:
            stopped.cancel()

    async def _is_idle(self) -> bool:
        return not await self._queue.jobs(("queued", "claimed", "parked"), limit=1)

    # ── one run ──────────────────────────────────────────────────────────────────────────────────────────

    @activity.defn(name=DRIVE)
    async def drive(self, run: str, cancel: bool) -> Leg:
        """The activity. Returns how the run stands; raises only where not even that can be said."""
        if cancel:
            await self._queue.cancel(run, UNKNOWN)
        claim = await self._queue.take(run, self._worker, self._share.lease)
        if claim is None:
            row = await self._queue.look(run)
            if row is None or row.state in OVER:
                return Leg(row.state if row is not None else "done")
            return Leg("parked", NOT_MINE)  # sealed with a key that this worker has not: another one may have it
        if claim.job.agent not in self._share.agents:
            words = f"run {run} is for agent {claim.job.agent!r}, which this worker has not"
            self._troubles.failed("runs are sent on to other workers", words)
            await self._queue.release(claim, time.time() + NOT_MINE)
            return Leg("parked", NOT_MINE)
        task = asyncio.create_task(self._job(claim), name=f"capataz run {run}")
        left = asyncio.Event()
        self._tasks[run], self._left[run] = task, left
        try:
            return await self._beat(claim, task, left)
        finally:
            if self._tasks.get(run) is task:
                del self._tasks[run], self._left[run]

    async def _beat(self, claim: Claim, task: asyncio.Task[Leg], left: asyncio.Event) -> Leg:
        """Tell Temporal that the run is alive until its task is done, or has to be left behind."""
        leaving = asyncio.create_task(left.wait())
        pause = self._engine.beat / 2
        try:
            while not task.done():
                activity.heartbeat()
                try:
                    await asyncio.wait({task, leaving}, timeout=pause, return_when="FIRST_COMPLETED")
                except asyncio.CancelledError:
                    await self._called_off(claim, task)
                if left.is_set() and not task.done():
                    return Leg("hung", 0.0)
            if not task.cancelled() and (error := task.exception()) is not None:
                # Its words are not for Temporal: they may hold what the run is about.
                words = "run %s broke its job; whoever takes it next counts a crash: %s"
                _log.error(words, claim.job.run, scrubbed(error, os.environ))
                return Leg("broken", RETRY)
            return task.result()
        finally:
            leaving.cancel()

    async def _called_off(self, claim: Claim, task: asyncio.Task[Leg]) -> None:
        """Temporal wants the activity to end: by order of somebody, or because it has given this worker up."""
        own = asyncio.current_task()
        if own is not None:
            own.uncancel()
        why = activity.cancellation_details()
        if why is not None and why.cancel_requested:
            await self._queue.cancel(claim.job.run, UNKNOWN)  # the worker's heart breaks the run off
        else:
            task.cancel()

    async def _job(self, claim: Claim) -> Leg:
        run = claim.job.run
        try:
            driven = await self._driver(claim)
            self._troubles.over(GIVEN_BACK, calm=2 * self._share.lease)
        except asyncio.CancelledError:
            return await self._give_back(claim, None)
        except Unreadable as error:
            driven = Driven("dead", f"its log cannot be read: {error}")
        except Fenced as lost:
            _log.info("run %s is somebody else's: %s", run, lost)
            return await self._give_back(claim, None)
        except StoreError as error:
            self._troubles.failed(GIVEN_BACK, f"run {run}: {error}")
            return await self._give_back(claim, self._share.lease)
        return await self._settle(claim, driven)

    async def _give_back(self, claim: Claim, pause: float | None) -> Leg:
        """In good order. Where that fails, whoever takes the run next counts a crash."""
        try:
            await self._queue.release(claim, None if pause is None else time.time() + pause)
        except StoreError as error:
            self._troubles.failed(NOT_TOLD, error)
        else:
            self._troubles.over(NOT_TOLD)
        return Leg("parked", pause or 0.0)

    async def _settle(self, claim: Claim, driven: Driven) -> Leg:
        if driven.state == "hung":
            return Leg("hung", 0.0)
        if driven.state == "parked":
            await self._queue.release(claim, driven.until)
            return Leg("parked", max(0.0, (driven.until or 0.0) - time.time()))
        kept = await self._queue.finish(claim, driven.state, driven.reason)
        return Leg(driven.state if kept else "parked", 0.0 if not kept else None)


async def _end(worker: Worker, running: asyncio.Task[None]) -> None:
    await worker.shutdown()
    await running
