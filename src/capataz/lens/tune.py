"""Choosing the limits of the guards from past runs of which it is known how they ended.

Every limit is tried at every count in one replay: the guards are made to speak as early as they can, and what they
say carries how often it has happened. So one pass gives, for each limit and class of tool, how many good runs would
have been cut at each count, and how many calls of failed runs would have been saved. Nothing of a run is kept.

A replay is exact up to the first firing: a live model would have read a note there. So a good run that is cut here
might have been saved by the note, and work that is called saved might have been done another way. What is chosen errs
on the side of good runs, and has to be replayed once more as a whole (`Trial`), since limits cut the same runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from capataz.events.facts import Event, ModelReplied
from capataz.guards.base import Signal
from capataz.guards.catalogue import default_guards
from capataz.guards.failing import Failing
from capataz.guards.limits import DEFAULTS, LIMITS, Limit, Thresholds
from capataz.guards.watch import Watch
from capataz.kernel.verdicts import Mode
from capataz.lens.replay import replay

COUNTS = range(3, 13)
"""The counts that are tried as `stop`."""
EARLIEST = Limit(2, 2)
NEVER = Limit(10**6, 10**6)
ENOUGH = 10
"""Failed runs a limit has to have met before it is made stricter than it is."""
WORTH = 0.001
"""Share of the calls of failed runs below which a saving is no reason to make a limit stricter."""
_MOST_IDENTITIES = 4_096


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
    """By limit, over all classes: a run is counted once."""

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
        for (setting, kind, count), place in prober.places(events).items():
            calls = after[place + 1]
            self.by_class.setdefault((setting, kind), {}).setdefault(count, Point()).add(label, calls)
            whole[setting, count] = max(whole.get((setting, count), 0), calls)
        for (setting, count), calls in whole.items():
            self.whole.setdefault(setting, {}).setdefault(count, Point()).add(label, calls)

    def merge(self, other: Curves) -> None:
        self.good += other.good
        self.failed += other.failed
        self.unknown += other.unknown
        self.calls += other.calls
        for key, curve in other.by_class.items():
            _merge(self.by_class.setdefault(key, {}), curve)
        for setting, curve in other.whole.items():
            _merge(self.whole.setdefault(setting, {}), curve)

    def at(self, setting: str, count: int) -> Point:
        """What this limit does by itself at this count; a count beyond those tried is taken as the last of them."""
        curve = self.whole.get(setting, {})
        return curve.get(min(max(count, COUNTS[0]), COUNTS[-1]), Point())


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
        self._told = {name: thresholds.limit(name).nudge for name in LIMITS}
        first = [guard for guard in default_guards(early.with_limits({"errors": NEVER})) if guard.name not in off]
        self._watches = (Watch(first), Watch(() if "failing" in off else (Failing(early),)))

    def places(self, events: Sequence[Event]) -> dict[tuple[str, str, int], int]:
        """(limit, class of tool, count) to the index of the event at which that count would have ended the run."""
        found: dict[tuple[str, str, int], int] = {}
        for number, watch in enumerate(self._watches):
            places = self._places(events, watch)
            found |= {key: place for key, place in places.items() if number == 0 or key[0] == "errors"}
        return found

    def _places(self, events: Sequence[Event], watch: Watch) -> dict[tuple[str, str, int], int]:
        state, found = watch.start(), dict[tuple[str, str, int], int]()
        first: dict[tuple[str, int], int] = {}
        kinds, seqs, turn = dict[int, str](), dict[int, int](), 0
        for place, event in enumerate(events):
            fact = event.fact
            if isinstance(fact, ModelReplied):
                turn = fact.turn if fact.purpose == "loop" else turn
            elif (call := getattr(fact, "call", None)) is not None:
                kinds[event.seq] = call.kind
            seqs[event.seq] = place
            state, signals = watch.step(state, event)
            for signal in signals:
                if signal.setting and len(first) < _MOST_IDENTITIES:
                    seq = signal.evidence[-1] if signal.evidence else event.seq
                    self._note(signal, kinds.get(seq, ""), seqs.get(seq, place), turn, first, found)
        return found

    def _note(
        self,
        signal: Signal,
        kind: str,
        place: int,
        turn: int,
        first: dict[tuple[str, int], int],
        found: dict[tuple[str, str, int], int],
    ) -> None:
        """A count ends the run if the model was told of this loop in an earlier turn."""
        identity = f"{signal.setting} {signal.identity}"
        for count in range(1, min(signal.count, COUNTS[-1]) + 1):
            first.setdefault((identity, count), turn)
        for count in COUNTS:
            if count > signal.count or (signal.setting, kind, count) in found:
                continue
            if first[identity, told_at(self._told[signal.setting], count)] < turn:
                found[signal.setting, kind, count] = place


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


@dataclass(frozen=True, slots=True)
class Choice:
    """One limit: what it is now, what was chosen, and what both do by themselves."""

    setting: str
    now: Limit
    chosen: Limit
    before: Point
    after: Point
    why: str


def choose(curves: Curves, thresholds: Thresholds, most_good: int, settings: Iterable[str] = LIMITS) -> list[Choice]:
    """The limits that save most while all of them together cut at most `most_good` good runs.

    Good runs are added up over the limits although they may cut the same run, so the sum is never too low. First
    limits are loosened, those that lose least work for a good run spared, until the sum fits; then they are made
    stricter, those that save most for a good run cut, while it still fits. A limit that fewer than ten failed runs have
    met, or that would save less than a thousandth of all calls, says too little: it is never made stricter.
    """
    stops = {name: thresholds.limit(name).stop for name in settings}
    _loosen(curves, stops, most_good)
    _tighten(curves, stops, most_good)
    return [_choice(curves, name, thresholds.limit(name), stop) for name, stop in stops.items()]


def _good(curves: Curves, stops: Mapping[str, int]) -> int:
    return sum(curves.at(name, stop).good for name, stop in stops.items())


def _loosen(curves: Curves, stops: dict[str, int], most_good: int) -> None:
    while _good(curves, stops) > most_good:
        steps = list[tuple[float, str, int]]()
        for name, stop in stops.items():
            now = curves.at(name, stop)
            for count in range(stop + 1, COUNTS[-1] + 1):
                then = curves.at(name, count)
                if then.good < now.good:
                    steps.append(((now.saved - then.saved) / (now.good - then.good), name, count))
        if not steps:
            return
        _, name, count = min(steps)
        stops[name] = count


def _tighten(curves: Curves, stops: dict[str, int], most_good: int) -> None:
    while True:
        room = most_good - _good(curves, stops)
        steps = list[tuple[float, str, int]]()
        for name, stop in stops.items():
            now = curves.at(name, stop)
            for count in range(COUNTS[0], min(stop, COUNTS[-1] + 1)):
                then = curves.at(name, count)
                cost = then.good - now.good
                enough = then.failed >= ENOUGH
                if enough and cost <= room and then.saved - now.saved > WORTH * curves.calls:
                    steps.append(((then.saved - now.saved) / (cost + 0.5), name, count))
        if not steps:
            return
        _, name, count = max(steps)
        stops[name] = count


def _choice(curves: Curves, name: str, now: Limit, stop: int) -> Choice:
    chosen = now if stop == now.stop else Limit(told_at(now.nudge, stop), stop)
    before, after = curves.at(name, now.stop), curves.at(name, stop)
    if not (curves.whole.get(name)):
        why = "never met"
    elif stop > now.stop:
        why = f"{before.good - after.good} good runs fewer are cut"
    elif stop < now.stop:
        why = f"{after.saved - before.saved:,} calls more are saved"
    else:
        why = "as it is"
    return Choice(name, now, chosen, before, after, why)


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


def chosen_thresholds(thresholds: Thresholds, choices: Iterable[Choice]) -> Thresholds:
    """The thresholds with what was chosen."""
    return thresholds.with_limits({one.setting: one.chosen for one in choices if one.chosen != one.now})
