"""What is counted of a run as it goes: retries, escalations, loops, waits cut from outside, refusals, effects.

One small fold, used by the OpenTelemetry counters, by the metrics over a store and by the alerts, so that the three
can never count differently. It must never count what a fact does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from capataz.events.facts import (
    CeilingReached,
    EffectChecked,
    Event,
    Fault,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    RunEscalated,
    TickPassed,
    ToolFailed,
    ToolFinished,
    VerdictGiven,
)
from capataz.lens.spans import names as n

Labels: TypeAlias = "tuple[tuple[str, str], ...]"
MOST_IDENTITIES = 1000
"""Loops of one run that are told apart; a run with more has been counted as looping long before."""


@dataclass(frozen=True, slots=True)
class Count:
    """One more of something. `name` is a counter's of `spans.names`; `labels` are its attributes, sorted."""

    name: str
    labels: Labels = ()


@dataclass(slots=True)
class Counting:
    """Counts one run. `fold` gives what the event adds, mostly nothing."""

    _turn: int = -1
    _failed: str = ""
    """Class of the newest failure of a model call, until a reply comes."""
    _loops: set[str] = field(default_factory=set[str])

    def fold(self, event: Event) -> tuple[Count, ...]:
        tell = self._TELL.get(type(event.fact))
        return tell(self, event, event.fact) if tell is not None else ()

    def _asked(self, event: Event, fact: ModelCallStarted) -> tuple[Count, ...]:
        if fact.purpose != "loop":
            return ()
        counts = self._turn_of(fact.turn)
        if fact.attempt > 0 and self._failed:
            counts = (*counts, Count(n.RETRIES, ((n.ERROR_CLASS, self._failed), ("of", "model"))))
        return counts

    def _replied(self, event: Event, fact: ModelReplied) -> tuple[Count, ...]:
        if fact.purpose != "loop":
            return ()
        self._failed = ""
        return self._turn_of(fact.turn)

    def _model_failed(self, event: Event, fact: ModelCallFailed) -> tuple[Count, ...]:
        self._failed = fact.fault.row
        return _fault(fact.fault, "model")

    def _tool_failed(self, event: Event, fact: ToolFailed) -> tuple[Count, ...]:
        labels = ((n.ERROR_CLASS, fact.fault.row), ("of", "tool"), (n.TOOL_NAME, fact.call.tool))
        return (Count(n.RETRIES, labels), *_fault(fact.fault, "tool"))

    def _finished(self, event: Event, fact: ToolFinished) -> tuple[Count, ...]:
        return _fault(fact.fault, "tool") if fact.fault is not None else ()

    def _tick(self, event: Event, fact: TickPassed) -> tuple[Count, ...]:
        return (Count(n.KILLS, ((n.WAITING_FOR, fact.waiting_for),)),) if event.at > fact.beat else ()

    def _escalated(self, event: Event, fact: RunEscalated) -> tuple[Count, ...]:
        return (Count(n.ESCALATIONS),)

    def _ceiling(self, event: Event, fact: CeilingReached) -> tuple[Count, ...]:
        return (Count(n.REFUSALS, (("capataz.ceiling", fact.ceiling),)),)

    def _effect(self, event: Event, fact: EffectChecked) -> tuple[Count, ...]:
        if fact.phase != "after" or fact.answer == "unknown":
            return ()
        return (Count(n.CONFIRMED if fact.answer == "yes" else n.DENIED),)

    def _turn_of(self, turn: int) -> tuple[Count, ...]:
        """A turn counts once, however often the model had to be asked."""
        if turn == self._turn:
            return ()
        self._turn = turn
        return (Count(n.TURNS),)

    def _verdict(self, event: Event, fact: VerdictGiven) -> tuple[Count, ...]:
        counts: tuple[Count, ...] = ()
        if fact.action == "fail-turn":
            counts = (Count(n.EMPTY_TURNS, ((n.GUARD, fact.guard),)),)
        if fact.guard in n.LOOPING and fact.identity not in self._loops and len(self._loops) < MOST_IDENTITIES:
            self._loops.add(fact.identity)
            return (*counts, Count(n.LOOPS, ((n.GUARD, fact.guard),)))
        return counts

    _TELL: ClassVar[Mapping[type, Callable[[Any, Event, Any], tuple[Count, ...]]]] = {
        ModelCallStarted: _asked,
        ModelReplied: _replied,
        ModelCallFailed: _model_failed,
        ToolFailed: _tool_failed,
        ToolFinished: _finished,
        TickPassed: _tick,
        VerdictGiven: _verdict,
        RunEscalated: _escalated,
        CeilingReached: _ceiling,
        EffectChecked: _effect,
    }


def _fault(fault: Fault, of: str) -> tuple[Count, ...]:
    """A deadline of ours that cut a wait is a kill; an error status that says "timeout" is the provider's own."""
    if fault.reason == "timeout" and fault.status is None:
        return (Count(n.KILLS, ((n.WAITING_FOR, of),)),)
    if fault.row == "ours" and fault.reason in ("money", "price-unknown"):
        return (Count(n.REFUSALS, (("capataz.ceiling", "money"),)),)
    return ()
