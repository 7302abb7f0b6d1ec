"""Acts that leave their target as it was, say the same in other words, or ask differently for the same answer.

Here the arguments differ every time, so no fingerprint of a call repeats. What gives the loop away is the target, and
what became of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from capataz.events.facts import JSON, Event
from capataz.guards.base import Signal
from capataz.guards.canon import result_bytes
from capataz.guards.limits import DEFAULTS, Limit, Thresholds
from capataz.guards.reading import Step, note, trim
from capataz.guards.shape import is_empty, refuses
from capataz.guards.shared import Shared
from capataz.guards.wording import named, ordinal

TARGETS = 256
SHORT = 300
"""Bytes of arguments that are compared word by word; longer ones are documents, and rewriting them is work."""
TELLING = 20
"""Bytes an answer needs to tell one question from another: "ok" is the answer to everything."""

_FIGURE = re.compile(rb"\d+(?:[.,]\d+)*")
_CODE = re.compile(rb"[0-9A-Za-z_-]*[0-9][0-9A-Za-z_-]*")
_DIGITS = re.compile(rb"[0-9]")
_DAY = re.compile(rb"[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?")
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
        note(self.places, step.seq)
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
    row_arguments: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
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
        if not refuses(step.outcome):
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
        """Calls of one tool in a row, with other arguments each, that all come to the same.

        A series of numbers that goes on (seed 1, seed 2) asks something else each time; a label that counts does not.
        """
        target = step.call.target
        before, state.row_arguments = state.row_arguments, step.call.arguments
        if state.row_tool != step.tool or state.row_target != target or _goes_on(before, step.call.arguments):
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


def _goes_on(before: Mapping[str, JSON], now: Mapping[str, JSON]) -> bool:
    """Whether the arguments differ in numbers only, and each of those has grown."""
    if before.keys() != now.keys():
        return False
    grown = False
    for key, value in now.items():
        was = before[key]
        if was == value:
            continue
        if not isinstance(was, int | float) or not isinstance(value, int | float) or value < was:
            return False
        grown = True
    return grown


def _without_echo(step: Step) -> bytes:
    """What came back, without what it only repeats of the arguments: "not set to 21" is "not set to 22"."""
    data = result_bytes(step.outcome, step.kind)
    for value in step.call.arguments.values():
        if isinstance(value, str | int | float) and not isinstance(value, bool) and len(said := str(value)) <= SHORT:
            data = re.sub(rb"(?<![0-9A-Za-z])" + re.escape(said.encode()) + rb"(?![0-9A-Za-z])", b"~", data)
    return data


def _without_serials(step: Step) -> bytes:
    """What came back, with one and the same mark for every drawn code and serial number. Counts, hours, days stay."""
    return _CODE.sub(_serial, result_bytes(step.outcome, step.kind))


def _serial(found: re.Match[bytes]) -> bytes:
    code = found.group()
    digits = len(_DIGITS.findall(code))
    drawn = digits >= 4 or (digits < len(code) and len(code) >= 5)
    return b"~" if drawn and _DAY.fullmatch(code) is None else code


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
    key: int = 0
    """The call of the step before, or 0 where a person has spoken since."""
    chapter: int = 0
    copies: Tries = field(default_factory=Tries)
    """The same call again and again, its answers the same but for their serial numbers."""
    copied: Step | None = None
    """The first of them, until there is a second."""

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
        note(self.places, step.seq)
        return True


class Rewording(Shared[Said]):
    """Writes or messages to one target, one after the other, with the same figures in nearly the same words.

    And the very same one, made again each time with a receipt of its own: another ticket number is not another thing.
    """

    name = "rewording"
    kinds = frozenset(("write", "message"))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Said:
        return Said()

    def see(self, state: Said, event: Event, step: Step | None) -> Signal | None:
        if step is None:
            return None
        next_to_it = step.reader.number == state.number + 1
        before = state.first if next_to_it else None
        state.number = step.reader.number
        if step.chapter != state.chapter:
            state.chapter, state.key = step.chapter, 0
        return self._copied(state, step, next_to_it) or self._reworded(state, step, before)

    def _copied(self, state: Said, step: Step, next_to_it: bool) -> Signal | None:
        """Copies that `Repeating` takes for news, since each came back with another serial number."""
        if not next_to_it or step.key != state.key or step.error or step.changed is False:
            state.key, state.copied = step.key, step
            return None
        if self.thresholds.tool(step.tool).free or step.arguments == b"{}" or len(step.arguments) > SHORT:
            return None
        if state.copied is not None:
            state.copies = Tries()
            state.copies.add(state.copied, hash(_without_serials(state.copied)))
            state.copied = None
        count = state.copies.add(step, hash(_without_serials(step)))
        own = self.thresholds.tool(step.tool).repeat
        setting = f"tools.{step.tool}.repeat" if own else f"repeats.{step.kind}"
        limit = self.thresholds.limit(setting)
        if step.run > 1 or (count != limit.nudge and count < limit.stop):
            return None
        return Signal(
            self.name,
            "identical",
            f"copied:{step.name}",
            tuple(state.copies.places),
            "stop" if count >= limit.stop else "nudge",
            f"{named(step)} was done {count} times in a row, each time with a receipt of its own.",
            f"You have done {step.tool} {count} times in a row with the same arguments, and it took effect each time. "
            "Stop, unless so many were asked for; then say so.",
            setting=setting,
            count=count,
        )

    def _reworded(self, state: Said, step: Step, before: Step | None) -> Signal | None:
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
