"""The tuning as one HTML page that needs nothing else: work saved against good runs cut, by limit and class of tool.

The curves are drawn here, as SVG inside the page: no script and no outside request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from capataz.events.facts import JSON
from capataz.lens.template import template
from capataz.lens.tune.as_json import ALONE, EXACT, Tuned, percent
from capataz.lens.tune.choose import Choice, tools_with_enough_runs
from capataz.lens.tune.probe import Curve, tried
from capataz.lens.words import counted

WIDTH, HEIGHT, LEFT, TOP = 300, 150, 40, 12
"""Of the field in which a curve is drawn, in the units of its picture."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One count of one curve, placed."""

    x: float
    y: float
    stop: int
    now: bool
    chosen: bool
    words: str


@dataclass(frozen=True, slots=True)
class Plot:
    """One limit in one class of tool: good runs cut to the right, calls saved upwards."""

    setting: str
    kind: str
    dots: list[Dot]
    line: str
    most_good: str
    most_saved: str


def page(tuned: Tuned, reading: Mapping[str, JSON], title: str) -> str:
    """The page, whole. `reading` is what was read and what could not be; `title` names the records."""
    curves = tuned.curves
    choices = {choice.setting: choice for choice in tuned.choices}
    plots = [
        _plot(setting, kind, curve, tuned, choices.get(setting))
        for (setting, kind), curve in sorted(curves.by_class.items(), key=lambda pair: (pair[0][1], pair[0][0]))
    ]
    classes = sorted({plot.kind for plot in plots})
    single = [
        _plot(setting, "single tools", curves.whole[setting], tuned, choices.get(setting))
        for setting in tools_with_enough_runs(curves)
    ]
    return template("capataz.lens.tune", "tune.html").render(
        title=title,
        tuned=tuned,
        curves=curves,
        groups=[
            *((kind or "no tool", [plot for plot in plots if plot.kind == kind]) for kind in classes),
            *([("single tools", single)] if single else []),
        ],
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        top=TOP,
        percent=percent,
        allowed=f"{100 * tuned.max_killed:g} %",
        exact=EXACT,
        alone=ALONE,
        reading=reading,
    )


def _plot(setting: str, kind: str, curve: Curve, tuned: Tuned, choice: Choice | None) -> Plot:
    whole = tuned.curves
    most_good = max(1, *(point.good for point in curve.values()))
    most_saved = max(1, *(point.saved for point in curve.values()))
    dots = list[Dot]()
    unit = " s" if setting.endswith("poll_budget") else ""
    for count in tried(setting):
        point = curve.get(count)
        if point is None:
            continue
        x = LEFT + WIDTH * point.good / most_good
        y = TOP + HEIGHT * (1 - point.saved / most_saved)
        words = (
            f"stop at {count}{unit}: {counted(point.saved, 'call')} saved "
            f"({percent(point.saved, whole.calls)} of failed runs'), "
            f"{counted(point.good, 'good run')} cut ({percent(point.good, whole.good)})"
        )
        now, chosen = (choice.now.stop, choice.chosen.stop) if choice is not None else (0, 0)
        dots.append(Dot(round(x, 1), round(y, 1), count, count == now, count == chosen, words))
    line = " ".join(f"{dot.x},{dot.y}" for dot in dots)
    return Plot(setting, kind, dots, line, percent(most_good, whole.good), percent(most_saved, whole.calls))
