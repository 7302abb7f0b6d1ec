"""Made-up runs that must set a rule off: so that the way from a figure to a person can be tried before it is needed.

The runs go through the very evaluation that real ones go through. A rule that its own trial cannot set off watches
nothing, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil

from capataz.lens.alerts.evaluate import HOUR, MINUTE, Reading, evaluate
from capataz.lens.alerts.points import Judged, Point
from capataz.lens.alerts.rules import DAY, Rule
from capataz.lens.alerts.statistics import BASELINE, runs_for_share
from capataz.lens.spans import names as n


def trial(rule: Rule, now: float) -> Reading:
    """What the rule reads of its made-up runs; it is firing, or the rule can never fire."""
    return evaluate(rule, made_up(rule, now), now)


def made_up(rule: Rule, now: float) -> list[Point]:
    """Runs that break the rule."""
    return _MAKERS[rule.what.judged](rule, now)


def _run(rule: Rule, number: int, at: float, outcome: str = "completed") -> Point:
    tools = {rule.tool or "made_up_tool": (10, 0)}
    return Point(
        f"made-up-{number}",
        rule.agent or "made-up agent",
        rule.task_type,
        at,
        at - 1.0,
        outcome,
        tokens=1000,
        own_tokens=1000,
        money=0.01,
        own_money=0.01,
        steps=10,
        seconds=1.0,
        tools=tools,
        minutes={int(at // MINUTE): 1000},
        versions={"model": "made:up", "prompt": "aaaa"},
    )


def _share(rule: Rule, now: float) -> list[Point]:
    many = max(rule.at_least, runs_for_share((1 + rule.limit) / 2, rule.limit), runs_for_share(0.0, rule.limit), 30)
    broken = rule.over is not None
    names = (n.LOOPS, n.EMPTY_TURNS, n.KILLS, n.ESCALATIONS, n.REFUSALS)
    runs = [_run(rule, number, now - 1, "completed" if broken else "aborted") for number in range(min(many, 20_000))]
    if not broken:
        return runs
    tool = rule.tool or "made_up_tool"
    return [replace(run, counts=dict.fromkeys(names, 10), tools={tool: (10, 10)}) for run in runs]


def _tail(rule: Rule, now: float) -> list[Point]:
    many = max(rule.at_least, 100)
    return [replace(_run(rule, number, now - 1), seconds=rule.limit * 2 + 1) for number in range(many)]


def _mean(rule: Rule, now: float) -> list[Point]:
    factor = 1 + 2 * rule.limit + 0.1
    first = now - rule.window / 2
    runs: list[Point] = []
    for number in range(rule.runs * (1 + BASELINE)):
        recent = number >= rule.runs * BASELINE
        size = (0.9 + 0.2 * (number % 10) / 9) * (factor if recent else 1.0)
        run = _run(rule, number, first + number * 0.001)
        runs.append(
            replace(
                run,
                tokens=ceil(10_000 * size),
                money=0.1 * size,
                seconds=10.0 * size,
                steps=ceil(100 * size),
                versions={"model": "made:up", "prompt": "bbbb" if recent else "aaaa"},
            )
        )
    return runs


def _total(rule: Rule, now: float) -> list[Point]:
    run = _run(rule, 0, now - 1)
    if rule.under is not None:
        return [replace(run, own_tokens=0, own_money=0.0)] if rule.under > 1 or rule.metric != "runs_total" else []
    much = ceil(rule.limit) + 1
    if rule.metric == "runs_total":
        return [replace(run, run=f"made-up-{number}") for number in range(min(much, 100_000))]
    counts = dict.fromkeys((n.RETRIES, n.ESCALATIONS, n.KILLS, n.DENIED), much)
    return [replace(run, own_tokens=much, own_money=float(much), counts=counts)]


def _pace(rule: Rule, now: float) -> list[Point]:
    minute = int(now // MINUTE)
    usual = 1000
    much = ceil(usual * rule.times) + 1 if rule.times is not None else ceil(rule.limit) + 1
    before = [
        replace(_run(rule, day, now - day * DAY), minutes={int((now - day * DAY) // HOUR * HOUR // MINUTE): usual})
        for day in range(1, 8)
    ]
    return [*before, replace(_run(rule, 0, now - 1), minutes={minute: much})]


def _most(rule: Rule, now: float) -> list[Point]:
    return [replace(_run(rule, 0, now - 1), burst=ceil(rule.limit) + 1)]


_MAKERS: Mapping[Judged, Callable[[Rule, float], list[Point]]] = {
    "share": _share,
    "tail": _tail,
    "mean": _mean,
    "total": _total,
    "pace": _pace,
    "most": _most,
}
