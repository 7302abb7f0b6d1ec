"""What is done, decided from confirmed effects and satisfied checks. What the model says is not looked at here."""

from __future__ import annotations

from capataz.events.facts import Evidence
from capataz.kernel.commands import Command, EvaluateChecks
from capataz.kernel.state import State

_WORDS = {
    "unconfirmed": "is not confirmed by a read-back",
    "already": "was already so before the act",
    "denied": "is denied by its read-back",
    "failed": "failed",
    "in-doubt": "is in doubt",
    "pending": "has not ended",
}


def checks_due(state: State) -> tuple[Command, ...]:
    """Ask the checks when a claim was made, or an act has ended, since they were last asked."""
    names, reply = state.started.checks, state.turn.reply
    if not names or reply is None:
        return ()
    asked = state.checks.asked(names)
    acted = any(act.seq > asked for act in state.ledger.acts.values())
    claimed = not reply.calls and asked < state.turn.seq
    return (EvaluateChecks(names, state.answer.text),) if acted or claimed else ()


def checked_done(state: State) -> bool:
    """Whether there are checks, all passed, and something was done: the runtime may close the run by itself.

    A run that owes an answer of a given type is not closed early: nobody else can give that answer.
    """
    return state.spent.calls > 0 and checks_passed(state) and not state.started.typed


def checks_passed(state: State) -> bool:
    names = state.started.checks
    return bool(names) and all(map(state.checks.passed, names))


def missing(state: State) -> tuple[str, ...]:
    """What stands between this run and `Completed`, in words."""
    if names := state.started.checks:
        return tuple(state.checks.lacking(name) for name in names if not state.checks.passed(name))
    return tuple(f"{act.name} {_WORDS[act.standing]}" for act in state.ledger.open_acts())


def only_unconfirmable(state: State) -> bool:
    """Nothing is wrong but that some tools have no read-back: sending that back to the model cannot help."""
    if state.started.checks:
        return False
    return all(act.standing in ("unconfirmed", "already") for act in state.ledger.open_acts())


def evidence(state: State) -> tuple[Evidence, ...]:
    """Every confirmed effect and every passed check, with its place in the log."""
    return state.ledger.evidence() + state.checks.evidence()
