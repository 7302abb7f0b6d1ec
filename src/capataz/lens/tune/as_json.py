"""What tuning found, for machines and as the facts its page shows. Keys are added, never renamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capataz.events.facts import JSON
from capataz.guards.limits import Limit
from capataz.lens.tune.choose import Choice, class_of, tools_with_enough_runs
from capataz.lens.tune.probe import Curve, Curves, Trial, of_tool

VERSION = 1
EXACT = (
    "A replay is exact up to the first firing. A live model would have read a note there, so a good run that is cut "
    "here may have been saved by it, and work that is saved here may have been done another way."
)
ALONE = "Each curve shows one limit by itself; what all of them do together is in the trial."


@dataclass(frozen=True, slots=True)
class Tuned:
    """Everything `capataz tune` has to say."""

    curves: Curves
    choices: Sequence[Choice]
    max_killed: float
    now: Trial
    chosen: Trial

    @property
    def kept(self) -> bool:
        """Whether what was chosen cuts no more good runs than was allowed."""
        return self.chosen.good_cut <= self.max_killed * self.chosen.good

    @property
    def changed(self) -> list[Choice]:
        return [choice for choice in self.choices if choice.chosen != choice.now]


def tuned_json(tuned: Tuned, reading: Mapping[str, JSON]) -> dict[str, JSON]:
    """The whole report as one value; `reading` says what was read and is put in as it is."""
    curves = tuned.curves
    return {
        "version": VERSION,
        "reading": dict(reading),
        "runs": {"good": curves.good, "failed": curves.failed, "unknown": curves.unknown},
        "calls_of_failed": curves.calls,
        "max_killed": tuned.max_killed,
        "within_limit": tuned.kept,
        "notes": [EXACT, ALONE],
        "curves": [
            {"setting": setting, "class": kind, "points": _points(curve, curves)}
            for (setting, kind), curve in sorted(curves.by_class.items())
        ],
        "tools": [
            {
                "setting": setting,
                "tool": of_tool(setting),
                "class": class_of(curves, setting),
                "good_runs": curves.users[of_tool(setting)].good,
                "failed_runs": curves.users[of_tool(setting)].failed,
                "points": _points(curves.whole[setting], curves),
            }
            for setting in tools_with_enough_runs(curves)
        ],
        "choices": [
            {
                "setting": one.setting,
                "now": _limit(one.now),
                "chosen": _limit(one.chosen),
                "good_cut_now": one.before.good,
                "good_cut": one.after.good,
                "calls_saved_now": one.before.saved,
                "calls_saved": one.after.saved,
                "why": one.why,
            }
            for one in tuned.choices
        ],
        "trial": {"now": _trial(tuned.now), "chosen": _trial(tuned.chosen)},
    }


def _limit(limit: Limit) -> dict[str, JSON]:
    return {"nudge": limit.nudge, "stop": limit.stop}


def _points(curve: Curve, curves: Curves) -> list[JSON]:
    return [
        {
            "stop": count,
            "good_cut": point.good,
            "good_cut_share": part(point.good, curves.good),
            "failed_cut": point.failed,
            "calls_saved": point.saved,
            "saved_share": part(point.saved, curves.calls),
        }
        for count, point in sorted(curve.items())
    ]


def _trial(trial: Trial) -> dict[str, JSON]:
    return {
        "good": trial.good,
        "good_cut": trial.good_cut,
        "failed": trial.failed,
        "failed_cut": trial.failed_cut,
        "calls_of_failed": trial.calls,
        "calls_saved": trial.saved,
        "sources": {
            source: {"good": told[0], "good_cut": told[1], "calls_of_failed": told[2], "calls_saved": told[3]}
            for source, told in sorted(trial.sources.items())
        },
    }


def part(some: int, whole: int) -> float | None:
    """A share; None of nothing."""
    return some / whole if whole else None


def percent(some: int, whole: int) -> str:
    """A share for people: two digits after the point, since good runs are counted in thousandths."""
    return f"{100 * some / whole:.2f} %" if whole else "-"
