"""What went wrong on the way of one run, counted, in words: loops, empty turns, cut waits, retries, refusals.

These are the counters of `metrics.counts` and nothing else, so that what is told of one run and what is measured over
thousands can never differ. It must never judge: each of them was counted because a fact says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from capataz.events.facts import JSON, Event
from capataz.lens.metrics.counts import Count, Counting
from capataz.lens.spans import names as n
from capataz.lens.words import Line, counted


@dataclass(slots=True)
class Signal:
    """Something counted in a run: how often, and the sequence number of the event it was first counted at."""

    count: Count
    first: int
    times: int = 1

    @property
    def line(self) -> Line:
        """It in words, with the first event as its evidence."""
        return Line("warn", _WORDS[self.count.name](self.times, dict(self.count.labels)), evidence=(self.first,))

    def json(self) -> dict[str, JSON]:
        labels: dict[str, JSON] = {**dict(self.count.labels)}
        return {"name": self.count.name, "labels": labels, "times": self.times, "first": self.first}


@dataclass(slots=True)
class Signals:
    """The signals of one run, in the order in which they were first seen."""

    found: dict[Count, Signal] = field(default_factory=dict[Count, Signal])
    _counting: Counting = field(default_factory=Counting)

    def fold(self, event: Event) -> None:
        for count in self._counting.fold(event):
            known = self.found.get(count)
            if known is not None:
                known.times += 1
            elif count.name in _WORDS:
                self.found[count] = Signal(count, event.seq)


Labels = Mapping[str, str]


def _retries(times: int, labels: Labels) -> str:
    of = f"the tool {labels[n.TOOL_NAME]}" if n.TOOL_NAME in labels else "the model"
    return f"{counted(times, 'retry', 'retries')} of {of} after an error of class {labels[n.ERROR_CLASS]}"


def _cut(times: int, labels: Labels) -> str:
    awaited = labels[n.WAITING_FOR]
    whom = "the worker itself" if awaited == "own" else f"the {awaited}"
    return f"{counted(times, 'wait')} for {whom} cut: no sign of life"


_WORDS: Mapping[str, Callable[[int, Labels], str]] = {
    n.LOOPS: lambda times, labels: f"{counted(times, 'loop')} noticed by the guard {labels[n.GUARD]}",
    n.EMPTY_TURNS: lambda times, labels: f"{counted(times, 'turn')} that did nothing ({labels[n.GUARD]})",
    n.KILLS: _cut,
    n.RETRIES: _retries,
    n.ESCALATIONS: lambda times, _: f"{counted(times, 'escalation')} to someone else",
    n.REFUSALS: lambda times, labels: f"the budget refused: {labels['capataz.ceiling']}",
    n.DENIED: lambda times, _: f"{counted(times, 'act')} whose effect is not there",
}
"""What is told of a run; turns and confirmed effects are no trouble."""
