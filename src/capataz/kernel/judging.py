"""Turning what was noticed into verdicts. A signal stays until a recorded verdict consumes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from capataz.events.facts import VerdictGiven
from capataz.guards.base import Signal
from capataz.kernel.commands import Command, Record
from capataz.kernel.completion import checks_passed, missing
from capataz.kernel.state import State
from capataz.kernel.state.ledger import Act
from capataz.kernel.toolfaults import barred_tools
from capataz.kernel.verdicts import judge, stronger


def judge_signals(state: State) -> tuple[Command, ...]:
    """The verdict on the oldest loop that was not judged; judged at the end of a batch, never inside one."""
    for position in state.turn.calls:
        act = state.ledger.acts.get((state.turn.number, position))
        if act is not None and (verdict := _contradiction(state, act)) is not None:
            return (Record(verdict),)
    if not state.judgement.signals:
        return ()
    return (Record(_verdict(state, _oldest(state.judgement.signals))),)


def _oldest(signals: Sequence[Signal]) -> Signal:
    """The strongest signal of the loop that was noticed first: its verdict consumes the weaker ones."""
    return reduce(stronger, (signal for signal in signals if signal.identity == signals[0].identity))


def _verdict(state: State, signal: Signal) -> VerdictGiven:
    policy = state.rules.policy
    mode = policy.mode(signal.guard)
    if signal.advice == "fail-turn" and not _concerns(state, signal):
        mode = "observe"
    verdict = judge(signal, state.judgement.heard, state.turn.number, mode)
    if verdict.action == "fail-turn" and state.judgement.claims >= policy.claims:
        return replace(verdict, action="stop", note="")
    return verdict


def _concerns(state: State, signal: Signal) -> bool:
    """Whether a failed turn is what it is: not a refusal, a pause or a person's no, and not a claim that is true."""
    claim = state.turn.claim
    if claim is None or claim.written or claim.stop in ("refusal", "filter", "pause") or state.people.rejected:
        return False
    if signal.guard != "finishing":
        return not (signal.kind == "narration" and state.ledger.found_done)
    # What only a person can mend is not sent back to the model: it is that person's.
    return not checks_passed(state) and bool(missing(state)) and not barred_tools(state)


def _contradiction(state: State, act: Act) -> VerdictGiven | None:
    """The read-back says other than the result the model has seen: it is told before it builds on it."""
    done, identity = act.finished, f"effect:{act.call.turn}:{act.call.position}"
    if done is None or identity in state.judgement.heard:
        return None
    if done.error and act.standing == "confirmed":
        words = f"{act.name} answered with an error, but its read-back says it took effect"
        note = f"{act.name} did take effect, as its read-back shows. Do not repeat it."
    elif not done.error and act.standing == "denied":
        words = f"{act.name} reported success, but its read-back says it did not take effect"
        note = f"{act.name} reported success but did NOT take effect, as its read-back shows. Do not say it is done."
    else:
        return None
    return VerdictGiven(
        "nudge", "finishing", "read-back", identity, (act.started_seq, act.seq), state.turn.number, words, note
    )
