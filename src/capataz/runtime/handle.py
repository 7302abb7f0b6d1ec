"""A submitted run, seen from outside: ask how it stands, wait for its end, follow its events, call it off.

A handle holds nothing but the run's id and where it is kept, so one can be made again in any process. It never drives
a run: that is a worker's, and without one a run waits in the queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, cast

from capataz.engines.local import LocalEngine
from capataz.events.facts import Event, RunEnded
from capataz.kernel.evolve import fold
from capataz.mistakes import Misuse, NotFound
from capataz.outcome import Aborted, Outcome
from capataz.policy.policy import Policy
from capataz.ports import Engine, JobRow, Queue, Store
from capataz.runtime.blocking import blocking
from capataz.runtime.described import check_seconds, check_texts
from capataz.runtime.guarding import rules_of
from capataz.runtime.looks import Looks
from capataz.runtime.report import outcome_of


class Handle:
    """A run in the queue, or driven by some worker, or over.

    Each method has a form for asynchronous code (`apoll`, `await_`, `acancel`, `aevents`) and one for other code.
    """

    def __init__(
        self, run: str, store: Store, engine: Engine, read: Callable[[Outcome], Outcome] = lambda outcome: outcome
    ) -> None:
        self.run = run
        self._store, self._engine, self._read = store, engine, read

    def __repr__(self) -> str:
        return f"Handle({self.run!r})"

    async def apoll(self) -> Outcome | None:
        """How the run ended; None while it has not. A run that waits for a person is `Escalated`, and may go on.

        Raises `NotFound` when there is no such run.
        """
        row = await self._engine.look(self.run)
        try:
            state = fold(rules_of(Policy()), await self._store.read(self.run))
        except NotFound:
            if row is None:
                raise
            return self._never_begun(row)
        if state.over:
            return self._read(outcome_of(state))
        # A log that cannot be written any more is ended by the queue alone.
        return self._never_begun(row) if row is not None else None

    def _never_begun(self, row: JobRow) -> Outcome | None:
        if row.state == "cancelled":
            return Aborted("", "cancelled", run=self.run, detail=row.reason)
        return Aborted("", "dead", run=self.run, detail=row.reason) if row.state == "dead" else None

    async def await_(self, timeout: float = 3600.0) -> Outcome:  # noqa: ASYNC109 - the run itself is not cancelled
        """The outcome, once there is one. Raises `TimeoutError` after so many seconds; the run goes on."""
        limit = asyncio.timeout(check_seconds("timeout", timeout))
        try:
            async with limit:
                looks = Looks()
                while (outcome := await self.apoll()) is None:
                    await looks.rest()
                return outcome
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"run {self.run} has no outcome after {timeout:g} seconds; it goes on") from None

    async def acancel(self, reason: str = "cancelled") -> bool:
        """Order the end of the run; True where this call did. False where the run is over, is not in the queue, or was
        called off before: the first order stands, with its reason.

        A run nobody has begun is over at once. Else its worker breaks it off within a beat, and it ends `Aborted` with
        the reason "cancelled". An act that is under way cannot be called back: it becomes in doubt.
        """
        check_texts({"reason": reason})
        return await self._engine.cancel(self.run, reason)

    async def aevents(self, after: int = -1, patience: float = 3600.0) -> AsyncGenerator[Event]:
        """The run's events as they become durable, until it has ended or waits for a person.

        Raises `TimeoutError` when nothing happens for `patience` seconds.
        """
        looks = self._looks(patience)
        while True:
            events, over = await self._news(after)
            for event in events:
                after = event.seq
                yield event
            if over:
                return
            await looks.rest(news=bool(events))

    def _looks(self, patience: float) -> Looks:
        check_seconds("patience", patience)
        return Looks(patience, f"nothing has happened in run {self.run} for {patience:g} s")

    async def _news(self, after: int) -> tuple[list[Event], bool]:
        row = await self._engine.look(self.run)
        over = row is None or row.state in ("waiting", "done", "dead", "cancelled")
        try:
            events = await self._store.read(self.run, after)
        except NotFound:
            if row is None:
                raise
            return [], over
        return events, over or any(isinstance(event.fact, RunEnded) for event in events)

    # ── for code that is not asynchronous ────────────────────────────────────────────────────────────────

    def poll(self) -> Outcome | None:
        """`apoll`, for code that is not asynchronous."""
        return blocking(self.apoll(), "await handle.apoll()")

    def wait(self, timeout: float = 3600.0) -> Outcome:
        """`await_`, for code that is not asynchronous."""
        return blocking(self.await_(timeout), "await handle.await_()")

    def cancel(self, reason: str = "cancelled") -> bool:
        """`acancel`, for code that is not asynchronous."""
        return blocking(self.acancel(reason), "await handle.acancel()")

    def events(self, after: int = -1, patience: float = 3600.0) -> Generator[Event]:
        """`aevents`, for code that is not asynchronous."""
        looks = self._looks(patience)
        while True:
            events, over = blocking(self._news(after), "async for event in handle.aevents()")
            for event in events:
                after = event.seq
                yield event
            if over:
                return
            time.sleep(looks.pause(news=bool(events)))


def queue_of(store: Store) -> Queue:
    """The queue beside a store's logs. Raises `Misuse` for a store that has none."""
    make: Any = getattr(store, "queue", None)
    if make is None:
        raise Misuse(f"{type(store).__name__} has no queue: give it a method `queue()`, or run the task with `arun`")
    return cast(Queue, make())


def engine_of(store: Store) -> Engine:
    """The engine that brings submitted runs to workers: the local one, over the store's own queue."""
    return LocalEngine(queue_of(store))
