"""How good the guards are on labelled cases: precision, recall, healthy runs killed, steps until the cut.

A cut before its window is false and a miss at once; after it, a miss. A nudge is no cut. For narration, false done
and hung turns the signal itself is what is scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capataz.events.facts import JSON
from capataz.guards.catalogue import default_guards
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.watch import Watch
from capataz.kernel.verdicts import Mode
from capataz.lens.cases.check import GATES, LOOPS
from capataz.lens.cases.read import Case
from capataz.lens.replay import Fired, replay


@dataclass(frozen=True, slots=True)
class Scored:
    """One case: where the guards fired (index of the history, None for never), and what that is worth.

    `verdict` is one of caught, missed, early, late (loops and gates), killed, spared (healthy and recovering).
    """

    case: Case
    fired_at: int | None
    signal: str | None
    verdict: str
    nudged_at: int | None

    @property
    def steps(self) -> int | None:
        """Calls and texts from the onset of the loop to the cut, both included."""
        return None if self.fired_at is None else self.fired_at - self.case.onset + 1


@dataclass(frozen=True, slots=True)
class Score:
    """All cases, scored."""

    cases: tuple[Scored, ...]

    def rate(self, kinds: Sequence[str]) -> tuple[float | None, float | None, float | None]:
        """Precision, recall and F1 over these kinds; healthy runs that were killed count against precision."""
        positives = [one for one in self.cases if one.case.kind in kinds]
        caught = sum(one.verdict == "caught" for one in positives)
        false = sum(one.verdict in ("killed", "early") for one in self.cases if one.case.healthy or one in positives)
        precision = caught / (caught + false) if caught + false else None
        recall = caught / len(positives) if positives else None
        if precision is None or recall is None:
            return precision, recall, None
        return precision, recall, 2 * precision * recall / (precision + recall) if caught else 0.0

    def report(self) -> dict[str, JSON]:
        """What `capataz guards score --json` prints."""
        precision, recall, f1 = self.rate(LOOPS)
        steps = [one.steps for one in self.cases if one.verdict == "caught" and one.case.kind in LOOPS]
        known = [number for number in steps if number is not None]
        healthy = [one for one in self.cases if one.case.healthy and not one.case.recovering]
        recovering = [one for one in self.cases if one.case.recovering]
        return {
            "precision": precision,
            "recall": recall,
            "f1": f1,
            "healthy": _killed(healthy),
            "mean_steps_to_cut": sum(known) / len(known) if known else None,
            "recovering": _killed(recovering),
            "by_kind": {kind: self._kind(kind) for kind in (*LOOPS, *GATES)},
            "cases": [
                {"id": one.case.id, "fired_at": one.fired_at, "signal": one.signal, "verdict": one.verdict}
                for one in self.cases
            ],
        }

    def _kind(self, kind: str) -> dict[str, JSON]:
        here = [one for one in self.cases if one.case.kind == kind]
        counts: dict[str, JSON] = {"total": len(here)}
        for verdict in ("caught", "missed", "early", "late"):
            counts[verdict] = sum(one.verdict == verdict for one in here)
        steps = [one.steps for one in here if one.verdict == "caught" and one.steps is not None]
        counts["mean_steps"] = sum(steps) / len(steps) if steps else None
        return counts


def _killed(cases: Sequence[Scored]) -> dict[str, JSON]:
    return {"total": len(cases), "killed": sum(one.verdict == "killed" for one in cases)}


def score(cases: Sequence[Case], thresholds: Thresholds = DEFAULTS, modes: Mapping[str, Mode] | None = None) -> Score:
    """Run the guards over the cases, each with the limits its own tools declare."""
    return Score(tuple(score_case(case, thresholds, modes) for case in cases))


def score_case(case: Case, thresholds: Thresholds = DEFAULTS, modes: Mapping[str, Mode] | None = None) -> Scored:
    """Replay one case and weigh what fired against its label."""
    watch = Watch(default_guards(thresholds.with_tools(case.limits)))
    fired = replay(case.events, watch, modes).fired
    nudge = next((case.items[one.place] for one in fired if one.verdict.action == "nudge"), None)
    told = [one for one in fired if _counts(case, one)]
    chosen = next((one for one in told if one.signal.kind in case.accepted), None) if case.kind in GATES else None
    chosen = chosen or (told[0] if told else None)
    if chosen is None:
        return Scored(case, None, None, "spared" if case.healthy else "missed", nudge)
    at = case.items[chosen.place]
    return Scored(case, at, chosen.signal.kind, _verdict(case, at), nudge)


def _counts(case: Case, fired: Fired) -> bool:
    """Whether this is a cut; for the gates, and against a healthy run, a failed turn or a silence counts too."""
    if case.kind in GATES:
        return fired.signal.kind in GATES
    return fired.verdict.action in ("stop", "escalate") or (case.healthy and fired.verdict.action == "fail-turn")


def _verdict(case: Case, at: int) -> str:
    if case.healthy:
        return "killed"
    if case.not_before is not None and at < case.not_before:
        return "early"
    return "late" if case.at_latest is not None and at > case.at_latest else "caught"
