"""Bringing the calls of a turn to their end, each to exactly one result.

Reads of one turn may run side by side; as soon as one call acts, all go in order, and an act that failed or is in
doubt stops the acts behind it. An act is never run while the ledger says that it may already have happened.
"""

from __future__ import annotations

from typing import Literal

from capataz.events.facts import Call, EffectChecked, ToolFacts, ToolFinished, ToolRefused
from capataz.kernel.approvals import ask_approval, rejected
from capataz.kernel.commands import Command, ConfirmEffect, Record, Sleep, UseTool
from capataz.kernel.room import seconds_left
from capataz.kernel.state import State
from capataz.kernel.state.ledger import Act
from capataz.kernel.state.turn import CallView
from capataz.kernel.toolfaults import calls_left, try_again


def settle_calls(state: State) -> tuple[Command, ...]:
    """What the unsettled calls of the present turn need next; nothing when all have their result."""
    open_calls = state.turn.unsettled
    if not open_calls:
        return ()
    if all(not view.call.acting and not view.call.approval for view in state.turn.calls.values()):
        room = calls_left(state)
        failed = [view for view in open_calls if view.stage == "failed"]
        fresh = [view for view in open_calls if view.stage != "failed"]
        able = [view for view in fresh if refusal(state, view.call) is None]
        refused = [view for view in fresh if view not in able] + able[room:]
        if refused:
            return tuple(_refuse(state, view.call) for view in refused)
        return tuple(_use(state, view.call) for view in able) or try_again(state, failed)
    first = open_calls[0]
    if first.stage == "failed":
        return try_again(state, [first])
    if first.stage == "asked" and refusal(state, first.call) is None and (wait := ask_approval(state, first.call)):
        return wait
    return (_next_step(state, first),)


def ask_again(state: State) -> tuple[Command, ...]:
    """The read-back of an act of an earlier turn that has answered late; nothing when there is none."""
    for act in state.ledger.acts.values():
        if act.asks_again and act.finished is not None and act.late is not None:
            return (ConfirmEffect(act.call, "after", key_of(state, act.call), act.late.result),)
    return ()


def _next_step(state: State, view: CallView) -> Command:
    """One step of a call in a turn that acts."""
    call, facts = view.call, state.tools.get(view.call.tool, ToolFacts(view.call.tool, view.call.kind))
    if view.stage == "asked":
        if refusal(state, call) is not None or calls_left(state) < 1:
            return _refuse(state, call)
        if call.acting and facts.confirmable and view.before is None:
            return ConfirmEffect(call, "before", key_of(state, call))
        return _use(state, call)
    if view.stage == "probed":
        return _already(call) if view.before == "yes" and not facts.repeatable else _use(state, call)
    if not call.acting:
        return _use(state, call)
    return _reconcile(state, view, facts)


def _reconcile(state: State, view: CallView, facts: ToolFacts) -> Command:
    """An act was begun. Find out whether it took effect; never guess, never silently run it again."""
    call, key = view.call, key_of(state, view.call)
    act = state.ledger.acts[call.turn, call.position]
    if act.facts.confirmable and not act.answered:
        due, left = act.started_at + act.facts.settle, seconds_left(state)
        if act.after == "no" and left is not None and left <= 0:
            return Record(EffectChecked(call.turn, call.position, "after", "unknown", "the run's time is up"))
        if act.after == "no" and state.now < due:
            return Sleep(due if left is None else min(due, state.now + left), call.turn)
        return ConfirmEffect(call, "after", key, view.finished.result if view.finished is not None else None)
    repeatable = facts.idempotent and act.facts.idempotent  # in the version that began it, and in the one that goes on
    if repeatable and view.finished is None and act.after != "yes" and act.runs < 3:
        return _use(state, call)
    return Record(_conclude(view, act))


def _already(call: Call) -> Record:
    """The read-back says, before the act, that its effect is there: doing it again is what nobody wants."""
    words = f"not run: the read-back of {call.tool} says that this is already so. Do not repeat it."
    return Record(ToolRefused(call, "ledger", words))


def _conclude(view: CallView, act: Act) -> ToolFinished:
    """The result of an act that was interrupted, from what its read-back says."""
    call = view.call
    if view.finished is not None:
        return view.finished
    if act.after == "yes":
        return ToolFinished(call, {"interrupted": True, "read_back": "the effect is there"}, state_changed=True)
    if act.after == "no" and act.settled:
        return ToolFinished(call, {"error": "interrupted; the read-back says it did not take effect"}, error=True)
    return ToolFinished(
        call, {"error": "interrupted; outcome unknown: check before repeating"}, error=True, in_doubt=True
    )


def refusal(state: State, call: Call) -> ToolRefused | None:
    """Why this call must not run, as the fact to record; None when it may."""
    if call.problem is not None:
        unknown = call.tool not in state.tools
        truncated = call.fault is not None and call.fault.reason == "truncated"
        reason: Literal["unknown-tool", "truncated", "invalid-arguments"] = (
            "unknown-tool" if unknown else "truncated" if truncated else "invalid-arguments"
        )
        return ToolRefused(call, reason, call.problem, call.fault)
    if (rejection := rejected(state, call)) is not None:
        return rejection
    if call.approval and call.tool not in state.tools:  # gone with a version of the agent: nothing is left to approve
        return ToolRefused(call, "unknown-tool", f"not run: there is no tool {call.tool!r} any more")
    if not call.acting:
        return None
    if (blocker := _blocker(state, call)) is not None:
        return ToolRefused(call, "not-run", f"not run: {blocker} before it in this turn did not succeed")
    facts = state.tools.get(call.tool)
    words = state.ledger.forbids(call, facts) if facts is not None else None
    return ToolRefused(call, "ledger", words) if words is not None else None


def _blocker(state: State, call: Call) -> str | None:
    """The act before this one in the same turn that is failed, denied or in doubt."""
    for position in sorted(state.turn.calls):
        act = state.ledger.acts.get((call.turn, position))
        if position < call.position and act is not None and act.standing in ("failed", "denied", "in-doubt"):
            return act.name
    return None


def _refuse(state: State, call: Call) -> Record:
    fact = refusal(state, call)
    return Record(fact or ToolRefused(call, "not-run", "not run: the ceiling of calls is reached"))


def _use(state: State, call: Call) -> UseTool:
    return UseTool(call, key_of(state, call), seconds_left(state))


def key_of(state: State, call: Call) -> str:
    """The idempotency key of a call: the same after a crash, another for every other call."""
    return f"{state.started.run}:{call.turn}:{call.position}"
