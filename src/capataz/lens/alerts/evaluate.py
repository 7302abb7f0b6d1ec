"""Holding runs against rules: what each rule reads, how sure it is of it, and which runs it comes from.

A reading is one of four: ok, firing, not enough data (with how many more runs it would take), and no data, which is not
ok. Nothing here knows of earlier readings: when something is told is decided in `alerts.state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from capataz.events.facts import JSON
from capataz.lens.alerts import statistics as stats
from capataz.lens.alerts.points import Point
from capataz.lens.alerts.rules import DAY, Rule
from capataz.lens.alerts.words import amount, share_words, wording

Standing = Literal["ok", "firing", "not enough data", "no data"]
SHOWN = 3
"""Runs a reading points to."""
HOUR = 3600
MINUTE = 60


@dataclass(frozen=True, slots=True)
class Reading:
    """What a rule reads now. `value` is in the metric's unit; for `rises`, the share by which it rose."""

    rule: Rule
    standing: Standing
    words: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    z: float | None = None
    count: int = 0
    more: int = 0
    """How many more runs (calls, turns) it takes to say anything, where there are not enough."""
    runs: tuple[str, ...] = ()
    """Those that contribute most."""
    change: str = ""
    """The change of version that coincides, in words."""
    notes: tuple[str, ...] = field(default=())

    def json(self) -> dict[str, JSON]:
        return {
            "rule": self.rule.name,
            "metric": self.rule.metric,
            "severity": self.rule.severity,
            "state": self.standing,
            "words": self.words,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "z": None if self.z is None else round(self.z, 2),
            "limit": self.rule.limit,
            "count": self.count,
            "more": self.more,
            "runs": list(self.runs),
            "change": self.change,
            "notes": list(self.notes),
        }


def evaluate(rule: Rule, points: Iterable[Point], now: float) -> Reading:
    """What the rule reads. `points` in any order; `now` in seconds since the epoch."""
    of_tasks = rule.what.judged in ("mean", "tail") and not rule.agent  # a sub-agent's run is part of a task
    wanted = (point for point in points if rule.covers(point) and (point.task or not of_tasks))
    covered = sorted(wanted, key=lambda point: point.at)
    if not covered:
        return Reading(rule, "no data", f"no run is covered by this rule{_filters(rule)}")
    recent = [point for point in covered if point.at > now - rule.window]
    if not recent:
        return Reading(rule, "no data", f"no run in the last {amount(rule.window, 'seconds')}{_filters(rule)}")
    match rule.what.judged:
        case "mean":
            return _moved(rule, [point for point in covered if point.over])
        case "share":
            return _share(rule, recent)
        case "tail":
            return _tail(rule, [point for point in recent if point.over])
        case "total":
            return _total(rule, recent)
        case "pace":
            return _pace(rule, recent, covered, now)
        case _:
            return _most(rule, recent)


def _filters(rule: Rule) -> str:
    named = (("agent", rule.agent), ("task type", rule.task_type), ("tool", rule.tool))
    return "".join(f", {what} {name!r}" for what, name in named if name)


# ── shares ───────────────────────────────────────────────────────────────────────────────────────────────


def _share(rule: Rule, recent: Sequence[Point]) -> Reading:
    part_of = rule.what.part
    assert part_of is not None
    parts = [(point, *part_of(point, rule.tool)) for point in recent]
    part, whole = sum(k for _, k, _ in parts), sum(of for _, _, of in parts)
    bad = [(k if rule.over is not None else of - k, point) for point, k, of in parts]
    worst = sorted((item for item in bad if item[0]), key=lambda item: (item[0], item[1].at))
    runs = tuple(point.run for _, point in worst[: -SHOWN - 1 : -1])
    return _held(rule, part, whole, rule.limit, rule.over is not None, runs, rule.what.help)


def _tail(rule: Rule, over: Sequence[Point]) -> Reading:
    """A percentile is above a limit exactly when more than that share of runs is: which can be tested."""
    slow = [point for point in over if point.seconds > rule.limit]
    worst = sorted(slow, key=lambda point: (point.seconds, point.at))
    runs = tuple(point.run for point in worst[: -SHOWN - 1 : -1])
    what = f"runs that took longer than {amount(rule.limit, 'seconds')}"
    return _held(rule, len(slow), len(over), rule.what.tail, True, runs, what)


