"""What becomes of a tool's error: tried again where that is harmless and the table says so, else read by the model.

A call that looks, and an act declared idempotent (with its key), may be run again before the model sees anything; any
other act never is. An error that only a person can mend (by default: no right to do it) suspends the run once the
model has nothing else to offer, and not before: it may know another way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from capataz.events.facts import Call, Fault, RunEscalated, ToolFailed, ToolFinished
from capataz.kernel.closing import best_answer
from capataz.kernel.commands import Command, DrawWait, Record
from capataz.kernel.completion import evidence, missing, only_unconfirmable
from capataz.kernel.failures import who_decides
from capataz.kernel.room import seconds_left
from capataz.kernel.state import State
from capataz.kernel.state.turn import CallView

Barred: TypeAlias = Mapping[str, tuple[Fault, int]]
"""Tools that only a person can make usable: the fault, and where it is recorded."""


def settle_try(state: State, finished: ToolFinished) -> ToolFinished | ToolFailed:
    """What to record of a try that came to its end: its result, or a failure after which it is tried again."""
    call, fault = finished.call, finished.fault
    view = state.turn.calls.get(call.position)
    if not finished.error or fault is None or view is None or not _repeatable(state, call):
        return finished
    allowed = state.rules.policy.faults.retries(fault, tool=call.tool)
    if view.tries >= allowed or calls_left(state) < 1:
        return finished
    return ToolFailed(call, view.tries, fault, finished.result, finished.in_doubt, finished.seconds)


def try_again(state: State, failed: Sequence[CallView]) -> tuple[Command, ...]:
    """One wait for all calls whose try failed; where there is no time or room for another, the error is the result."""
    left, room = seconds_left(state), calls_left(state)
    given_up = [view for place, view in enumerate(failed) if place >= room or not _in_time(state, view, left)]
    if given_up:
        return tuple(Record(_result(view)) for view in given_up)
    slowest = max(failed, key=lambda view: _wait(state, view))
    fault = _fault(slowest)
    rule = state.rules.policy.faults.rule(fault, tool=slowest.call.tool)
    return (DrawWait(rule, slowest.tries - 1, fault.wait, fault.reason, slowest.call.turn, left),)


def barred_tools(state: State) -> Barred:
    """Tools that only a person can make usable, where something is still to be done; empty otherwise."""
    undone = (missing(state) and not only_unconfirmable(state)) or not state.ledger.acts
    table = state.rules.policy.faults
    return {
        tool: (fault, seq)
        for tool, (fault, seq) in state.tool_faults.items()
        if undone and table.rule(fault, tool=tool).terminal in ("human", "supervisor")
    }


def escalate_barred(state: State, barred: Barred) -> RunEscalated | None:
    """Suspend the run over what happened since somebody decided last; None when nothing did."""
    fresh = {tool: fault for tool, (fault, seq) in barred.items() if seq > state.people.answered_seq}
    if not fresh:
        return None
    tool, fault = next(iter(fresh.items()))
    terminal = who_decides(state, state.rules.policy.faults.rule(fault, tool=tool).terminal)
    detail = "; ".join(f"{name}: {fault.message}" for name, fault in fresh.items())
    answer, _ = best_answer(state)
    to: Literal["human", "supervisor"] = "supervisor" if terminal == "supervisor" else "human"
    return RunEscalated(fault.row, detail, to, answer, missing(state), evidence(state))


def calls_left(state: State) -> int:
    """How many calls the ceiling still allows; a repeated try is a call."""
    limit = state.ceilings.calls
    return 1_000_000 if limit is None else max(0, limit - state.spend.calls)


def _repeatable(state: State, call: Call) -> bool:
    facts = state.tools.get(call.tool)
    return facts is not None and (not call.acting or facts.idempotent)


def _fault(view: CallView) -> Fault:
    assert view.failed is not None
    return view.failed.fault


def _wait(state: State, view: CallView, fraction: float = 0.0) -> float:
    fault = _fault(view)
    rule = state.rules.policy.faults.rule(fault, tool=view.call.tool)
    return rule.wait(view.tries - 1, fault.wait, fraction)


def _in_time(state: State, view: CallView, left: float | None) -> bool:
    return state.judgement.ceiling is None and (left is None or _wait(state, view, 1.0) < left)


def _result(view: CallView) -> ToolFinished:
    """The error of the last try, for the model."""
    failed = view.failed
    assert failed is not None
    return ToolFinished(
        failed.call, failed.result, error=True, fault=failed.fault, in_doubt=failed.in_doubt, seconds=failed.seconds
    )
