"""Signs of life: of each run, from the run itself, and of the worker, from a thread of its own.

The two are apart on purpose. A run that beats while its worker is frozen, and a worker that beats while one of its
runs hangs, are different troubles with different remedies. Nothing here decides what becomes of silence.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from capataz.mistakes import Fenced
from capataz.ports import Claim, TurnBeat

WaitingFor: TypeAlias = Literal["model", "tool", "own"]
OWN_SILENCE = 300.0
"""Seconds the runtime's own work between two waits may take: mostly the store, which gives up long before."""


@dataclass(slots=True, eq=False)
class Phase:
    """What a run waits for at the moment. Parallel reads are several phases."""

    waiting_for: WaitingFor
    who: str
    silent: float
    """Seconds without a sign of life that are normal here."""
    at: float
    """Monotonic time of the last one."""


class Pulse:
    """The signs of life of one run, and what its worker has to tell it.

    Written in the run's own loop, read from the thread of the heart. All times inside are monotonic seconds.
    """

    def __init__(self, run: str, claim: Claim | None = None, *, own_silence: float = OWN_SILENCE) -> None:
        self.run, self.claim = run, claim
        self.stopping = False
        """The worker wants to stop: leave off at the next step."""
        self.order: str | None = None
        """Why the run shall be broken off."""
        self.lost = False
        """Another worker has the run."""
        self.hung: TurnBeat | None = None
        """It was silent for too long and is being cut."""
        self._held = float("inf")
        self._held_wall = float("inf")
        self._own = Phase("own", "", own_silence, time.monotonic())
        self._phases: list[Phase] = []
        self._cut: Callable[[], object] | None = None

    @contextmanager
    def waiting(self, waiting_for: WaitingFor, who: str, silent: float) -> Generator[Callable[[], None]]:
        """The run waits for something from here to the end of the block. Gives the function that beats."""
        phase = Phase(waiting_for, who, silent, time.monotonic())
        self._phases.append(phase)

        def beat() -> None:
            phase.at = time.monotonic()

        try:
            yield beat
        finally:
            self._phases.remove(phase)
            self._own.at = time.monotonic()

    def beat(self) -> None:
        """A step was made."""
        self._own.at = time.monotonic()

    # ── the lease ────────────────────────────────────────────────────────────────────────────────────────

    def held(self, monotonic: float, wall: float) -> None:
        """The run is this worker's at least until then, on both clocks: one stands still while a machine sleeps."""
        self._held, self._held_wall = monotonic, wall

    def claimed(self, lease: float) -> None:
        """The run was claimed a moment ago, for so many seconds."""
        left = lease * 0.9
        self.held(time.monotonic() + left, time.time() + left)

    def check(self) -> None:
        """Raises `Fenced` when the run may not be this worker's any more: nothing new may be started then.

        A process that was frozen and wakes up comes here before it learns from the store that it was replaced.
        """
        if self.lost or time.monotonic() > self._held or time.time() > self._held_wall:
            raise Fenced(
                f"the lease of run {self.run} has run out while this worker was not looking: start nothing more"
            )

    # ── from the worker's thread ─────────────────────────────────────────────────────────────────────────

    @contextmanager
    def attached(self) -> Generator[None]:
        """Lets `cut` cancel the task that runs this block."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._cut = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            yield
        finally:
            self._cut = None

    @property
    def was_cut(self) -> bool:
        return self.lost or self.order is not None or self.hung is not None

    def cut(self) -> None:
        """Cancel what the run does now. From any thread; whoever drives it reads `order`, `lost` and `hung`."""
        cut = self._cut
        if cut is not None:
            try:
                cut()
            except RuntimeError:  # the loop is gone, and the run with it
                return

    def silence(self, now: float) -> tuple[Phase, float]:
        """The phase that is longest over its time, and its seconds of silence. Phases nest: the innermost counts."""
        phases = tuple(self._phases) or (self._own,)
        worst = max(phases, key=lambda phase: now - phase.at - phase.silent)
        return worst, now - worst.at

    def turn(self, now: float, wall: float) -> TurnBeat:
        """What the queue is told of it."""
        phase, silence = self.silence(now)
        token = self.claim.token if self.claim is not None else 0
        return TurnBeat(self.run, token, wall - silence, phase.waiting_for, phase.silent)


class Pulses:
    """The runs a worker has at the moment. Added and removed in the loop, read from the thread of the heart."""

    def __init__(self) -> None:
        self._pulses: dict[str, Pulse] = {}

    def __len__(self) -> int:
        return len(self._pulses)

    def __iter__(self) -> Iterator[Pulse]:
        return iter(tuple(self._pulses.values()))

    @contextmanager
    def of(self, pulse: Pulse) -> Generator[None]:
        self._pulses[pulse.run] = pulse
        try:
            yield
        finally:
            if self._pulses.get(pulse.run) is pulse:
                del self._pulses[pulse.run]

    def get(self, run: str) -> Pulse | None:
        return self._pulses.get(run)

    def drop(self, pulse: Pulse) -> None:
        """It cannot be stopped: beat for it no more, so that another worker takes it over."""
        if self._pulses.get(pulse.run) is pulse:
            del self._pulses[pulse.run]
