"""Risky acts wait for a person. What is shown is what will run, and what is approved is exactly that.

An approval is bound by a digest to the stored call and to the versions of tools and policy it was asked under; it is
executed from the log without asking the model again. A rejection is state, keyed by the effect: the same effect is
not asked for twice, until the person who gave the task says something new.
"""

from __future__ import annotations

import hashlib

from capataz.events.facts import JSON, ApprovalAsked, Call, RunEscalated, ToolRefused
from capataz.events.plain import to_json
from capataz.kernel.commands import Command, Record
from capataz.kernel.state import State
from capataz.kernel.state.ledger import canonical


def digest_of(state: State, call: Call) -> str:
    """Binds this one call: its place, tool, target, arguments, and the versions of tools and policy."""
    versions = state.versions
    call_itself: list[JSON] = [call.turn, call.position, call.tool, call.target, canonical(dict(call.arguments))]
    bound: list[JSON] = [*call_itself, versions.tools, versions.policy]
    return hashlib.sha256(to_json(bound)).hexdigest()[:24]


def shown(call: Call) -> str:
    """The call as a person reads it before saying yes."""
    arguments = ", ".join(f"{name}={to_json(value).decode()}" for name, value in call.arguments.items())
    return f"{call.tool}({arguments})"


def rejected(state: State, call: Call) -> ToolRefused | None:
    """The refusal of a call whose effect a person has rejected."""
    words = state.people.rejected.get((call.tool, call.target))
    if words is None:
        return None
    what = call.tool if call.target is None else f"{call.tool} on {call.target}"
    reason = f" ({words})" if words else ""
    return ToolRefused(
        call, "rejected", f"a person rejected {what}{reason}. Do not ask for it again; say that it was rejected."
    )


def ask_approval(state: State, call: Call) -> tuple[Command, ...]:
    """Suspend the run until a person has decided about this call; nothing when it may go on."""
    if not call.approval:
        return ()
    digest, people = digest_of(state, call), state.people
    if digest in people.approved:
        return ()
    words = shown(call)
    waits = f"{words} waits for approval: {call.approval}"
    escalation = Record(RunEscalated("approval", waits, answer=state.answer.text or f"[nothing was done yet: {waits}]"))
    if people.asked == digest:
        return (escalation,)
    return (Record(ApprovalAsked(call.turn, call.position, digest, words, call.approval)), escalation)
