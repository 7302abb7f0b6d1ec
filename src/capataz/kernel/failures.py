"""A model call failed: try again, wait, or take the terminal action of the fault's row. Never call it success."""

from __future__ import annotations

from capataz.events.facts import (
    CeilingReached,
    ModelCallFailed,
    ModelSwitched,
    OutputCapped,
    RunEnded,
    RunEscalated,
)
from capataz.kernel.closing import best_answer, end
from capataz.kernel.commands import Command, DrawWait, Record
from capataz.kernel.room import seconds_left
from capataz.kernel.state import State
from capataz.policy.table import Terminal

LEAST_ROOM = 256
"""Tokens of output below which asking again for less makes no sense."""

SUPERVISIONS = 2
"""How often a supervisor may step in before a person is asked."""


def settle_failure(state: State, failed: ModelCallFailed) -> tuple[Command, ...]:
    """The retry that the policy table still allows, or the end it prescribes."""
    table, fault, model = state.rules.policy.faults, failed.fault, model_of(state)
    if fault.reason.startswith("budget-"):  # an account's, not this run's: a closing call would be refused as well
        return (end(state, "partial", fault.reason, fault.message),)
    if fault.row == "ours":
        return (Record(_own_limit(state, failed)),)
    left = seconds_left(state)
    if left is not None and left <= 0:
        return (Record(CeilingReached("seconds", state.ceilings.seconds or 0.0, state.spend.seconds)),)
    if (other := _another_way(state, failed)) is not None:
        return (Record(other),)
    if failed.attempt < table.retries(fault, model=model):
        return (DrawWait(table.rule(fault, model=model), failed.attempt, fault.wait, fault.reason, failed.turn, left),)
    return (Record(_terminal(state, failed)),)


def _another_way(state: State, failed: ModelCallFailed) -> ModelSwitched | OutputCapped | None:
    """A next try that differs from the last: the next model on a rate limit, less output where that did not fit."""
    fault, asking, models = failed.fault, state.asking, _models(state)
    if fault.row == "rate_limit" and asking.model + 1 < len(models):
        return ModelSwitched(failed.turn, models[asking.model + 1], models[asking.model], fault.reason)
    if fault.room is not None and fault.room >= LEAST_ROOM and asking.cap is None:
        return OutputCapped(failed.turn, fault.room, fault.reason)
    return None


def model_of(state: State) -> str:
    """The model that is asked now, as "provider:name"."""
    models = _models(state)
    return models[min(state.asking.model, len(models) - 1)]


def _models(state: State) -> tuple[str, ...]:
    """The agent's own, and those it may hop to."""
    return (state.started.model, *state.started.fallbacks)


def who_decides(state: State, terminal: Terminal) -> Terminal:
    """The terminal action as it can be taken here: a person, where there is no supervisor who could still help."""
    if terminal != "supervisor":
        return terminal
    return terminal if state.started.supervised and state.people.supervisions < SUPERVISIONS else "human"


def _own_limit(state: State, failed: ModelCallFailed) -> CeilingReached:
    """Our own limit refused the call before it left: that is a ceiling, not the provider's error."""
    spent = float(state.spend.money or 0)
    return CeilingReached("money", float(state.ceilings.money or 0), spent)


def _terminal(state: State, failed: ModelCallFailed) -> RunEnded | RunEscalated:
    fault = failed.fault
    answer, turn = best_answer(state)
    tries = failed.attempt + 1
    detail = f"{fault.row}: {fault.message} (after {tries} {'try' if tries == 1 else 'tries'})"
    missing = tuple(act.name for act in state.ledger.open_acts())
    terminal = who_decides(state, state.rules.policy.faults.rule(fault, model=model_of(state)).terminal)
    if terminal == "supervisor" or terminal == "human":
        return RunEscalated(fault.row, detail, terminal, answer, missing, state.ledger.evidence())
    if terminal == "partial":
        return RunEnded("partial", fault.row, detail, answer, turn, state.ledger.evidence(), missing)
    return RunEnded("aborted", fault.row, detail, answer, turn, state.ledger.evidence(), missing)
