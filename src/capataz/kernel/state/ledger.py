"""The effect ledger: which acts of a run have taken effect, may have, or have not.

It answers two questions and nothing else. Before an act: has the same effect (tool, target, canonical arguments)
been made, or may it have been, within this root task? At the end: is every act that was begun really so in the world?
The model's word plays no part in either.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from capataz.events.facts import JSON, Call, EffectChecked, Evidence, ToolAnsweredLate, ToolFacts, ToolFinished
from capataz.events.plain import to_json

Standing = Literal["pending", "confirmed", "unconfirmed", "already", "denied", "failed", "in-doubt"]
HOLDS: frozenset[Standing] = frozenset({"pending", "confirmed", "unconfirmed", "already", "in-doubt"})
"""Standings in which the same act again is refused."""


def canonical(value: JSON) -> JSON:
    """The same value however it was spelt: whole floats as integers, keys in order."""
    if isinstance(value, dict):
        return {key: canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def effect_key(call: Call) -> str:
    """What makes two acts the same effect: tool, target and canonical arguments."""
    digest = hashlib.sha256(to_json(canonical(dict(call.arguments)))).hexdigest()[:16]
    return f"{call.tool}|{call.target}|{digest}"


@dataclass(slots=True)
class Act:
    """One acting call that was begun, with all that is known of its effect."""

    call: Call
    key: str
    facts: ToolFacts
    started_seq: int
    started_at: float
    before: str | None = None
    after: str | None = None
    after_at: float = 0.0
    finished: ToolFinished | None = None
    ruled: Literal["yes", "no"] | None = None
    """What a person said about it, where nothing else could tell."""
    seq: int = -1
    """Position of the newest fact about it: the evidence."""
    runs: int = 1
    late: ToolAnsweredLate | None = None
    """What it answered after it had been given up on."""
    asks_again: bool = False
    """It has answered late and its read-back was not asked since."""

    @property
    def over(self) -> bool:
        """Whether the call itself is known to have come to its end; one that was given up on may still take effect."""
        if self.late is not None:
            return not self.late.in_doubt
        return self.finished is not None and not self.finished.in_doubt

    @property
    def settled(self) -> bool:
        """Whether a "no" is final: the declared settle time had passed when it was said. Where none is declared, a
        "no" is final at once for a call that is over, and never for one that may still be at work somewhere."""
        return self.asked_in_time and (self.facts.settle > 0 or self.over)

    @property
    def asked_in_time(self) -> bool:
        return self.after_at >= self.started_at + self.facts.settle

    @property
    def answered(self) -> bool:
        """Whether the read-back has said all it will: asking it again would change nothing."""
        return self.after is not None and (self.after != "no" or self.asked_in_time)

    @property
    def standing(self) -> Standing:
        if self.ruled is not None:
            return "confirmed" if self.ruled == "yes" else "denied"
        if self.never_ran:
            return "failed"
        if self.after == "yes":
            return self._proven
        if self.after == "no" and self.settled:
            return "failed" if self.finished is not None and self.finished.error else "denied"
        if self.after in ("no", "unknown"):
            return "in-doubt"
        if self.finished is None:
            return "pending"
        if self.late is not None and not self.late.in_doubt:
            return "failed" if self.late.error else "unconfirmed"
        if self.finished.in_doubt:
            return "in-doubt"
        return "failed" if self.finished.error else "unconfirmed"

    @property
    def _proven(self) -> Standing:
        """What a "yes" after the act proves: this act, where the effect was not there before or the yes is tied."""
        if self.facts.tied or self.before in (None, "no"):
            return "confirmed"
        return "already" if self.before == "yes" else "unconfirmed"

    @property
    def never_ran(self) -> bool:
        """Its arguments could not even be handed over: nothing was done, whatever a read-back says."""
        fault = self.finished.fault if self.finished is not None else None
        return fault is not None and fault.reason == "invalid-arguments" and fault.origin == "tool"

    @property
    def name(self) -> str:
        return self.call.tool if self.call.target is None else f"{self.call.tool}({self.call.target})"


@dataclass(slots=True)
class Ledger:
    """All acts of a run, in the order they were begun."""

    acts: dict[tuple[int, int], Act] = field(default_factory=dict[tuple[int, int], Act])
    elsewhere: set[str] = field(default_factory=set[str])
    """Effects standing in other runs of the same root."""
    found_done: bool = False
    """It, or a read-back, has said of an act that was asked for that it is done already."""

    def start(self, call: Call, facts: ToolFacts, seq: int, at: float, before: str | None) -> None:
        act = self.acts.get((call.turn, call.position))
        if act is None:
            act = Act(call, effect_key(call), facts, seq, at, before=before)
            self.acts[call.turn, call.position] = act
        else:
            act.runs += 1
            act.after = None
        act.seq = seq

    def finish(self, fact: ToolFinished, seq: int) -> None:
        act = self.acts.get((fact.call.turn, fact.call.position))
        if act is not None:
            act.finished, act.seq = fact, seq

    def answer_late(self, fact: ToolAnsweredLate, seq: int) -> None:
        """What is known of the act is what its read-back says now, not what it said while the act was under way."""
        act = self.acts.get((fact.turn, fact.position))
        if act is not None and act.after != "yes":
            act.late, act.after, act.seq = fact, None, seq
            act.asks_again = act.facts.confirmable

    def check(self, fact: EffectChecked, seq: int, at: float) -> None:
        act = self.acts.get((fact.turn, fact.position))
        if act is not None and fact.phase == "after":
            act.after, act.after_at, act.seq = fact.answer, at, seq
            act.asks_again = False

    def forbids(self, call: Call, facts: ToolFacts) -> str | None:
        """Why this act must not be made again, in words for the model; None when it may."""
        if facts.repeatable or call.kind not in ("write", "message"):
            return None
        on = "" if call.target is None else f" on {call.target}"
        key = effect_key(call)
        if key in self.elsewhere:
            return f"refused: this exact {call.tool}{on} was already done for this task. Do not repeat it."
        for act in self.acts.values():
            if act.key == key and act.standing in HOLDS:
                state = (
                    "may already have taken effect" if act.standing in ("in-doubt", "pending") else "is already done"
                )
                return (
                    f"refused: this exact {call.tool}{on} {state} (step {act.started_seq}). "
                    "It was not run again. If nothing else is left to do, give your final answer."
                )
        return None

    def made_good(self, bad: Act) -> bool:
        """Whether a later act of the same tool on the same target is confirmed: the earlier try is history."""
        return any(
            act.standing == "confirmed" and act.call.tool == bad.call.tool and act.call.target == bad.call.target
            for act in self.acts.values()
            if act.started_seq > bad.started_seq
        )

    def open_acts(self) -> list[Act]:
        """Acts that are not confirmed and were not made good later."""
        return [act for act in self.acts.values() if act.standing != "confirmed" and not self.made_good(act)]

    def doubts(self) -> list[Act]:
        return [act for act in self.acts.values() if act.standing == "in-doubt"]

    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(
            Evidence("effect", act.name, "confirmed by a person" if act.ruled else "confirmed by read-back", act.seq)
            for act in self.acts.values()
            if act.standing == "confirmed"
        )

    def rule(self, answer: Literal["yes", "no"], seq: int) -> None:
        """A person says how the acts in doubt ended."""
        for act in self.doubts():
            act.ruled, act.seq = answer, seq

    def standing(self) -> tuple[str, ...]:
        """Keys of what was made or may have been made, for the other runs of the same root."""
        return tuple(sorted({act.key for act in self.acts.values() if act.standing in HOLDS} | self.elsewhere))
