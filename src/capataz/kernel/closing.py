"""Winding a run down: the user always gets something, and it is marked for what it is."""

from __future__ import annotations

from capataz.events.facts import RunEnded, RunEscalated
from capataz.kernel.commands import Command, Record
from capataz.kernel.completion import checks_passed, evidence, missing
from capataz.kernel.room import closing_call
from capataz.kernel.state import State

ALL_PASSED = ("effects-confirmed", "all checks passed")


def wind_down(state: State) -> tuple[Command, ...]:
    """The run has to end. One closing call where the last turn said nothing, then the honest end."""
    return last_words(state) or (_ending(state),)


def last_words(state: State) -> tuple[Command, ...]:
    """The one closing call, without tools; nothing where something was said or the call cannot be made."""
    reply = state.turn.reply
    silent = reply is None or not reply.text.strip() or bool(reply.written)
    if silent and state.answer.closing == "none" and (call := closing_call(state)) is not None:
        return (call,)
    return ()


def _ending(state: State) -> Record:
    if checks_passed(state) and not state.started.typed:
        return end(state, "completed", *ALL_PASSED)
    stop, ceiling = state.judgement.stop, state.judgement.ceiling
    if stop is not None:
        return end(state, "escalated" if stop.action == "escalate" else "partial", stop.kind, stop.words)
    if ceiling is not None:
        name, limit, used = ceiling.ceiling, ceiling.limit, ceiling.used
        words = f"the ceiling of {limit:g} {'dollars' if name == 'money' else name} is reached ({used:g} used)"
        if state.asking.failure is not None:
            words = f"{words}; the last model call failed: {state.asking.failure.fault.message}"
        return end(state, "partial", f"ceiling-{name}", words)
    return end(state, "partial", "unfinished", "")


def end(state: State, outcome: str, reason: str, detail: str) -> Record:
    """The end of the run as a fact. While an act is in doubt nobody but a person can say how it ended."""
    proofs, lacking, doubts = evidence(state), missing(state), state.ledger.doubts()
    answer, turn = best_answer(state)
    if doubts and outcome in ("partial", "answered", "escalated"):
        names = ", ".join(act.name for act in doubts)
        return Record(RunEscalated("in-doubt", _join(detail, f"in doubt: {names}"), "human", answer, lacking, proofs))
    match outcome:
        case "completed":
            return Record(RunEnded("completed", reason, detail, answer, turn, proofs))
        case "answered":
            return Record(RunEnded("answered", reason, detail, answer, turn, proofs, no_action=state.acting))
        case "escalated":
            return Record(RunEscalated(reason, detail, "human", answer, lacking, proofs))
        case "aborted":
            return Record(RunEnded("aborted", reason, detail, answer, turn, proofs, lacking))
        case _:
            return Record(RunEnded("partial", reason, detail, answer, turn, proofs, lacking))


def best_answer(state: State) -> tuple[str, int | None]:
    """The last useful thing that was said and in which turn; else what the results so far say, marked as such."""
    answer = state.answer
    if answer.text:
        return answer.text, answer.turn
    if not answer.results:
        return "[no answer: nothing was said and no result was obtained]", None
    return "[put together from the last results]\n" + "\n".join(answer.results), None


def _join(first: str, second: str) -> str:
    return f"{first}; {second}" if first else second
