"""The same error again, with the same arguments or with others.

An error is known by its words, without request ids, clocks and what it only echoes of the call. Errors that pass by
themselves (5xx, rate limits) get the number of tries the fault table allows; an error that names one missing thing is
counted more slowly where every call names another.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capataz.events.facts import Event, ToolFinished, ToolRefused
from capataz.guards.base import Signal
from capataz.guards.canon import digest, names_absence, same_words
from capataz.guards.limits import DEFAULTS, Limit, Thresholds
from capataz.guards.reading import SHOWN, Step, note
from capataz.guards.shared import Shared
from capataz.guards.wording import named, ordinal

KEPT = 8
"""Different errors remembered at once."""

_OF_A_CALL = frozenset(("varied_errors", "shell_errors", "missing"))
"""Settings beside which the very same call is counted by itself: not where the error passes with time."""
_THROTTLED = frozenset(("429", "throttled", "throttling", "rate_limit", "ratelimit", "rate_limited"))
_TRANSIENT = frozenset(("500", "502", "503", "504", "529", "overloaded"))


@dataclass(slots=True)
class Error:
    """One error that is on its way to becoming a loop."""

    words: frozenset[str]
    identity: str
    tool: str
    since: float = 0.0
    count: int = 0
    tried: bool = False
    """A command of a shell was among them, and the error spoke of it."""
    targets: set[int] = field(default_factory=set[int])
    keys: set[int] = field(default_factory=set[int])
    key: int = 0
    run: int = 0
    """How often in a row the very same call brought it."""
    places: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Errors:
    open: list[Error] = field(default_factory=list[Error])
    chapter: int = 0


class Failing(Shared[Errors]):
    """The same error in a row; a success of the same tool, or a change of the world, starts anew."""

    name = "failing"
    calm = True

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Errors:
        return Errors()

    def see(self, state: Errors, event: Event, step: Step | None) -> Signal | None:
        if step is None or (not step.error and not state.open):
            return None
        if step.moved or step.chapter != state.chapter:
            state.open.clear()
            state.chapter = step.chapter
        if not step.error:
            state.open = [error for error in state.open if error.tool != step.tool]
            return None
        if step.free or self.thresholds.tool(step.tool).free:
            return None
        error = _find(state, step)
        error.count += 1
        error.tool = step.tool
        error.tried = error.tried or step.tried
        note(error.places, step.seq)
        if len(error.keys) < SHOWN:
            error.keys.add(step.key)
            error.targets.add(step.target)
        error.run = error.run + 1 if error.key == step.key else 1
        error.key = step.key
        setting = self._setting(error, event, step)
        count, limit = error.count, self._number(setting)
        same = self.thresholds.errors
        if setting in _OF_A_CALL and (error.run >= same.stop or (error.run == same.nudge and count < limit.stop)):
            setting, count, limit = "errors", error.run, same
        waited = step.event.at - error.since
        if (count != limit.nudge and count < limit.stop) or (
            setting == "" and 0 < waited < self.thresholds.patience(step.tool)
        ):
            return None
        return self._signal(error, step, setting, count, count >= limit.stop)

    def _number(self, setting: str) -> Limit:
        if setting == "":
            return Limit(self.thresholds.poll_looks, self.thresholds.poll_looks_blind)
        return self.thresholds.limit(setting)

    def _setting(self, error: Error, event: Event, step: Step) -> str:
        """The name of the limit for this error; empty for looks at what may yet come."""
        fact = event.fact
        row = fact.fault.row if isinstance(fact, ToolFinished | ToolRefused) and fact.fault is not None else ""
        if row == "rate_limit" or not _THROTTLED.isdisjoint(step.words):
            return "throttled"
        if row == "transient" or not _TRANSIENT.isdisjoint(step.words):
            return "transient"
        if step.kind == "poll":
            return ""
        if len(error.targets) > 1 and 0 not in error.targets and names_absence(step.words):
            return "missing"
        return "shell_errors" if error.tried else "varied_errors"

    def _signal(self, error: Error, step: Step, setting: str, count: int, over: bool) -> Signal:
        how = "with the same arguments" if len(error.keys) == 1 else "with different arguments"
        return Signal(
            self.name,
            "error-repeat",
            error.identity,
            tuple(error.places),
            "stop" if over else "nudge",
            f"{named(step)} failed with the same error for the {ordinal(error.count)} time, {how}.",
            f"This is the {ordinal(error.count)} time you get this same error, {how}. Trying variations will not "
            "mend its cause. Do something about the cause, take another way, or say what blocks you.",
            setting=setting,
            count=count,
        )


def _find(state: Errors, step: Step) -> Error:
    for error in reversed(state.open):
        if same_words(error.words, step.words):
            return error
    error = Error(step.words, f"error:{digest(' '.join(sorted(step.words)).encode())}", step.tool, step.event.at)
    state.open.append(error)
    if len(state.open) > KEPT:
        del state.open[0]
    return error
