"""The watchdog: silence is looked for from outside, by a thread that no run can hold up.

It is the second net. Each wait for a model, a tool or a check has its own end inside; what comes here are the cases in
which that end did not work: code that swallows its cancellation, a loop that is blocked, a process that is dead or
frozen. It frees what can be freed, and says plainly when a worker can only be replaced.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from capataz.faults.lasting import Lasting
from capataz.mistakes import StoreError
from capataz.ports import Orders, Queue, WorkerBeat
from capataz.runtime.heartbeat import Pulse, Pulses
from capataz.tools.usercode import Threads

_log = logging.getLogger("capataz.worker")
NOT_LOOKED_AFTER = "the other workers could not be looked after"


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a worker says that it is alive, and how long the others believe it. All in seconds."""

    beat: float = 2.0
    """Between two signs of life of a worker."""
    missed: int = 3
    """Beats that may fail to come: after so many the worker counts as dead and its runs are taken over."""
    stall: float = 30.0
    """How long the event loop may be blocked before the worker has to be replaced."""
    grace: float = 5.0
    """What a wait may go on beyond its own limit, and what a run gets to stop, before it is given up."""
    poll: float = 0.5
    """Between two looks for work, where nothing else prompts one."""
    drain: float = 30.0
    """What runs get to reach their next step when the worker is told to stop."""

    @property
    def lease(self) -> float:
        return self.beat * self.missed


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a worker takes no more work and has to be replaced. `at_once`: its loop will never come back."""

    reason: str
    at_once: bool = False


class Heart:
    """Beats for a worker and its runs, obeys what comes back, and looks for what is hung.

    It lives in a thread with an event loop of its own. Whatever it wants done to a run is handed to the run's loop.
    """

    def __init__(
        self,
        queue: Queue,
        worker: str,
        pulses: Pulses,
        pace: Pace,
        threads: Threads,
        on_unfit: Callable[[Unfit], None],
        on_stuck: Callable[[str], None],
    ) -> None:
        self._queue, self._worker, self._pulses, self._pace = queue, worker, pulses, pace
        self._threads, self._on_unfit, self._on_stuck = threads, on_unfit, on_stuck
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._live, name=f"capataz heart of {worker}", daemon=True)
        self._stop = threading.Event()
        self._asked = self._answered = time.monotonic()
        self._unfit: Unfit | None = None
        self._stuck = 0
        self._troubles = Lasting(_log.warning, time.monotonic)
        self.slots = 0
        self.draining = False

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """The last beat is done when this returns."""
        self._stop.set()
        await asyncio.to_thread(self._thread.join, self._pace.lease + 1.0)

    # ── in the thread ────────────────────────────────────────────────────────────────────────────────────

    def _live(self) -> None:
        with asyncio.Runner() as runner:
            left = 0.0
            while not self._stop.wait(left):
                begun = time.monotonic()
                runner.run(self._round(begun))
                left = max(0.01, self._pace.beat - (time.monotonic() - begun))

    async def _round(self, now: float) -> None:
        beaten = await self._beat(now)
        await self._look(time.monotonic())
        if beaten:  # a store that takes no beat takes nothing else
            await self._look_after_others()

    async def _beat(self, now: float) -> bool:
        """Whether the store has taken it."""
        wall = time.time()
        pulses = {pulse.run: pulse for pulse in self._pulses}
        turns = tuple(pulse.turn(now, wall) for pulse in pulses.values())
        beat = WorkerBeat(self._worker, self.slots, len(pulses), round(self._lag(now), 3), self._health(), turns)
        unwritten = f"the beat of {self._worker} could not be written"
        try:
            async with asyncio.timeout(self._pace.lease):
                orders = await self._queue.beat(beat, self._pace.lease)
        except (StoreError, TimeoutError) as error:
            self._troubles.failed(unwritten, self._words(error))
            return False
        self._troubles.over(unwritten)
        for run, pulse in pulses.items():
            self._obey(run, pulse, orders, now + self._pace.lease, wall + self._pace.lease)
        return True

    def _words(self, error: StoreError | TimeoutError) -> str:
        return str(error) or f"the store has not answered for {self._pace.lease:g} s"

    def _obey(self, run: str, pulse: Pulse, orders: Orders, monotonic: float, wall: float) -> None:
        if run in orders.lost:
            pulse.lost = True
            pulse.cut()
        elif run in orders.breaks and pulse.order is None:
            pulse.order = orders.breaks[run]
            pulse.cut()
        else:
            pulse.held(monotonic, wall)

    def _health(self) -> str:
        return self._unfit.reason if self._unfit is not None else "draining" if self.draining else "well"

    def _lag(self, now: float) -> float:
        """How long the loop of the runs has not answered. Asks it again when it has."""
        if self._answered >= self._asked:
            self._asked = now

            def answer() -> None:
                self._answered = time.monotonic()

            try:
                self._loop.call_soon_threadsafe(answer)
            except RuntimeError:  # it is closed: the worker is ending
                self._answered = now
        return max(0.0, now - self._asked) if self._answered < self._asked else 0.0

    # ── what is hung ─────────────────────────────────────────────────────────────────────────────────────

    async def _look(self, now: float) -> None:
        lag = self._lag(now)
        if lag > self._pace.stall and self._unfit is None:
            await self._blocked(lag)
            return
        for pulse in self._pulses:
            phase, silence = pulse.silence(now)
            over = silence - phase.silent
            if pulse.hung is None and over > self._pace.grace:
                pulse.hung = pulse.turn(now, time.time())
                _log.warning("run %s: no sign of life from %s for %.1f s", pulse.run, phase.who or "itself", silence)
                pulse.cut()
            elif pulse.hung is not None and over > 2 * self._pace.grace:
                self._leave_behind(pulse)
        if self._threads.leaked * 2 >= self._threads.size:
            words = f"{self._threads.leaked} of {self._threads.size} threads are held by tools that do not come back"
            self._give_up(Unfit(words))

    def _leave_behind(self, pulse: Pulse) -> None:
        """It was told to stop and did not: its slot goes to another, its lease runs out."""
        self._pulses.drop(pulse)
        self._stuck += 1
        self._loop.call_soon_threadsafe(self._on_stuck, pulse.run)
        if self._stuck * 2 >= max(2, self.slots):
            self._give_up(Unfit(f"{self._stuck} runs cannot be stopped"))

    async def _blocked(self, lag: float) -> None:
        """The loop will not come back. A crash of the run that blocks it; the others are given back in good order."""
        task = asyncio.current_task(self._loop)
        name = task.get_name() if task is not None else ""
        pulses = {f"capataz run {pulse.run}": pulse for pulse in self._pulses}
        guilty = pulses.pop(name, None)
        by = "" if guilty is None else f" by run {guilty.run}"
        if guilty is not None:
            guilty.hung = guilty.turn(time.monotonic(), time.time())
        try:
            async with asyncio.timeout(self._pace.lease):
                for pulse in pulses.values() if guilty is not None else ():
                    if pulse.claim is not None:
                        await self._queue.release(pulse.claim)
                await self._queue.leave(self._worker, crashed=True)
        except (StoreError, TimeoutError) as error:
            _log.warning("the runs of %s could not be given back: %s", self._worker, self._words(error))
        self._give_up(Unfit(f"its event loop has been blocked for {lag:.1f} s{by}", at_once=True))

    def _give_up(self, unfit: Unfit) -> None:
        if self._unfit is not None:
            return
        self._unfit = unfit
        _log.error("worker %s takes no more work: %s", self._worker, unfit.reason)
        self._on_unfit(unfit)

    async def _look_after_others(self) -> None:
        """One worker at a time signs off those that are dead, so that their runs and rows do not wait for a claim."""
        try:
            async with asyncio.timeout(self._pace.lease):
                led = await self._queue.lead(self._worker, self._pace.lease)
                rows = await self._queue.workers() if led else []
                latest = max((row.beat_at for row in rows), default=0.0)
                for row in rows:
                    if row.until < latest and row.beat.worker != self._worker:
                        count = await self._queue.leave(row.beat.worker, crashed=True)
                        _log.info("worker %s is gone; %d of its runs were still its", row.beat.worker, count)
            self._troubles.over(NOT_LOOKED_AFTER)
        except (StoreError, TimeoutError) as error:
            self._troubles.failed(NOT_LOOKED_AFTER, self._words(error))
