"""Temporal as the dispatcher of a cluster: it knows which run has to be driven and that its worker is alive.

It is told ids and nothing else. What a run is, whether it may go on and how it ends are in its log; what was asked,
and how often a run took its worker down, are in the queue beside the log. If Temporal loses everything it knows, the
workers hand it the ids again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from temporalio.client import Client, TLSConfig, WorkflowHandle
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from capataz.engines.temporal_workflow import WORKFLOW, Trip
from capataz.faults.lasting import Lasting
from capataz.mistakes import Misuse, StoreError
from capataz.ports import Claim, Driver, Job, JobRow, Queue, Store

if TYPE_CHECKING:
    from capataz.engines.local import Share
    from capataz.engines.temporal_slots import TemporalSlots

_log = logging.getLogger("capataz.temporal")
NAME = "temporal"
"""Of the engine, in the queue's table."""
NOT_LOOKED_FOR = "what Temporal has missed could not be looked for"
LONGEST = 7 * 86_400.0
RPC = timedelta(seconds=10)
TASK = timedelta(seconds=5)
"""Until a worker that died between two of the workflow's steps is noticed."""


class SentQueue(Queue, Protocol):
    """A queue whose jobs another engine brings to the workers, and what that engine needs beside `Queue`."""

    async def take(self, run: str, worker: str, lease: float) -> Claim | None: ...

    async def handed(self, run: str) -> None: ...

    async def not_handed(self, age: float, limit: int = 100) -> list[str]: ...

    async def answered(self, limit: int = 100) -> list[str]: ...


class TemporalEngine:
    """Runs are brought to workers by Temporal: `App("postgresql://…", engine=TemporalEngine("temporal:7233"))`.

    `target` is "host:port" of Temporal's frontend, `namespace` and `task_queue` are Temporal's; `tls` and `api_key` are
    as for its own client. Every worker of a task queue has to have all agents whose runs are submitted to it. Two
    heartbeats of a run come within `beat` seconds (the workers' `--beat`), and after two and a half without one it is
    taken from its worker; `longest` is how many seconds one worker may have a run.

    Needs `pip install 'capataz[temporal]'`, and a store whose queue machines can share: PostgreSQL.
    """

    def __init__(
        self,
        target: str = "localhost:7233",
        namespace: str = "default",
        task_queue: str = "capataz",
        *,
        tls: bool | TLSConfig = False,
        api_key: str | None = None,
        beat: float = 2.0,
        longest: float = LONGEST,
    ) -> None:
        if ":" not in target:
            raise Misuse(f"TemporalEngine({target!r}): write host:port, for instance localhost:7233")
        self.target, self.namespace, self.task_queue, self.longest = target, namespace, task_queue, longest
        self.beat = beat
        self._tls, self._api_key = tls, api_key
        self._connected: tuple[asyncio.AbstractEventLoop, Client] | None = None

    def __repr__(self) -> str:
        return f"TemporalEngine({self.target!r}, {self.namespace!r}, {self.task_queue!r})"

    def queue(self, store: Store) -> SentQueue:
        """The store's queue for runs that Temporal brings. `Misuse` for a store that machines cannot share."""
        make: Callable[[str], SentQueue] | None = getattr(store, "queue", None)
        try:
            queue = make(NAME) if make is not None else None
        except TypeError:
            queue = None
        if queue is None or not hasattr(queue, "take"):
            raise Misuse(f"Temporal needs a store that machines can share, not {type(store).__name__}: use PostgreSQL")
        return queue

    def over(self, store: Store) -> TemporalDispatch:
        """The `Engine` for this store."""
        return TemporalDispatch(self, self.queue(store))

    def slots(self, queue: SentQueue) -> Callable[[Driver, str, Share], TemporalSlots]:
        """How a worker on this queue is filled."""
        from capataz.engines.temporal_slots import TemporalSlots

        return lambda driver, worker, share: TemporalSlots(self, queue, driver, worker, share)

    async def client(self) -> Client:
        """The connection of the running loop. Raises `RuntimeError` where Temporal cannot be reached."""
        loop = asyncio.get_running_loop()
        if self._connected is None or self._connected[0] is not loop:
            client = await Client.connect(self.target, namespace=self.namespace, tls=self._tls, api_key=self._api_key)
            self._connected = (loop, client)
        return self._connected[1]


class TemporalDispatch:
    """An `Engine` over a queue that Temporal's workers take from."""

    def __init__(self, engine: TemporalEngine, queue: SentQueue) -> None:
        self._engine, self._queue = engine, queue
        self._troubles = Lasting(_log.warning, time.monotonic)
        self._untold = f"Temporal at {engine.target} cannot be told of runs; they wait in the store"

    async def submit(self, job: Job) -> str:
        """Take the job in. It is durable then, and if Temporal is away, the workers hand it over later."""
        run = await self._queue.enqueue(job)
        row = await self._queue.look(run)
        if row is not None and row.state in ("queued", "parked"):
            await self.hand(row)
        return run

    async def hand(self, row: JobRow) -> bool:
        """Tell Temporal of a job; harmless when it knows. False when it could not be told."""
        job = row.job
        delay = max(0.0, job.due - row.enqueued_at)
        try:
            client = await self._engine.client()
            await client.start_workflow(
                WORKFLOW,
                # Half a beat less than three, so that whoever is sent has the run within three.
                Trip(job.run, self._engine.beat * 2.5, self._engine.longest),
                id=job.run,
                task_queue=self._engine.task_queue,
                task_timeout=TASK,
                start_delay=timedelta(seconds=delay) if delay else None,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                priority=Priority(priority_key=min(5, max(1, 3 - job.priority)), fairness_key=job.tenant or None),
                rpc_timeout=RPC,
            )
        except WorkflowAlreadyStartedError:
            pass
        except (RPCError, RuntimeError) as error:
            self._troubles.failed(self._untold, error)
            return False
        self._troubles.over(self._untold)
        await self._queue.handed(job.run)
        return True

    async def cancel(self, run: str, reason: str) -> bool:
        ordered = await self._queue.cancel(run, reason) is not None
        row = await self._queue.look(run)
        if row is not None and row.order is not None:  # also a second time: the first signal may not have got there
            await self._signal(run)
        return ordered

    async def look(self, run: str) -> JobRow | None:
        return await self._queue.look(run)

    async def wake(self, run: str) -> bool:
        row = await self._queue.look(run)
        if row is None or row.state not in ("waiting", "parked", "queued"):
            return False
        if not await self._signal(run):
            return await self.hand(row)
        return True

    async def _signal(self, run: str) -> bool:
        """Wake the workflow. False where there is none, or it cannot be reached: the workers look after it later."""
        try:
            handle: WorkflowHandle[object, object] = (await self._engine.client()).get_workflow_handle(run)
            await handle.signal("wake", rpc_timeout=RPC)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                self._troubles.failed(self._untold, error)
            return False
        except RuntimeError as error:
            self._troubles.failed(self._untold, error)
            return False
        self._troubles.over(self._untold)
        return True

    async def sweep(self, age: float) -> None:
        """What Temporal has missed: jobs it was never told of, or has forgotten, and answers nobody told it of."""
        try:
            for run in await self._queue.not_handed(age):
                row = await self._queue.look(run)
                if row is not None and not await self.hand(row):
                    return
            for run in await self._queue.answered():
                await self.wake(run)
        except StoreError as error:
            self._troubles.failed(NOT_LOOKED_FOR, error)
        else:
            self._troubles.over(NOT_LOOKED_FOR)

    async def close(self) -> None:
        """The connection goes with its last user."""
