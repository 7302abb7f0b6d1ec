"""All runs together: streaming sums whose size does not grow with the number of runs, and which add up across parts.

Runs are counted once under the failure that would have ended them; what guards noticed besides is counted by kind.
Only a bounded number of the worst runs is kept with its steps. What one part counted and another part counted add up
to what one pass over everything would have counted.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from capataz.events.facts import Event
from capataz.lens.diagnose.findings import FAILURES, Diagnosis, Failure, Finding, Shown, Spent
from capataz.lens.diagnose.showing import masked, steps_of
from capataz.lens.masked import Shower
from capataz.privacy.mask import Mask

MASKED = Shower(Mask())
"""Without the secrets that only the place knows where a report is made."""
KEPT = 12
"""Worst runs kept with their steps, for each of the failures and for the pointers."""
BANDS: tuple[tuple[int, str], ...] = (
    (10, "under 10 turns"),
    (20, "10 to 19 turns"),
    (40, "20 to 39 turns"),
    (10**9, "40 turns and more"),
)
"""Runs are compared within a band of length: long runs have more of everything, and fail more often anyway."""
GOOD_RUNS = 30
"""Good runs of a kind that are needed before a distance from them is shown."""
_MOST_KINDS_OF_RUN = 400
_MOST_PAIRS = 4_000
_MOST_TOOLS = 400
_MOST_SOURCES = 200


@dataclass(slots=True)
class Sum:
    """What was used by many runs. `money` is that of the `priced` runs; the others lack a price."""

    turns: int = 0
    calls: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)
    priced: int = 0
    unpriced: int = 0

    def add(self, spent: Spent) -> None:
        self.turns += spent.turns
        self.calls += spent.calls
        self.tokens += spent.tokens
        if spent.money is None:
            self.unpriced += 1
        elif spent.turns:
            self.money += spent.money
            self.priced += 1

    def merge(self, other: Sum) -> None:
        self.turns += other.turns
        self.calls += other.calls
        self.tokens += other.tokens
        self.money += other.money
        self.priced += other.priced
        self.unpriced += other.unpriced


@dataclass(slots=True)
class KindSum:
    """One kind of finding: runs that have it, how they went, and what they used after a cut for it."""

    runs: int = 0
    good: int = 0
    bad: int = 0
    cut: int = 0
    good_cut: int = 0
    after: Sum = field(default_factory=Sum)

    def merge(self, other: KindSum) -> None:
        self.runs += other.runs
        self.good += other.good
        self.bad += other.bad
        self.cut += other.cut
        self.good_cut += other.good_cut
        self.after.merge(other.after)


@dataclass(slots=True)
class Waits:
    """Seconds waited, in steps of a quarter of an octave: quantiles are right within a fifth."""

    counts: Counter[int] = field(default_factory=Counter[int])
    longest: float = 0.0

    def add(self, seconds: Iterable[float]) -> None:
        for wait in seconds:
            self.longest = max(self.longest, wait)
            self.counts[_bucket(wait)] += 1

    def merge(self, other: Waits) -> None:
        self.counts.update(other.counts)
        self.longest = max(self.longest, other.longest)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float) -> float:
        """Seconds that this share of the waits did not exceed; 0 where there were none."""
        wanted, seen = share * self.total, 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted:
                return min(self.longest, 0.01 * 2 ** (bucket / 4))
        return self.longest


def _bucket(seconds: float) -> int:
    bucket = 0
    limit = 0.01
    while limit < seconds and bucket < 200:
        bucket += 1
        limit = 0.01 * 2 ** (bucket / 4)
    return bucket


@dataclass(slots=True)
class Sums:
    """The runs of one source, or of all."""

    runs: int = 0
    good: int = 0
    bad: int = 0
    estimated: int = 0
    """Runs whose tokens are estimates, since the record says nothing."""
    timeless: int = 0
    """Runs without times."""
    spent: Sum = field(default_factory=Sum)
    spent_bad: Sum = field(default_factory=Sum)
    failures: Counter[Failure] = field(default_factory=Counter[Failure])
    cut: int = 0
    good_cut: int = 0
    after: Sum = field(default_factory=Sum)
    after_bad: Sum = field(default_factory=Sum)
    silent_turns: int = 0
    no_call: int = 0
    """Runs that never called a tool."""
    unbacked: int = 0
    unbacked_good: int = 0
    unbacked_bad: int = 0
    unanswered: int = 0
    repeating: int = 0
    """Runs with two loops of steps or more."""
    errors: int = 0
    bursts: int = 0
    longest_burst: int = 0

    def add(self, told: Diagnosis) -> None:
        good, bad = told.subject.label is True, told.subject.label is False
        self.runs += 1
        self.good += good
        self.bad += bad
        self.estimated += not told.subject.usage_known
        self.timeless += not told.subject.times_known
        self.spent.add(told.spent)
        if told.failure is not None:
            self.failures[told.failure] += 1
        if told.cut is not None:
            self.cut += 1
            self.good_cut += good
            self.after.add(told.after)
        if bad:
            self.spent_bad.add(told.spent)
            self.after_bad.add(told.after)
        self.silent_turns += told.turns_without_call
        self.no_call += told.spent.calls == 0
        self.unbacked += told.unbacked
        self.unbacked_good += told.unbacked and good
        self.unbacked_bad += told.unbacked and bad
        self.unanswered += told.unanswered
        self.repeating += told.repeats
        self.errors += told.errors
        self.bursts += told.longest_burst >= 3
        self.longest_burst = max(self.longest_burst, told.longest_burst)

    def merge(self, other: Sums) -> None:
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failures.update(other.failures)
        for name in ("spent", "spent_bad", "after", "after_bad"):
            getattr(self, name).merge(getattr(other, name))
        self.longest_burst = max(self.longest_burst, other.longest_burst)


_COUNTS = (
    "runs", "good", "bad", "estimated", "timeless", "cut", "good_cut", "silent_turns", "no_call", "unbacked",
    "unbacked_good", "unbacked_bad", "unanswered", "repeating", "errors", "bursts",
)  # fmt: skip


@dataclass(slots=True)
class Guessed:
    """What was guessed of one tool, and how often it was called."""

    kind: str
    target: str | None
    why: str
    runs: int = 0


@dataclass(slots=True)
class Totals:
    """Everything found so far. Fed with `add`; parts of the same reading are put together with `merge`."""

    all: Sums = field(default_factory=Sums)
    sources: dict[str, Sums] = field(default_factory=dict[str, Sums])
    kinds: dict[tuple[Failure, str], KindSum] = field(default_factory=dict[tuple[Failure, str], KindSum])
    rows: Counter[str] = field(default_factory=Counter[str])
    """Errors by row of the taxonomy."""
    waits_model: Waits = field(default_factory=Waits)
    waits_tool: Waits = field(default_factory=Waits)
    pointed: Counter[tuple[str, str, str, str]] = field(default_factory=Counter[tuple[str, str, str, str]])
    """Runs by (pointer kind, source, band, "good" or "bad"); the kind "" counts all labelled runs of the band."""
    tools: dict[str, Guessed] = field(default_factory=dict[str, Guessed])
    good_pairs: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict[str, Counter[tuple[str, str]]])
    good_runs: Counter[str] = field(default_factory=Counter[str])
    worst: dict[str, list[tuple[tuple[int, int, str], Shown]]] = field(
        default_factory=dict[str, list[tuple[tuple[int, int, str], Shown]]]
    )

    def add(self, told: Diagnosis, events: Sequence[Event], shower: Shower = MASKED) -> None:
        """Count one run, and keep it, masked, with its steps if it is among the worst."""
        self.all.add(told)
        source = told.subject.source if len(self.sources) < _MOST_SOURCES else "others"
        self.sources.setdefault(source, Sums()).add(told)
        self._kinds(told)
        self.rows.update(dict(told.error_rows))
        self.waits_model.add(told.waits_model)
        self.waits_tool.add(told.waits_tool)
        self._pointers(told, source)
        self._profile(told)
        if told.failure is not None:
            self._keep(told.failure, told, events, shower)
        elif told.pointers:
            self._keep("pointer", told, events, shower)

    def tool(self, name: str, kind: str, target: str | None, why: str) -> None:
        """What was guessed of a tool in one run."""
        held = self.tools.get(name)
        if held is None:
            if len(self.tools) >= _MOST_TOOLS:
                return
            held = self.tools[name] = Guessed(kind, target, why)
        held.runs += 1

    def merge(self, other: Totals) -> None:
        """Add what another part of the same reading found."""
        self.all.merge(other.all)
        for name, sums in other.sources.items():
            self.sources.setdefault(name, Sums()).merge(sums)
        for key, kind in other.kinds.items():
            self.kinds.setdefault(key, KindSum()).merge(kind)
        self.rows.update(other.rows)
        self.waits_model.merge(other.waits_model)
        self.waits_tool.merge(other.waits_tool)
        self.pointed.update(other.pointed)
        for name, tool in other.tools.items():
            held = self.tools.setdefault(name, Guessed(tool.kind, tool.target, tool.why))
            held.runs += tool.runs
        for name, pairs in other.good_pairs.items():
            self.good_pairs.setdefault(name, Counter()).update(pairs)
        self.good_runs.update(other.good_runs)
        for name, heap in other.worst.items():
            for item in heap:
                _push(self.worst.setdefault(name, []), item)

    def shown(self) -> dict[str, list[Shown]]:
        """The worst runs of each failure, worst first, with their distance from the good runs of the same kind."""
        found: dict[str, list[Shown]] = {}
        for name in (*FAILURES, "pointer"):
            heap = sorted(self.worst.get(name, []), key=lambda item: item[0], reverse=True)
            found[name] = [self._distanced(shown) for _, shown in heap]
        return found

    def _kinds(self, told: Diagnosis) -> None:
        seen: set[tuple[Failure, str]] = set()
        for finding in told.findings:
            seen.add((finding.failure, finding.kind))
        for key in seen:
            kind = self.kinds.setdefault(key, KindSum())
            kind.runs += 1
            kind.good += told.subject.label is True
            kind.bad += told.subject.label is False
            if told.cut is not None and (told.cut.failure, told.cut.kind) == key:
                kind.cut += 1
                kind.good_cut += told.subject.label is True
                kind.after.add(told.after)

    def _pointers(self, told: Diagnosis, source: str) -> None:
        if told.subject.label is None:
            return
        band = next(name for most, name in BANDS if told.turns < most)
        went = "good" if told.subject.label else "bad"
        self.pointed["", source, band, went] += 1
        for kind in {pointer.kind for pointer in told.pointers}:
            self.pointed[kind, source, band, went] += 1

    def _profile(self, told: Diagnosis) -> None:
        """Which tool follows which in the good runs of a kind."""
        if told.subject.label is not True:
            return
        key = kind_of_run(told)
        if key not in self.good_pairs and len(self.good_pairs) >= _MOST_KINDS_OF_RUN:
            return
        pairs = self.good_pairs.setdefault(key, Counter())
        self.good_runs[key] += 1
        for pair in told.pairs:
            if pair in pairs or len(pairs) < _MOST_PAIRS:
                pairs[pair] += 1

    def _keep(self, name: str, told: Diagnosis, events: Sequence[Event], shower: Shower) -> None:
        heap = self.worst.setdefault(name, [])
        place = (told.after.calls or told.errors + len(told.pointers), told.spent.calls, told.subject.id)
        if len(heap) < KEPT or place > heap[0][0]:
            _push(heap, (place, Shown(masked(told, shower), steps_of(told, events, shower))))

    def _distanced(self, shown: Shown) -> Shown:
        told = shown.diagnosis
        key = kind_of_run(told)
        good = self.good_runs.get(key, 0)
        if good < GOOD_RUNS or not told.pairs:
            return Shown(told, shown.steps, None, good)
        known = self.good_pairs[key]
        return Shown(told, shown.steps, sum(pair not in known for pair in told.pairs) / len(told.pairs), good)


def kind_of_run(told: Diagnosis) -> str:
    """Runs with the same key are compared with one another."""
    return f"{told.subject.source}:{told.subject.task_type}"


def _push(heap: list[tuple[tuple[int, int, str], Shown]], item: tuple[tuple[int, int, str], Shown]) -> None:
    if any(held[0] == item[0] for held in heap):
        return
    if len(heap) < KEPT:
        heapq.heappush(heap, item)
    else:
        heapq.heappushpop(heap, item)


def chosen(told: Diagnosis) -> Finding | None:
    """The finding a run is counted under."""
    return told.cut or told.first
