"""A turn without calls is a claim: the model thinks it is done.

It becomes the end of the run only if the world agrees. Otherwise it goes back to the model with the reason, a bounded
number of times, and then the run ends for what it is.
"""

from __future__ import annotations

from capataz.events.facts import ModelReplied, VerdictGiven
from capataz.kernel.closing import ALL_PASSED, end, last_words
from capataz.kernel.commands import Command, ReadAnswer, Record
from capataz.kernel.completion import checks_passed, missing, only_unconfirmable
from capataz.kernel.state import State
from capataz.kernel.toolfaults import Barred, barred_tools, escalate_barred

_NO_CALL = (
    "You have not used any tool yet, so nothing has been done. Saying it does not do it. "
    "Call the tool that does the work now, or, after looking, say plainly why it should not be done."
)
_IN_TEXT = (
    "You wrote a call of {names} as text, so it was not run. Ask for the tool through the tool interface instead of "
    "writing the call into your reply."
)
_TOO_LONG = "Your reply was cut off by the output limit and is not complete. Say it again, shorter."
_EMPTY = "Your reply was empty. Give your answer in words."


def settle_claim(state: State, reply: ModelReplied) -> tuple[Command, ...]:
    """The end of the run, or a claim that goes back; nothing when the model may simply go on."""
    if reply.stop == "pause":
        return ()
    if reply.stop in ("refusal", "filter"):
        return (end(state, "aborted", "refused", f"the model refused to go on ({reply.stop})"),)
    if reply.written:
        note = _IN_TEXT.format(names=", ".join(reply.written))
        return (_send_back(state, "narrating", "call-in-text", note, f"wrote {reply.written[0]} as text"),)
    if state.people.rejected:
        return (end(state, "partial", "rejected", f"rejected by a person: {_names(state)}"),)
    if state.acting and state.spent.calls == 0 and not state.ledger.found_done:
        return (_send_back(state, "narrating", "narration", _NO_CALL, "the turn only talked: no tool was used"),)
    if checks_passed(state):
        return last_words(state) or _typed(state) or (end(state, "completed", *ALL_PASSED),)
    if reply.stop == "length":
        return (_send_back(state, "narrating", "truncated", _TOO_LONG, "the reply was cut off by the output limit"),)
    if state.acting:
        return _settle_acting(state)
    return _settle_talking(state)


def _settle_acting(state: State) -> tuple[Command, ...]:
    lacking = missing(state)
    if barred := barred_tools(state):
        return _settle_barred(state, barred)
    if lacking and not only_unconfirmable(state):
        words = f"claimed to be done, but {lacking[0]}"
        return (_send_back(state, "finishing", "false-done", _not_done(lacking), words),)
    if not state.answer.text and (call := last_words(state)):
        return call
    if lacking:
        return (end(state, "partial", "unconfirmed", f"not confirmed: {'; '.join(lacking)}"),)
    if state.ledger.acts:
        return _typed(state) or (end(state, "completed", "effects-confirmed", "every act is confirmed"),)
    if not state.answer.text:
        return (_send_back(state, "narrating", "empty-answer", _EMPTY, "the last turn was empty"),)
    return _typed(state) or (end(state, "answered", "no-action", "it looked and did nothing"),)


def _settle_barred(state: State, barred: Barred) -> tuple[Command, ...]:
    """What stands in the way needs a person. After that person's "try again" the model is told to."""
    if (escalation := escalate_barred(state, barred)) is not None:
        return (Record(escalation),)
    names = ", ".join(barred)
    note = f"A person has seen to it: {names} may be used again. Do now what could not be done before."
    return (_send_back(state, "finishing", "barred", note, f"did not try {names} again"),)


def _settle_talking(state: State) -> tuple[Command, ...]:
    broken = tuple(act.name for act in state.ledger.open_acts() if act.standing in ("denied", "failed", "in-doubt"))
    if broken:
        lacking = tuple(f"{name} did not succeed" for name in broken)
        words = f"answered although {lacking[0]}"
        return (_send_back(state, "finishing", "false-done", _not_done(lacking), words),)
    if not state.answer.text:
        return (_send_back(state, "narrating", "empty-answer", _EMPTY, "the turn was empty and nothing was said"),)
    return _typed(state) or (end(state, "answered", "answered", ""),)


def _typed(state: State) -> tuple[Command, ...]:
    """A typed answer is validated before it may end a run; nothing when it is fine, or of no given type."""
    answer = state.answer
    if not state.started.typed or answer.turn is None:
        return ()
    if answer.read is None or answer.read.turn != answer.turn:
        return (ReadAnswer(answer.turn, answer.text),)
    problem, rule = answer.read.problem, state.rules.policy.faults.rules["contract"]
    if not problem:
        return ()
    words = f"the answer does not have the type that was asked for: {problem}"
    if answer.misread < rule.retries + 1:
        note = f"Your answer could not be read: {problem}. Give it again, as JSON of the schema only."
        turn = state.turn
        return (
            Record(
                VerdictGiven("fail-turn", "finishing", "untyped-answer", "type", (turn.seq,), turn.number, words, note)
            ),
        )
    terminal = rule.terminal
    return (end(state, "escalated" if terminal in ("human", "supervisor") else "aborted", "contract", words),)


def _names(state: State) -> str:
    return ", ".join(tool if target is None else f"{tool}({target})" for tool, target in state.people.rejected)


def _send_back(state: State, guard: str, kind: str, note: str, words: str) -> Record:
    """Back to the model with the reason; after too many, or where the guard only observes, the run has to end."""
    turn, policy = state.turn, state.rules.policy
    if state.judgement.claims < policy.claims and policy.mode(guard) == "enforce":
        return Record(VerdictGiven("fail-turn", guard, kind, kind, (turn.seq,), turn.number, words, note))
    return Record(VerdictGiven("stop", guard, kind, kind, (turn.seq,), turn.number, words))


def _not_done(lacking: tuple[str, ...]) -> str:
    return (
        "The runtime checked, and this is not done: " + "; ".join(lacking[:5]) + ". "
        "Do it with the tools, or say plainly that it could not be done and why."
    )
