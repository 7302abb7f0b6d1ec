"""Acts that leave their target as it was, say the same in other words, or ask differently for the same answer.

Here the arguments differ every time, so no fingerprint of a call repeats. What gives the loop away is the target, and
what became of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from capataz.events.facts import JSON, Event
from capataz.guards.base import Signal
from capataz.guards.canon import result_bytes
from capataz.guards.limits import DEFAULTS, Limit, Thresholds
from capataz.guards.reading import SHOWN, Step, trim
from capataz.guards.shape import is_empty
from capataz.guards.shared import Shared
from capataz.guards.wording import named, ordinal

TARGETS = 256
SHORT = 300
"""Bytes of arguments that are compared word by word; longer ones are documents, and rewriting them is work."""
TELLING = 20
"""Bytes an answer needs to tell one question from another: "ok" is the answer to everything."""

_FIGURE = re.compile(rb"\d+(?:[.,]\d+)*")
_TERM = re.compile(rb"[a-z]{2,}", re.IGNORECASE)


@dataclass(slots=True)
class Tries:
    """What was tried on one target in vain."""

    count: int = 0
    result: int = 0
    places: list[int] = field(default_factory=list[int])

    def add(self, step: Step, result: int) -> int:
        if result != self.result:
            self.count, self.result = 0, result
            self.places = []
        self.count += 1
        self.places.append(step.seq)
        if len(self.places) > SHOWN:
            del self.places[1]
        return self.count


@dataclass(slots=True)
class Targets:
    tries: dict[int, Tries] = field(default_factory=dict[int, Tries])
    row: Tries = field(default_factory=Tries)
    row_first: list[Step] = field(default_factory=list[Step])
    """The first steps of a row, while it is too short for anybody to ask what came back."""
    refused: Tries = field(default_factory=Tries)
    """What one tool refused, whatever the target, since anything was changed."""
    refused_tool: str = ""
    row_tool: str = ""
    row_target: str | None = None
    row_key: int = 0
    number: int = 0
    """Of the last step seen: a row is not interrupted."""
    chapter: int = 0


class Unchanging(Shared[Targets]):
    """Acts on one target that change nothing, and one answer to many questions."""

    name = "unchanging"
    kinds = frozenset(("write", "exec", "message", "search"))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds
        self._shortest = min(thresholds.target.nudge, thresholds.same_answer.nudge)
        """Calls of a row before anything can be said of it."""

    def begin(self) -> Targets:
        return Targets()

    def see(self, state: Targets, event: Event, step: Step | None) -> Signal | None:
        if step is None:
            return None
        reader = step.reader
        if reader.number != state.number + 1:
            state.row_tool = ""
        state.number = reader.number
        if step.error or step.free:
            state.row_tool = ""
            return None
        if reader.chapter != state.chapter:
            state.chapter, state.row_tool, state.refused_tool = reader.chapter, "", ""
            state.tries.clear()
        if step.moved:
            if state.tries:
                state.tries.pop(step.target, None)
            state.row_tool = state.refused_tool = ""
            return None
        if step.changed is False and step.kind in ("write", "message") and step.call.target is not None:
            state.row_tool = ""
            result = hash(_without_echo(step))
            return self._target(state, step, result) or self._refused(state, step, result)
        return self._row(state, step)

    def _target(self, state: Targets, step: Step, result: int) -> Signal | None:
        tries = state.tries.get(step.target)
        if tries is None:
            tries = state.tries[step.target] = Tries()
            trim(state.tries, TARGETS)
        limit, count = self.thresholds.target, tries.add(step, result)
        if count != limit.nudge and count < limit.stop:
            return None
        return Signal(
            self.name,
            "target",
            f"target:{step.tool}:{step.call.target}",
            tuple(tries.places),
            "stop" if count >= limit.stop else "nudge",
            f"{step.tool} tried {count} times to change {step.call.target}, and it stayed as it was.",
            f"You have tried {count} times to change {step.call.target} with {step.tool}, and it is as it was. More "
            "variations will not land. Find out why it does not take, or say what blocks you.",
            setting="target",
            count=count,
        )

    def _refused(self, state: Targets, step: Step, result: int) -> Signal | None:
        """An error that is told as an answer, again and again, for one target after the other."""
        if not _refuses(step.outcome):
            if state.refused_tool == step.tool:
                state.refused_tool = ""
            return None
        if state.refused_tool != step.tool:
            state.refused_tool, state.refused = step.tool, Tries()
        limit, count = self.thresholds.same_answer, state.refused.add(step, result)
        if count != limit.nudge and count < limit.stop:
            return None
        return Signal(
            self.name,
            "error-repeat",
            f"refused:{step.tool}:{state.refused.places[0]}",
            tuple(state.refused.places),
            "stop" if count >= limit.stop else "nudge",
            f"{named(step)} was refused for the {ordinal(count)} time in the same words, and nothing changed since.",
            f"{step.tool} has refused you {count} times in the same words. Trying it on others will not mend the "
            "cause. Do something about the cause, take another way, or say what blocks you.",
            setting="same_answer",
            count=count,
        )

    def _row(self, state: Targets, step: Step) -> Signal | None:
        """Calls of one tool in a row, with other arguments each, that all come to the same."""
        target = step.call.target
        if state.row_tool != step.tool or state.row_target != target:
            state.row_tool, state.row_target, state.row_first, state.row_key = step.tool, target, [step], step.key
            return None
        if state.row_key == step.key:
            return None
        state.row_key = step.key
        if state.row_first:
            state.row_first.append(step)
            if len(state.row_first) < self._shortest:
                return None
            state.row, held, state.row_first = Tries(), state.row_first[:-1], []
            for earlier in held:
                state.row.add(earlier, earlier.result)
        count = state.row.add(step, step.result)
        if count < self._shortest:
            return None
        limit = self._row_limit(step)
        if limit is None or (count != limit.nudge and count < limit.stop):
            return None
        return Signal(
            self.name,
            "no-progress",
            f"row:{step.tool}:{step.call.target or ''}",
            tuple(state.row.places),
            "stop" if count >= limit.stop else "nudge",
            f"{step.tool} was called {count} times in a row with other arguments, and it came to the same every time.",
            f"You have called {step.tool} {count} times in a row in other words, and the outcome is always the same. "
            "The wording is not the problem. Use the outcome, take another way, or say what blocks you.",
            setting="target" if step.kind in ("write", "message") else "same_answer",
            count=count,
        )

    def _row_limit(self, step: Step) -> Limit | None:
        if step.kind in ("write", "message"):
            return self.thresholds.target if step.changed is False else None
        if step.kind == "exec" and (step.changed is not False or step.call.target is None):
            return None
        if len(result_bytes(step.outcome, step.kind)) < TELLING or is_empty(step.outcome):
            return None
        return self.thresholds.same_answer


def _refuses(outcome: JSON) -> bool:
    """Whether an answer says by its shape that it is a refusal."""
    if not isinstance(outcome, dict):
        return False
    return bool(outcome.get("error") or outcome.get("errors")) or outcome.get("success", outcome.get("ok")) is False


def _without_echo(step: Step) -> bytes:
    """What came back, without what it only repeats of the arguments: "not set to 21" is "not set to 22"."""
    data = result_bytes(step.outcome, step.kind)
    for value in step.call.arguments.values():
        if isinstance(value, str | int | float) and not isinstance(value, bool) and len(said := str(value)) <= SHORT:
            data = re.sub(rb"(?<![0-9A-Za-z])" + re.escape(said.encode()) + rb"(?![0-9A-Za-z])", b"~", data)
    return data


@dataclass(slots=True)
class Said:
    """What was last written to one target, as figures and words."""

    first: Step | None = None
    """The latest of them, until there is a second one in a row."""
    number: int = 0
    count: int = 0
    result: int = 0
    figures: frozenset[bytes] = frozenset()
    terms: set[bytes] = field(default_factory=set[bytes])
    places: list[int] = field(default_factory=list[int])

    def begin(self, step: Step) -> None:
        self.first, self.count, self.result, self.places = step, 1, step.result, [step.seq]
        self.figures, self.terms = _figures(step), _terms(step)

    def says_again(self, step: Step) -> bool:
        """Whether the step says the same: the same figures, two words in three known, the same outcome."""
        terms = _terms(step)
        known = len(terms & self.terms) * 3 >= len(terms) * 2
        if not known or _figures(step) != self.figures or step.result != self.result:
            return False
        self.count += 1
        self.terms |= terms
        self.places.append(step.seq)
        if len(self.places) > SHOWN:
            del self.places[1]
        return True


class Rewording(Shared[Said]):
    """Writes or messages to one target, one after the other, with the same figures in nearly the same words."""

    name = "rewording"
    kinds = frozenset(("write", "message"))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Said:
        return Said()

    def see(self, state: Said, event: Event, step: Step | None) -> Signal | None:
        if step is None:
            return None
        before = state.first if step.reader.number == state.number + 1 else None
        state.number = step.reader.number
        target = step.call.target
        if target is None or step.error or step.free or len(step.arguments) > SHORT:
            state.first = None
            return None
        if before is None or before.call.target != target or before.tool != step.tool:
            state.first, state.count = step, 0
            return None
        if state.count == 0:
            state.begin(before)
        if not state.says_again(step):
            state.begin(step)
            return None
        limit = self.thresholds.reworded
        if len(state.figures) < 2 or (state.count != limit.nudge and state.count < limit.stop):
            return None
        return Signal(
            self.name,
            "no-progress",
            f"reworded:{step.tool}:{step.call.target}",
            tuple(state.places),
            "stop" if state.count >= limit.stop else "nudge",
            f"{named(step)} says the same to {step.call.target} for the {ordinal(state.count)} time, in other words.",
            f"You have now told {step.call.target} the same {state.count} times in other words. It is there already. "
            "Go on to the next thing.",
            setting="reworded",
            count=state.count,
        )


def _figures(step: Step) -> frozenset[bytes]:
    return frozenset(_FIGURE.findall(step.arguments))


def _terms(step: Step) -> set[bytes]:
    """Words by their first letters, so that endings do not count."""
    return {term[:4] for term in _TERM.findall(step.arguments.lower())}
