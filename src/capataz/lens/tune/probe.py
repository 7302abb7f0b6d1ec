"""Choosing the limits of the guards from past runs of which it is known how they ended.

Every limit is tried at every count in one replay: the guards are made to speak as early as they can, and what they
say carries how often it has happened. So one pass gives, for each limit and class of tool, how many good runs would
have been cut at each count, and how many calls of failed runs would have been saved. Nothing of a run is kept.

A replay is exact up to the first firing: a live model would have read a note there. So a good run that is cut here
might have been saved by the note, and work that is called saved might have been done another way. What is chosen errs
on the side of good runs, and has to be replayed once more as a whole (`Trial`), since limits cut the same runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from capataz.events.facts import Call, Event, ModelReplied, ToolFinished
from capataz.guards.base import Signal
from capataz.guards.catalogue import default_guards
from capataz.guards.failing import Failing
from capataz.guards.limits import DEFAULTS, LIMITS, POLL_CUT, Limit, Thresholds
from capataz.guards.polling import Polling
from capataz.guards.watch import Watch
from capataz.kernel.verdicts import Mode
from capataz.lens.replay import replay

COUNTS = range(3, 13)
"""The counts that are tried as `stop`."""
EARLIEST = Limit(2, 2)
NEVER = Limit(10**6, 10**6)
BUDGETS = (60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800)
"""The seconds that are tried as the time of a poll."""
WAITS = tuple(round(POLL_CUT * budget) for budget in BUDGETS)
"""The seconds at which it would be cut then."""
LOOKS = (13, 16, 21, 31, 51, 101)
"""The unchanged looks that are tried where a record has no times."""
_MOST_IDENTITIES = 4_096
_MOST_TOOLS = 1_000


def tried(setting: str) -> Sequence[int]:
    """The counts that are tried of a limit, in ascending order.

    >>> tried("errors") == COUNTS, tried("tools.job.poll_budget")[:2]
    (True, (90, 180))
    """
    if setting.endswith("poll_budget"):
        return WAITS
    return LOOKS if setting == "poll_looks_blind" else COUNTS


def of_tool(setting: str) -> str:
    """The tool whose own limit this is; empty where it is that of a class, or of all.

    >>> of_tool("tools.crm.find.repeat"), of_tool("repeats.read")
    ('crm.find', '')
    """
    return setting.removeprefix("tools.").rpartition(".")[0] if setting.startswith("tools.") else ""


@dataclass(slots=True)
class Point:
    """One limit at one count: runs it would have cut, and calls they made after that."""

    good: int = 0
    failed: int = 0
    saved: int = 0

    def add(self, good: bool, calls: int) -> None:
        if good:
            self.good += 1
        else:
            self.failed += 1
            self.saved += calls

    def merge(self, other: Point) -> None:
        self.good += other.good
        self.failed += other.failed
        self.saved += other.saved


Curve = dict[int, Point]
"""By count."""


@dataclass(slots=True)
class Users:
    """Runs that used a tool, and the classes its calls were of: with a shell that depends on the command."""

    good: int = 0
    failed: int = 0
    kinds: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Curves:
    """All limits at all counts, over all labelled runs. Fed with `add`; parts are put together with `merge`."""

    good: int = 0
    failed: int = 0
    unknown: int = 0
    calls: int = 0
    """Calls of failed runs."""
    by_class: dict[tuple[str, str], Curve] = field(default_factory=dict[tuple[str, str], Curve])
    """By limit and class of tool ("" where no tool was used)."""
    whole: dict[str, Curve] = field(default_factory=dict[str, Curve])
    """By limit, over all classes: a run is counted once. Limits of single tools too."""
    users: dict[str, Users] = field(default_factory=dict[str, Users])
    """By tool: runs that used it."""

    def add(self, events: Sequence[Event], label: bool | None, prober: Prober) -> None:
        """Count one run; one of unknown outcome is only counted as such."""
        if label is None:
            self.unknown += 1
            return
        self.good += label
        self.failed += not label
        after = _calls_after(events)
        self.calls += 0 if label else after[0]
        whole: dict[tuple[str, int], int] = {}
        self._use(events, label)
        for (setting, kind, count), place in prober.places(events).items():
            calls = after[place + 1]
            tool = of_tool(setting)
            if tool and tool not in self.users:
                continue
            if not tool:
                self.by_class.setdefault((setting, kind), {}).setdefault(count, Point()).add(label, calls)
            whole[setting, count] = max(whole.get((setting, count), 0), calls)
        for (setting, count), calls in whole.items():
            self.whole.setdefault(setting, {}).setdefault(count, Point()).add(label, calls)

    def _use(self, events: Sequence[Event], label: bool) -> None:
        used: dict[str, set[str]] = {}
        for call in _calls(events):
            used.setdefault(call.tool, set()).add(call.kind)
        for tool, kinds in used.items():
            if tool in self.users or len(self.users) < _MOST_TOOLS:
                users = self.users.setdefault(tool, Users())
                users.good += label
                users.failed += not label
                users.kinds |= kinds

    def merge(self, other: Curves) -> None:
        self.good += other.good
        self.failed += other.failed
        self.unknown += other.unknown
        self.calls += other.calls
        for key, curve in other.by_class.items():
            _merge(self.by_class.setdefault(key, {}), curve)
        for setting, curve in other.whole.items():
            _merge(self.whole.setdefault(setting, {}), curve)
        for tool, users in other.users.items():
            held = self.users.setdefault(tool, Users())
            held.good += users.good
            held.failed += users.failed
            held.kinds |= users.kinds

    def at(self, setting: str, count: int) -> Point:
        """What this limit does by itself at this count; of one that was not tried, the last stricter one that was."""
        curve, counts = self.whole.get(setting, {}), tried(setting)
        return curve.get(counts[max(0, bisect_right(counts, count) - 1)], Point())


def _merge(curve: Curve, other: Curve) -> None:
    for count, point in other.items():
        curve.setdefault(count, Point()).merge(point)


class Prober:
    """The guards, made to speak as early as they can. The same for every run.

    One class of errors is counted in two ways at once, and a signal can only tell of one of them, so the guard for
    errors is fed a second time by itself.
    """

    def __init__(self, thresholds: Thresholds = DEFAULTS, modes: Mapping[str, Mode] | None = None) -> None:
        off = {name for name, mode in (modes or {}).items() if mode == "off"}
        early = thresholds.with_limits({name: EARLIEST for name in LIMITS} | {"handoffs": Limit(1, 1)})
        early = replace(early, tools={name: replace(own, repeat=None) for name, own in early.tools.items()})
        self._thresholds = thresholds
        self._polls = None if "polling" in off else dict(_pollers(thresholds))
        self._told = {name: thresholds.limit(name).nudge for name in LIMITS}
        first = [guard for guard in default_guards(early.with_limits({"errors": NEVER})) if guard.name not in off]
        self._watches = (Watch(first), Watch(() if "failing" in off else (Failing(early),)))

    def places(self, events: Sequence[Event]) -> dict[tuple[str, str, int], int]:
        """(limit, class of tool, count) to the index of the event at which that count would have ended the run."""
        found: dict[tuple[str, str, int], int] = {}
        for number, watch in enumerate(self._watches):
            places = self._places(events, watch)
            found |= {key: place for key, place in places.items() if number == 0 or key[0] == "errors"}
        looks = sum(call.kind == "poll" for call in _calls(events))
        if looks >= min(LOOKS) and self._polls is not None:
            for (setting, count), watch in self._polls.items():
                self._waits(events, setting, count, watch, found)
        return found

    def _waits(
        self,
        events: Sequence[Event],
        setting: str,
        count: int,
        watch: Watch,
        found: dict[tuple[str, str, int], int],
    ) -> None:
        """What one time, or one number of looks, would do to the polls of a run: each tool by itself."""
        for one in replay(events, watch).fired:
            fact = events[one.place].fact
            if one.verdict.action != "stop" or one.signal.setting != setting or not isinstance(fact, ToolFinished):
                continue
            tool = fact.call.tool
            if setting == "poll_budget":
                found.setdefault((f"tools.{tool}.poll_budget", "poll", count), one.place)
            if setting != "poll_budget" or self._thresholds.tool(tool).poll_budget is None:
                found.setdefault((setting, "poll", count), one.place)

    def _places(self, events: Sequence[Event], watch: Watch) -> dict[tuple[str, str, int], int]:
        state, found = watch.start(), dict[tuple[str, str, int], int]()
        first: dict[tuple[str, int], int] = {}
        calls, seqs, turn = dict[int, Call](), dict[int, int](), 0
        for place, event in enumerate(events):
            fact = event.fact
            if isinstance(fact, ModelReplied):
                turn = fact.turn if fact.purpose == "loop" else turn
            elif (call := getattr(fact, "call", None)) is not None:
                calls[event.seq] = call
            seqs[event.seq] = place
            state, signals = watch.step(state, event)
            for signal in signals:
                if signal.setting in self._told and len(first) < _MOST_IDENTITIES:
                    seq = signal.evidence[-1] if signal.evidence else event.seq
                    for setting in self._settings(signal, calls.get(seq)):
                        kind = calls[seq].kind if seq in calls else ""
                        self._note(signal, setting, kind, seqs.get(seq, place), turn, first, found)
        return found

    def _settings(self, signal: Signal, call: Call | None) -> Iterator[str]:
        """The limits a count is held against: that of the class, or where a tool has its own, that; or could have."""
        mine = call is not None and (signal.setting.startswith("repeats.") or signal.setting == "unchanged_write")
        if call is None or not mine or self._thresholds.tool(call.tool).repeat is None:
            yield signal.setting
        if call is not None and mine:
            yield f"tools.{call.tool}.repeat"

    def _note(
        self,
        signal: Signal,
        setting: str,
        kind: str,
        place: int,
        turn: int,
        first: dict[tuple[str, int], int],
        found: dict[tuple[str, str, int], int],
    ) -> None:
        """A count ends the run if the model was told of this loop in an earlier turn."""
        identity = f"{setting} {signal.identity}"
        for count in range(1, min(signal.count, COUNTS[-1]) + 1):
            first.setdefault((identity, count), turn)
        for count in COUNTS:
            if count > signal.count or (setting, kind, count) in found:
                continue
            if first[identity, told_at(self._told[signal.setting], count)] < turn:
                found[setting, kind, count] = place


def _pollers(thresholds: Thresholds) -> Iterator[tuple[tuple[str, int], Watch]]:
    """A guard of polls for every time and every number of looks that is tried, the same for all tools."""
    tools = {name: replace(own, poll_budget=None) for name, own in thresholds.tools.items()}
    even = replace(thresholds, tools=tools)
    for budget, wait in zip(BUDGETS, WAITS, strict=True):
        yield ("poll_budget", wait), Watch((Polling(replace(even, poll_budget=float(budget))),))
    for looks in LOOKS:
        yield ("poll_looks_blind", looks), Watch((Polling(replace(even, poll_looks_blind=looks)),))


def _calls(events: Sequence[Event]) -> Iterator[Call]:
    for event in events:
        if isinstance(event.fact, ModelReplied):
            yield from event.fact.calls


def told_at(nudge: int, stop: int) -> int:
    """The count at which the model is told, where it is cut at `stop`: as it is set now, but always before the cut."""
    return max(1, min(nudge, stop - 1))


def _calls_after(events: Sequence[Event]) -> list[int]:
    """Calls asked for from each event on; one more entry, zero, for the end."""
    left, counts = 0, [0]
    for event in reversed(events):
        fact = event.fact
        left += len(fact.calls) if isinstance(fact, ModelReplied) else 0
        counts.append(left)
    counts.reverse()
    return counts


@dataclass(slots=True)
class Trial:
    """Whole policies replayed over the same runs: what each really cuts and saves, all guards together."""

    good: int = 0
    failed: int = 0
    calls: int = 0
    good_cut: int = 0
    failed_cut: int = 0
    saved: int = 0
    sources: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """By source: good runs, those cut, calls of failed runs, those saved."""

    def add(
        self, source: str, events: Sequence[Event], label: bool, watch: Watch, modes: Mapping[str, Mode] | None = None
    ) -> None:
        after = _calls_after(events)
        cut = replay(events, watch, modes).cut
        saved = 0 if cut is None or label else after[cut.place + 1]
        told = [int(label), int(label and cut is not None), 0 if label else after[0], saved]
        self.failed += not label
        self.failed_cut += not label and cut is not None
        self._count(source, told)

    def _count(self, source: str, told: Sequence[int]) -> None:
        held = self.sources.setdefault(source, [0, 0, 0, 0])
        held[:] = [one + other for one, other in zip(held, told, strict=True)]
        self.good += told[0]
        self.good_cut += told[1]
        self.calls += told[2]
        self.saved += told[3]

    def merge(self, other: Trial) -> None:
        self.failed += other.failed
        self.failed_cut += other.failed_cut
        for source, told in other.sources.items():
            self._count(source, told)
