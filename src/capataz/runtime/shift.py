"""A worker's shift: it takes runs from the queue and drives them until it is told to stop or has to be replaced.

Every run is taken up from its log, whoever began it. Before anything is driven the crashes at its step are counted; a
run that keeps taking its worker down ends, and is not tried for ever. Nothing is remembered here between two runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from capataz.engines.local import Share, Slots
from capataz.events.facts import TickPassed
from capataz.kernel.cutting import break_off, step_of
from capataz.kernel.state import State
from capataz.mistakes import Fenced, NotFound, StoreError
from capataz.ports import Claim, Crashes, Driven, Driver, Queue
from capataz.runtime.conversing import conversations_of, enter, told_of
from capataz.runtime.described import check_share
from capataz.runtime.heartbeat import Pulse, Pulses
from capataz.runtime.journal import Journal
from capataz.runtime.launch import Parked, arrival, begun, go_on, resumed, taken, told
from capataz.runtime.watchdog import Heart, Pace, Unfit
from capataz.runtime.yard import Spec, Task, Yard

_log = logging.getLogger("capataz.worker")
TURN_PAUSE = 1.0
"""Seconds after which a run looks again whether it is its turn; the end of the run before it wakes it earlier."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a worker takes on. `crashes` at one step, or three times as many in all, end a run."""

    slots: int = 10
    per_tenant: int | None = None
    """Runs of one tenant that may be under way at once, in all workers together. None: no limit."""
    crashes: int = 3
    pace: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        check_share("Terms: slots", self.slots, least=1, whole=True)
        check_share("Terms: crashes", self.crashes, least=1, whole=True)
        if self.per_tenant is not None:
            check_share("Terms: per_tenant", self.per_tenant, least=1, whole=True)


class Driving:
    """The `Driver` of this runtime: one claimed run, from its log to its end, its pause, or its next worker."""

    def __init__(self, specs: Mapping[str, Spec], queue: Queue, yard: Yard, terms: Terms, pulses: Pulses) -> None:
        self._specs, self._queue, self._yard, self._terms, self._pulses = specs, queue, yard, terms, pulses

    async def __call__(self, claim: Claim) -> Driven:
        spec = self._specs[claim.job.agent]
        pulse = Pulse(claim.job.run, claim, own_silence=spec.rules.policy.thresholds.own_silence)
        pulse.claimed(self._terms.pace.lease)
        journal: Journal | None = None
        with self._pulses.of(pulse), pulse.attached():
            try:
                journal, epoch, standing = await self._journal(spec, claim)
                if journal is None:
                    return Driven("parked", until=self._yard.around.clock.now() + TURN_PAUSE)
                driven = await self._drive(spec, claim, journal, epoch, pulse, standing)
            except Fenced:
                if pulse.hung is not None:  # it was given up here: the crash that was counted for it is one
                    return Driven("hung", "no sign of life")
                raise
            except asyncio.CancelledError:
                if not pulse.was_cut:
                    raise
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
                driven = await self._cut(journal, pulse)
        if claim.job.conversation is not None and journal is not None and journal.state.over:
            talks = conversations_of(self._yard.store, self._yard.around.clock.now)
            await talks.leave(claim.job.conversation, claim.job.run, told_of(journal.state))
        return driven

    async def _journal(self, spec: Spec, claim: Claim) -> tuple[Journal | None, int | None, tuple[str, ...]]:
        """The run's journal, the epoch it was taken up in (None where it begins now), and what others of its
        conversation have done. No journal where it is not its turn in the conversation."""
        job, yard = claim.job, self._yard
        try:
            await yard.store.read(job.run)
        except NotFound:
            task = Task(job.task, job.task_type, job.conversation, run=job.run, tenant=job.tenant, user=job.user)
            if job.conversation is None:
                return await begun(spec, task, yard), None, ()
            await conversations_of(yard.store, yard.around.clock.now).arrive(arrival(spec, task))
            entered = await enter(yard, spec.rules, job.conversation, job.run)
            if entered is None:
                return None, None, ()
            return await begun(spec, told(task, job.run, entered), yard), None, ()
        journal, epoch = await taken(spec, job.run, yard)
        if job.conversation is None or journal.state.over:
            return journal, epoch, ()
        entered = await enter(yard, spec.rules, job.conversation, job.run)
        return (None, None, ()) if entered is None else (journal, epoch, entered.standing)

    async def _drive(
        self, spec: Spec, claim: Claim, journal: Journal, epoch: int | None, pulse: Pulse, standing: tuple[str, ...]
    ) -> Driven:
        state = journal.state
        crashes = await self._queue.begin(claim, step_of(state))
        if crashes is None:
            raise Fenced(f"run {claim.job.run} was claimed by another worker before it was begun here")
        if state.ended is not None:
            return _standing(state)
        if claim.order is not None:
            await _break(journal, "cancelled", claim.order)
            return Driven("cancelled", claim.order)
        if (poison := self._poison(crashes)) is not None:
            await _break(journal, "poison", poison)
            return Driven("dead", poison)
        if state.over:
            return _standing(state)
        if epoch is not None:
            reason = "recovered" if crashes.total else "continued"
            journal.record(resumed(spec, state, epoch, reason, standing))
            await journal.durable()
        result = await go_on(spec, self._yard, journal, spec.rules.policy.long_wait, pulse)
        if isinstance(result, Parked):
            return Driven("parked", until=result.until)
        return _standing(journal.state)

    def _poison(self, crashes: Crashes) -> str | None:
        if crashes.here >= self._terms.crashes:
            return f"it took its worker down {crashes.here} times at the same step"
        if crashes.total >= 3 * self._terms.crashes:
            return f"it took its worker down {crashes.total} times"
        return None

    async def _cut(self, journal: Journal | None, pulse: Pulse) -> Driven:
        """The run was cancelled by its own worker's heart."""
        if pulse.lost and pulse.hung is None:
            raise Fenced(f"run {pulse.run} was taken over by another worker")
        if pulse.hung is not None:
            if journal is not None and not pulse.lost:
                journal.record(TickPassed(pulse.hung.at, pulse.hung.waiting_for))
                await journal.durable()
            return Driven("hung", "no sign of life")
        words = pulse.order or ""
        if journal is None:  # whoever claims it next has the order
            return Driven("parked", until=0.0)
        await _break(journal, "cancelled", words)
        return Driven("cancelled", words)


