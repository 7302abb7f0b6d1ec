"""Which limits to take, once it is known what each of them would do at each count. See `probe` for how that is known.

What is chosen errs on the side of good runs, and a few runs prove nothing: where little was seen, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from capataz.guards.limits import LIMITS, POLL_CUT, POLLS, Limit, Thresholds
from capataz.lens.tune.probe import Curves, Point, of_tool, told_at, tried
from capataz.lens.words import counted

ENOUGH = 10
"""Failed runs a limit has to have met before it is made stricter than it is."""
USED = 30
"""Good runs that have to have used a tool before it gets a limit of its own."""
WORTH = 0.001
"""Share of the calls of failed runs below which a saving is no reason to make a limit stricter."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One limit: what it is now, what was chosen, and what both do by themselves."""

    setting: str
    now: Limit
    chosen: Limit
    before: Point
    after: Point
    why: str


def choose(
    curves: Curves, thresholds: Thresholds, most_good: int, settings: Sequence[str] = (*LIMITS, *POLLS)
) -> list[Choice]:
    """The limits that save most while all of them together cut at most `most_good` good runs.

    Good runs are added up over the limits although they may cut the same run, so the sum is never too low. First
    limits are loosened, those that lose least work for a good run spared, until the sum fits; then they are made
    stricter, those that save most for a good run cut, while it still fits. A limit that fewer than ten failed runs have
    met, or that would save less than a thousandth of all calls, says too little: it is never made stricter.

    Then single tools are looked at, where enough runs used them: one whose limit cuts good runs and saves next to
    nothing is let be longer, and the room that is left goes to those that save most.
    """
    stops = {name: thresholds.limit(name).stop for name in settings}
    _loosen(curves, stops, most_good)
    _tighten(curves, stops, most_good)
    chosen = [_choice(curves, name, thresholds.limit(name), stop) for name, stop in stops.items()]
    return chosen + _of_tools(curves, thresholds, stops, most_good)


def tools_with_enough_runs(curves: Curves) -> list[str]:
    """The limits of single tools that so many runs have used that they may be set by themselves.

    One whose calls are of several classes, like a shell, is not: its own count would hold for all of them.
    """
    return sorted(
        name
        for name in curves.whole
        if (users := curves.users.get(of_tool(name))) is not None
        and users.good >= USED
        and users.failed >= ENOUGH
        and (len(users.kinds) == 1 or name.endswith("poll_budget"))
    )


def class_of(curves: Curves, name: str) -> str:
    """The class of the tool whose limit this is."""
    return "poll" if name.endswith("poll_budget") else next(iter(curves.users[of_tool(name)].kinds))


def _of_tools(curves: Curves, thresholds: Thresholds, stops: Mapping[str, int], most_good: int) -> list[Choice]:
    """Limits of single tools, where they had better differ from that of their class."""
    before: dict[str, Limit] = {}
    for name in tools_with_enough_runs(curves):
        general = "poll_budget" if name.endswith("poll_budget") else f"repeats.{class_of(curves, name)}"
        tool = thresholds.tool(of_tool(name))
        own = tool.poll_budget if general == "poll_budget" else tool.repeat
        if own is not None:
            before[name] = thresholds.limit(name)
        elif general in stops:
            before[name] = replace(thresholds.limit(general), stop=stops[general])
    mine = {name: limit.stop for name, limit in before.items()}
    room = most_good - _good(curves, stops)
    held = _good(curves, mine)
    _spare(curves, mine)
    _tighten(curves, mine, max(0, room) + held)
    changed = [name for name, stop in mine.items() if stop != before[name].stop]
    return [_choice(curves, name, before[name], mine[name]) for name in changed]


def _spare(curves: Curves, stops: dict[str, int]) -> None:
    """Let a tool be longer where its limit cuts good runs and saves next to nothing."""
    for name, stop in stops.items():
        now = curves.at(name, stop)
        for count in tried(name):
            then = curves.at(name, count)
            if count > stop and then.good < now.good and now.saved - then.saved <= WORTH * curves.calls:
                stops[name], now = count, then


def _good(curves: Curves, stops: Mapping[str, int]) -> int:
    return sum(curves.at(name, stop).good for name, stop in stops.items())


def _loosen(curves: Curves, stops: dict[str, int], most_good: int) -> None:
    while _good(curves, stops) > most_good:
        steps = list[tuple[float, str, int]]()
        for name, stop in stops.items():
            now = curves.at(name, stop)
            for count in (count for count in tried(name) if count > stop):
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
            for count in (count for count in tried(name) if count < stop):
                then = curves.at(name, count)
                cost = then.good - now.good
                enough = then.failed >= ENOUGH
                if enough and cost <= room and then.saved - now.saved > WORTH * curves.calls:
                    steps.append(((then.saved - now.saved) / (cost + 0.5), name, count))
        if not steps:
            return
        _, name, count = max(steps)
        stops[name] = count


def _told(name: str, now: Limit, stop: int) -> int:
    """When the model is told: a poll at its budget, everything else as it is set now, but before the cut."""
    return round(stop / POLL_CUT) if name.endswith("poll_budget") else told_at(now.nudge, stop)


def _choice(curves: Curves, name: str, now: Limit, stop: int) -> Choice:
    chosen = now if stop == now.stop else Limit(_told(name, now, stop), stop)
    before, after = curves.at(name, now.stop), curves.at(name, stop)
    if not (curves.whole.get(name)):
        why = "never met"
    elif stop > now.stop:
        why = f"cuts {counted(before.good - after.good, 'good run')} fewer"
    elif stop < now.stop:
        why = f"saves {counted(after.saved - before.saved, 'call')} more"
    else:
        why = "as it is"
    return Choice(name, now, chosen, before, after, why)


def chosen_thresholds(thresholds: Thresholds, choices: Iterable[Choice]) -> Thresholds:
    """The thresholds with what was chosen."""
    return thresholds.with_limits({one.setting: one.chosen for one in choices if one.chosen != one.now})
