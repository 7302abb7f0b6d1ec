"""What is done, decided from confirmed effects and satisfied checks. What the model says is not looked at here."""

from __future__ import annotations

from capataz.events.facts import CheckEvaluated, Evidence
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
    names, reply = _required(state), state.reply
    if not names or reply is None:
        return ()
    asked = min(state.check_seq.get(name, -1) for name in names)
    acted = any(act.seq > asked for act in state.ledger.acts.values())
    claimed = not reply.calls and asked < state.reply_seq
    return (EvaluateChecks(names, state.answer),) if acted or claimed else ()


def checked_done(state: State) -> bool:
    """Whether there are checks, all passed, and something was done: the runtime may close the run by itself.

    A run that owes an answer of a given type is not closed early: nobody else can give that answer.
    """
    typed = state.started is not None and state.started.typed
    return state.used_calls > 0 and checks_passed(state) and not typed


def checks_passed(state: State) -> bool:
    names = _required(state)
    return bool(names) and all(name in state.checks and state.checks[name].passed for name in names)


def missing(state: State) -> tuple[str, ...]:
    """What stands between this run and `Completed`, in words."""
    names = _required(state)
    if names:
        return tuple(_lacking(name, state.checks.get(name)) for name in names if not _passed(state, name))
    return tuple(f"{act.name} {_WORDS[act.standing]}" for act in state.ledger.open_acts())


def only_unconfirmable(state: State) -> bool:
    """Nothing is wrong but that some tools have no read-back: sending that back to the model cannot help."""
    if _required(state):
        return False
    return all(act.standing in ("unconfirmed", "already") for act in state.ledger.open_acts())


def evidence(state: State) -> tuple[Evidence, ...]:
    """Every confirmed effect and every passed check, with its place in the log."""
    checks = tuple(
        Evidence("check", check.name, check.detail or "passed", state.check_seq[check.name])
        for check in state.checks.values()
        if check.passed
    )
    return state.ledger.evidence() + checks


def _required(state: State) -> tuple[str, ...]:
    return state.started.checks if state.started is not None else ()


def _passed(state: State, name: str) -> bool:
    return name in state.checks and state.checks[name].passed


def _lacking(name: str, check: CheckEvaluated | None) -> str:
    return name if check is None or not check.detail else f"{name}: {check.detail}"
