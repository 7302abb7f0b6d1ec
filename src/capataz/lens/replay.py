"""What the guards would have done: a recorded run fed through them, judged the way the live kernel judges.

A replay is exact up to the first firing. After it a live model would have read a note, or not run at all, and the
record cannot show what it would have done then: everything later is what the guards say to a model that heard nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from capataz.events.facts import Event, ModelReplied, ToolFinished, ToolRefused, VerdictGiven
from capataz.guards.base import Signal
from capataz.guards.watch import Watch
from capataz.kernel.verdicts import Mode, judge, stronger


@dataclass(frozen=True, slots=True)
class Fired:
    """One signal and what was made of it. `place` is the index, in the list replayed, of the event that decided it."""

    place: int
    seq: int
    signal: Signal
    verdict: VerdictGiven


@dataclass(frozen=True, slots=True)
class Replayed:
    """Everything that fired, in order. `cut` is the first verdict that ends the run; None when nothing would."""

    fired: tuple[Fired, ...] = ()

    @property
    def first(self) -> Fired | None:
        """The replay is exact up to here."""
        return self.fired[0] if self.fired else None

    @property
    def cut(self) -> Fired | None:
        return next((one for one in self.fired if one.verdict.action in ("stop", "escalate")), None)


@dataclass(slots=True)
class _Judge:
    """Signals of one batch wait until it has ended, as in the live kernel; of one loop the strongest counts."""

    modes: Mapping[str, Mode]
    heard: dict[str, int] = field(default_factory=dict[str, int])
    waiting: dict[str, tuple[int, int, Signal]] = field(default_factory=dict[str, tuple[int, int, Signal]])
    places: dict[int, int] = field(default_factory=dict[int, int])
    """Position to index, for the events since the latest reply."""
    open: int = 0
    turn: int = 0

    def notice(self, place: int, seq: int, signal: Signal) -> None:
        mode = self.modes.get(signal.guard, "enforce")
        held = self.waiting.get(signal.identity)
        if mode != "off" and (held is None or stronger(held[2], signal) is signal):
            self.waiting[signal.identity] = (place, seq, signal)

    def settle(self) -> list[Fired]:
        given: list[Fired] = []
        for place, seq, signal in self.waiting.values():
            verdict = judge(signal, self.heard, self.turn, self.modes.get(signal.guard, "enforce"))
            if verdict.action in ("nudge", "fail-turn"):
                self.heard[signal.identity] = self.turn
            given.append(Fired(place, seq, signal, verdict))
        self.waiting.clear()
        return given


def replay(events: Iterable[Event], watch: Watch, modes: Mapping[str, Mode] | None = None) -> Replayed:
    """Feed recorded events to the guards and judge what they say. Modes per guard; one not named is enforced.

    The order of the events inside a batch of parallel calls does not matter to the verdicts on it: they are given
    when all calls of the reply have ended. Replay goes on to the end of the record, also past a cut.
    """
    state, bench, fired = watch.start(), _Judge(modes or {}), list[Fired]()
    for place, event in enumerate(events):
        fact = event.fact
        if isinstance(fact, ModelReplied) and fact.purpose == "loop":
            fired += bench.settle()
            bench.turn, bench.open = fact.turn, len(fact.calls)
            bench.places.clear()
        elif isinstance(fact, ToolFinished | ToolRefused):
            bench.open -= 1
        bench.places[event.seq] = place
        state, signals = watch.step(state, event)
        for signal in signals:
            seq = signal.evidence[-1] if signal.evidence else event.seq
            bench.notice(bench.places.get(seq, place), seq, signal)
        if bench.open <= 0 and bench.waiting:
            fired += bench.settle()
    fired += bench.settle()
    return Replayed(tuple(fired))