class Filling(Protocol):
    """How a worker's slots are filled: from the queue, or by the machinery of a cluster. As `engines.local.Slots`."""

    @property
    def busy(self) -> int: ...

    def stop(self) -> None: ...

    def abandon(self, run: str) -> None: ...

    async def serve(self, until_idle: bool = False) -> None: ...

    async def drain(self, seconds: float) -> None: ...


class Shift:
    """One worker. `work` returns when it was stopped, with None, or has to be replaced, with the reason."""

    def __init__(
        self,
        specs: Mapping[str, Spec],
        queue: Queue,
        yard: Yard,
        terms: Terms,
        on_unfit: Callable[[Unfit], None] | None = None,
        fill: Callable[[Driver, str, Share], Filling] | None = None,
    ) -> None:
        self._queue, self._yard, self._terms = queue, yard, terms
        self._on_unfit = on_unfit
        self._pulses = Pulses()
        # Fresh for every shift: a worker that restarts under its old name would take its own runs for alive.
        self.name = f"{yard.owner}-{yard.around.chance.identity()}"
        share = Share(terms.slots, tuple(specs), terms.pace.lease, terms.pace.poll, terms.per_tenant)
        driving = Driving(specs, queue, yard, terms, self._pulses)
        self._slots = Slots(queue, driving, self.name, share) if fill is None else fill(driving, self.name, share)
        self._unfit: Unfit | None = None

    @property
    def busy(self) -> int:
        """Runs under way."""
        return self._slots.busy

    def stop(self) -> None:
        """Take no more work; runs leave off at their next step. In the loop that works."""
        self._slots.stop()
        for pulse in self._pulses:
            pulse.stopping = True

    async def work(self, until_idle: bool = False) -> Unfit | None:
        """Until `stop` (or, with `until_idle`, until there is nothing to do); what is under way is given back.

        Raises `StoreError` where `until_idle` is asked for and the store cannot say what there is to do.
        """
        loop, pace = asyncio.get_running_loop(), self._terms.pace

        def unfit(why: Unfit) -> None:  # in the heart's thread
            self._unfit = why
            if self._on_unfit is not None:
                self._on_unfit(why)
            loop.call_soon_threadsafe(self.stop)

        threads = self._yard.around.threads
        heart = Heart(self._queue, self.name, self._pulses, pace, threads, unfit, self._slots.abandon)
        heart.slots = self._terms.slots
        heart.start()
        try:
            await self._slots.serve(until_idle)
        finally:
            heart.draining = True
            self.stop()
            await self._slots.drain(pace.drain)
            await heart.stop()
            await self._sign_off()
        return self._unfit

    async def _sign_off(self) -> None:
        try:
            await self._queue.leave(self.name, crashed=self._unfit is not None)
        except StoreError as error:
            _log.warning("worker %s could not sign off: %s", self.name, error)


def _standing(state: State) -> Driven:
    if state.ended is not None:
        return Driven("done", state.ended.reason)
    return Driven("waiting", state.escalated.reason if state.escalated is not None else "")


async def _break(journal: Journal, reason: str, words: str) -> None:
    while records := break_off(journal.state, reason, words):
        for record in records:
            journal.record(record.fact)
    await journal.durable()
