"""Claiming to be done while the effects say otherwise. Told from what acts did, never from what a reply says.

A reply without calls is a claim that the work is over. It is false while an act failed, was denied or refused or is in
doubt and nothing made it good, or while a required check does not pass. Failing commands (class exec) are findings,
not broken promises: a red test is an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capataz.events.facts import (
    Call,
    CheckEvaluated,
    EffectChecked,
    Event,
    ModelReplied,
    RunStarted,
    ToolFinished,
    ToolRefused,
)
from capataz.guards.base import Signal
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.reading import Step
from capataz.guards.shared import Shared

KEPT = 256


@dataclass(frozen=True, slots=True)
class Broken:
    """An act that did not land: which, where, and why, in words."""

    tool: str
    target: str | None
    seq: int
    why: str


@dataclass(slots=True)
class Promises:
    judged: bool = False
    """Whether this run's replies are claims: not those of a coordinating role."""
    confirmable: frozenset[str] = frozenset()
    open: dict[tuple[str, str], Broken] = field(default_factory=dict[tuple[str, str], Broken])
    batch: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict[tuple[int, int], tuple[str, str]])
    reply: int = -1


class Finishing(Shared[Promises]):
    """A reply without calls while an act stands broken or a required check does not pass."""

    name = "finishing"
    prompt = True
    facts = frozenset((RunStarted, ModelReplied, ToolFinished, ToolRefused, EffectChecked, CheckEvaluated))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Promises:
        return Promises()

    def see(self, state: Promises, event: Event, step: Step | None) -> Signal | None:
        fact = event.fact
        if type(fact) is ToolFinished:
            kind = fact.call.kind
            if kind == "write" or kind == "message":
                _finished(state, event, fact)
        elif type(fact) is ModelReplied:
            return self._replied(state, event, fact)
        elif isinstance(fact, ToolRefused):
            if fact.call.kind in ("write", "message") and fact.reason != "ledger":
                _break(state, fact.call, event.seq, f"was refused ({fact.reason})")
        elif isinstance(fact, EffectChecked):
            _checked(state, event, fact)
        elif isinstance(fact, CheckEvaluated):
            if not fact.passed and state.judged and state.reply >= 0:
                reply, state.reply = state.reply, -1
                why = f"the check {fact.name} does not pass" + (f": {fact.detail}" if fact.detail else "")
                return self._signal((reply, event.seq), [why])
        elif isinstance(fact, RunStarted):
            state.judged = fact.role != "coordinating"
            state.confirmable = frozenset(tool.name for tool in fact.tools if tool.confirmable)
        return None

    def _replied(self, state: Promises, event: Event, fact: ModelReplied) -> Signal | None:
        if fact.purpose != "loop":
            return None
        if state.batch:
            state.batch.clear()
        state.reply = -1 if fact.calls else event.seq
        if fact.calls or fact.stop == "pause" or not state.open or not state.judged:
            return None
        broken = list(state.open.values())
        state.reply = -1
        return self._signal(
            (*(act.seq for act in broken[:7]), event.seq),
            [f"{act.tool}{f' on {act.target}' if act.target else ''} {act.why}" for act in broken[:5]],
        )

    def _signal(self, evidence: tuple[int, ...], reasons: list[str]) -> Signal:
        shown = "; ".join(reasons)
        return Signal(
            self.name,
            "false-done",
            "false-done",
            evidence,
            "fail-turn",
            f"The model stopped as if it were done, but {shown}.",
            f"This is not done: {shown}. Do it with the tools, or say plainly that it could not be done and why.",
        )


def _finished(state: Promises, event: Event, fact: ToolFinished) -> None:
    if fact.in_doubt:
        _break(state, fact.call, event.seq, "may or may not have taken effect")
    elif fact.error:
        _break(state, fact.call, event.seq, "failed")
    elif fact.call.tool in state.confirmable:
        _break(state, fact.call, event.seq, "was not confirmed")
    else:
        _mend(state, fact.call)


def _checked(state: Promises, event: Event, fact: EffectChecked) -> None:
    key = state.batch.get((fact.turn, fact.position))
    if fact.phase != "after" or key is None:
        return
    act = state.open.get(key)
    if fact.answer == "yes":
        state.open.pop(key, None)
    elif fact.answer == "no" and act is not None:
        state.open[key] = Broken(act.tool, act.target, event.seq, "did not take effect")


def _key(call: Call) -> tuple[str, str]:
    """What makes good what: acts on one target, whichever tool does them; without a target, acts of one tool."""
    return ("", call.target) if call.target is not None else (call.tool, "")


def _break(state: Promises, call: Call, seq: int, why: str) -> None:
    key = _key(call)
    state.batch[call.turn, call.position] = key
    state.open[key] = Broken(call.tool, call.target, seq, why)
    if len(state.open) > KEPT:
        del state.open[next(iter(state.open))]


def _mend(state: Promises, call: Call) -> None:
    """A later act that landed makes good what stood broken on its target."""
    if state.open:
        state.open.pop(_key(call), None)