def _held(rule: Rule, part: int, whole: int, limit: float, upward: bool, runs: tuple[str, ...], what: str) -> Reading:
    """A share against a limit."""
    found = stats.share(part, whole)
    numbers = (found.value, found.low, found.high, None, whole)
    beyond = found.value > limit if upward else found.value < limit
    sure = found.low > limit if upward else found.high < limit
    told = share_words(what, found, limit, upward)
    if whole < rule.at_least:
        more = rule.at_least - whole
        return Reading(rule, "not enough data", f"{told}; not enough data: {more} more", *numbers, more)
    if beyond and sure:
        return Reading(rule, "firing", told, *numbers, 0, runs)
    if beyond:
        more = max(1, stats.runs_for_share(found.value, limit) - whole)
        return Reading(rule, "not enough data", f"{told}; not sure yet: about {more:,} more", *numbers, more, runs)
    return Reading(rule, "ok", told, *numbers)


# ── sums and paces ───────────────────────────────────────────────────────────────────────────────────────


def _total(rule: Rule, recent: Sequence[Point]) -> Reading:
    value_of = rule.what.value
    assert value_of is not None
    values = sorted(((value_of(point) or 0.0, point) for point in recent), key=lambda item: (item[0], item[1].at))
    total = float(sum(value for value, _ in values))
    runs = tuple(point.run for value, point in values[: -SHOWN - 1 : -1] if value)
    beyond = total > rule.limit if rule.over is not None else total < rule.limit
    told = f"{wording(rule, total)} in {amount(rule.window, 'seconds')} ({len(recent)} runs)"
    return Reading(rule, "firing" if beyond else "ok", told, total, count=len(recent), runs=runs if beyond else ())


def _most(rule: Rule, recent: Sequence[Point]) -> Reading:
    value_of = rule.what.value
    assert value_of is not None
    values = sorted(((value_of(point) or 0.0, point) for point in recent), key=lambda item: (item[0], item[1].at))
    most = float(values[-1][0])
    runs = tuple(point.run for value, point in values[: -SHOWN - 1 : -1] if value > rule.limit)
    standing: Standing = "firing" if most > rule.limit else "ok"
    return Reading(rule, standing, wording(rule, most), most, count=len(recent), runs=runs)


