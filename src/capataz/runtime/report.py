"""From a folded state to the outcome a caller reads. Nothing is judged here: the log has said how it ended."""

from __future__ import annotations

from capataz.events.facts import RunEnded, RunEscalated
from capataz.kernel.state import State
from capataz.mistakes import Misuse
from capataz.outcome import Aborted, Answered, Completed, Escalated, Outcome, Partial


def outcome_of(state: State) -> Outcome:
    """The outcome of a run that is over; `Misuse` while it is still going on."""
    run, ceiling = state.started.run, state.judgement.ceiling
    warnings: tuple[str, ...] = ()
    if ceiling is not None:
        warnings = (f"ceiling of {ceiling.limit:g} {ceiling.ceiling} reached",)
    warnings += tuple(f"{act.name} is in doubt: it may have taken effect" for act in state.ledger.doubts())
    if state.ended is not None:
        return _ended(state.ended, run, state, warnings)
    if state.escalated is not None:
        return _escalated(state.escalated, run, state, warnings)
    raise Misuse(f"run {run} is not over: poll its handle, or read its events")


def _ended(fact: RunEnded, run: str, state: State, warnings: tuple[str, ...]) -> Outcome:
    spend = state.spend
    match fact.outcome:
        case "completed":
            return Completed(
                fact.answer, fact.evidence, fact.reason, run=run, spend=spend, warnings=warnings, detail=fact.detail
            )
        case "answered":
            return Answered(
                fact.answer,
                fact.no_action,
                fact.reason,
                fact.evidence,
                run=run,
                spend=spend,
                warnings=warnings,
                detail=fact.detail,
            )
        case "partial":
            return Partial(
                fact.answer,
                fact.reason,
                fact.missing,
                fact.evidence,
                fact.answer_turn,
                run=run,
                spend=spend,
                warnings=warnings,
                detail=fact.detail,
            )
        case "aborted":
            return Aborted(
                fact.answer,
                fact.reason,
                fact.missing,
                fact.evidence,
                run=run,
                spend=spend,
                warnings=warnings,
                detail=fact.detail,
            )


def _escalated(fact: RunEscalated, run: str, state: State, warnings: tuple[str, ...]) -> Outcome:
    return Escalated(
        fact.answer,
        fact.reason,
        fact.missing,
        fact.evidence,
        run=run,
        spend=state.spend,
        warnings=warnings,
        detail=fact.detail,
    )
