"""What is counted of a run as it goes: retries, escalations, loops, waits cut from outside, refusals, effects.

One small fold, used by the OpenTelemetry counters, by the metrics over a store and by the alerts, so that the three
can never count differently. It must never count what a fact does not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

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
from capataz.lens import spans_names as n

Labels: TypeAlias = "tuple[tuple[str, str], ...]"
MOST_IDENTITIES = 1000
"""Loops of one run that are told apart; a run with more has been counted as looping long before."""


@dataclass(frozen=True, slots=True)
class Count:
    """One more of something. `name` is a counter's of `spans_names`; `labels` are its attributes, sorted."""

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
        match event.fact:
            case ModelCallStarted(purpose="loop") as fact:
                return self._asked(fact)
            case ModelReplied(purpose="loop", turn=turn):
                self._failed = ""
                return self._turn_of(turn)
            case ModelCallFailed(fault=fault):
                self._failed = fault.row
                return _fault(fault, "model")
            case ToolFailed(fault=fault, call=call):
                retry = Count(n.RETRIES, ((n.ERROR_CLASS, fault.row), ("of", "tool"), (n.TOOL_NAME, call.tool)))
                return (retry, *_fault(fault, "tool"))
            case ToolFinished(fault=Fault() as fault):
                return _fault(fault, "tool")
            case TickPassed(waiting_for=waiting) as fact if event.at > fact.beat:
                return (Count(n.KILLS, ((n.WAITING_FOR, waiting),)),)
            case VerdictGiven() as fact:
                return self._verdict(fact)
            case fact:
                count = _PLAIN.get(type(fact))
                if count is not None:
                    return (count,)
                return _detailed(fact)

    def _asked(self, fact: ModelCallStarted) -> tuple[Count, ...]:
        counts = self._turn_of(fact.turn)
        if fact.attempt > 0 and self._failed:
            counts = (*counts, Count(n.RETRIES, ((n.ERROR_CLASS, self._failed), ("of", "model"))))
        return counts

    def _turn_of(self, turn: int) -> tuple[Count, ...]:
        """A turn counts once, however often the model had to be asked."""
        if turn == self._turn:
            return ()
        self._turn = turn
        return (Count(n.TURNS),)

    def _verdict(self, fact: VerdictGiven) -> tuple[Count, ...]:
        counts: tuple[Count, ...] = ()
        if fact.action == "fail-turn":
            counts = (Count(n.EMPTY_TURNS, ((n.GUARD, fact.guard),)),)
        if fact.guard in n.LOOPING and fact.identity not in self._loops and len(self._loops) < MOST_IDENTITIES:
            self._loops.add(fact.identity)
            return (*counts, Count(n.LOOPS, ((n.GUARD, fact.guard),)))
        return counts


def _fault(fault: Fault, of: str) -> tuple[Count, ...]:
    """A deadline of ours that cut a wait is a kill; an error status that says "timeout" is the provider's own."""
    if fault.reason == "timeout" and fault.status is None:
        return (Count(n.KILLS, ((n.WAITING_FOR, of),)),)
    if fault.row == "ours" and fault.reason in ("money", "price-unknown"):
        return (Count(n.REFUSALS, (("capataz.ceiling", "money"),)),)
    return ()


def _detailed(fact: object) -> tuple[Count, ...]:
    match fact:
        case CeilingReached(ceiling=ceiling):
            return (Count(n.REFUSALS, (("capataz.ceiling", ceiling),)),)
        case EffectChecked(phase="after", answer="yes"):
            return (Count(n.CONFIRMED),)
        case EffectChecked(phase="after", answer="no"):
            return (Count(n.DENIED),)
        case _:
            return ()


_PLAIN: Mapping[type, Count] = MappingProxyType({RunEscalated: Count(n.ESCALATIONS)})