def _pace(rule: Rule, recent: Sequence[Point], covered: Sequence[Point], now: float) -> Reading:
    since = int((now - rule.window) // MINUTE)
    busiest, tokens = _busiest(recent, since)
    mine = sorted(((point.minutes.get(busiest, 0), point) for point in recent), key=lambda item: item[0])
    runs = tuple(point.run for used, point in mine[: -SHOWN - 1 : -1] if used)
    limit = rule.limit
    notes: tuple[str, ...] = ()
    if rule.times is not None:
        usual = _usual(covered, now)
        if len(usual) < 3:
            more = 3 - len(usual)
            told = f"{wording(rule, tokens)}; not enough data: {more} more days to know what is usual at this hour"
            return Reading(rule, "not enough data", told, tokens, count=len(recent), more=more)
        limit = rule.times * median(usual)
        notes = (f"usual at this hour: {amount(median(usual), 'tokens')} a minute, from {len(usual)} days",)
    standing: Standing = "firing" if tokens > limit else "ok"
    told = f"{wording(rule, tokens, limit)} (all runs together)"
    shown = runs if standing == "firing" else ()
    return Reading(rule, standing, told, tokens, count=len(recent), runs=shown, notes=notes)


def _busiest(points: Sequence[Point], since: int) -> tuple[int, float]:
    minutes: dict[int, int] = {}
    for point in points:
        for minute, tokens in point.minutes.items():
            if minute >= since:
                minutes[minute] = minutes.get(minute, 0) + tokens
    if not minutes:
        return 0, 0.0
    minute = max(minutes, key=lambda each: minutes[each])
    return minute, float(minutes[minute])


def _usual(points: Sequence[Point], now: float) -> list[float]:
    """The busiest minute of this hour of the day, on each of the days before."""
    hour = int(now // HOUR)
    days: dict[int, dict[int, int]] = {}
    for point in points:
        for minute, tokens in point.minutes.items():
            back = hour - minute * MINUTE // HOUR
            if back > 0 and back % 24 == 0:
                day = days.setdefault(back // 24, {})
                day[minute] = day.get(minute, 0) + tokens
    return [float(max(day.values())) for day in days.values()]


# ── means that move ──────────────────────────────────────────────────────────────────────────────────────


def _moved(rule: Rule, over: Sequence[Point]) -> Reading:
    """Two windows, side by side: the newest runs, and up to seven times as many before them."""
    value_of = rule.what.value
    assert value_of is not None
    valued = [(value, point) for point in over if (value := value_of(point)) is not None and value > 0]
    if not valued:
        words = "no run that is over has a value" + (": no price is known" if rule.what.unit == "dollars" else "")
        return Reading(rule, "no data", words)
    recent, before = valued[-rule.runs :], valued[-rule.runs * (1 + stats.BASELINE) : -rule.runs]
    need = max(rule.at_least, 2)
    lacking = 2 * need - len(valued)
    found = stats.rise([value for value, _ in recent], [value for value, _ in before])
    if lacking > 0 or found is None:
        more = max(1, lacking)
        words = f"not enough data: {more} more runs until {need} can be held against {need} before"
        return Reading(rule, "not enough data", words, count=len(valued), more=more)
    old = sum(value for value, _ in before) / len(before)
    new = sum(value for value, _ in recent) / len(recent)
    told = (
        f"{rule.what.help}: {'up' if found.effect >= 0 else 'down'} {abs(found.effect):.0%} (95 %: {found.low:+.0%} to "
        f"{found.high:+.0%}, z {found.z:.1f}); mean {amount(new, rule.what.unit)} of {len(recent)} runs against "
        f"{amount(old, rule.what.unit)} of {len(before)} before"
    )
    numbers = (found.effect, found.low, found.high, found.z, len(recent))
    if found.effect < rule.limit / 2:
        return Reading(rule, "ok", told, *numbers)
    if found.z <= stats.SURE:
        more = max(1, stats.runs_for_rise(found.effect, found.deviation, len(before)) - len(recent))
        few = f"about {more:,} more runs" if more < 10**5 else "more runs than it is worth waiting for"
        return Reading(rule, "not enough data", f"{told}; not sure yet: {few}", *numbers, more)
    if rule.flat and (excuse := _not_flat(rule, told, numbers, recent, before)) is not None:
        return excuse
    worst = sorted(recent, key=lambda item: item[0])
    runs = tuple(point.run for _, point in worst[: -SHOWN - 1 : -1])
    change = _change([point for _, point in before], [point for _, point in recent])
    return Reading(rule, "firing", told + (f"; {change}" if change else ""), *numbers, 0, runs, change)


Valued = Sequence[tuple[float, Point]]


def _not_flat(
    rule: Rule,
    told: str,
    numbers: tuple[float, float, float, float, int],
    recent: Valued,
    before: Valued,
) -> Reading | None:
    """Why the rise is no alarm after all: completion rose with it, or nobody can say yet. None: it is one."""
    counts = (sum(point.good for _, point in recent), len(recent), sum(point.good for _, point in before), len(before))
    moved, low, high = stats.difference(*counts)
    words = f"completion moved {moved:+.1%} (95 %: {low:+.1%} to {high:+.1%})"
    if high < 0:
        return None
    if low > 0:
        return Reading(rule, "ok", f"{told}; but {words}", *numbers)
    if high - low < 0.10:
        return None
    more = max(1, round(len(recent) * ((high - low) / 0.10) ** 2) - len(recent))
    lacking = f"{told}; {words}: too wide to call it flat, about {more:,} more runs"
    return Reading(rule, "not enough data", lacking, *numbers, more)


def _change(before: Sequence[Point], recent: Sequence[Point]) -> str:
    """What the recent runs were made with that those before were not."""
    found: list[str] = []
    for what in ("model", "prompt", "tools", "policy"):
        new, old = _most_used(recent, what), _most_used(before, what)
        if new is None or old is None or new[0] == old[0]:
            continue
        first = next(point for point in recent if point.versions.get(what) == new[0])
        earlier = [point for point in before if point.versions.get(what) == new[0]]
        first = earlier[0] if earlier else first
        found.append(f"{what} {old[0]} → {new[0]}, first in run {first.run}")
    return "coincides with: " + "; ".join(found) if found else ""


def _most_used(points: Sequence[Point], what: str) -> tuple[str, int] | None:
    uses: dict[str, int] = {}
    for point in points:
        if version := point.versions.get(what):
            uses[version] = uses.get(version, 0) + 1
    return max(uses.items(), key=lambda item: item[1]) if uses else None


def history_needed(rules: Iterable[Rule]) -> tuple[float, int]:
    """(seconds, runs): how far back, and how many runs, these rules look at most."""
    seconds, runs = 0.0, 0
    for rule in rules:
        seconds = max(seconds, 15 * DAY if rule.times is not None else rule.window)
        if rule.what.judged == "mean":
            runs = max(runs, rule.runs * (1 + stats.BASELINE))
    return seconds, runs
