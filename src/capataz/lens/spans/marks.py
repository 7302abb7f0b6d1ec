"""What happens inside a span and is no span itself: verdicts, checks, waits, hops, approvals, compressions.

A verdict of the runtime's is told as `gen_ai.evaluation.result`, which viewers know how to show; for the rest the
conventions have no word, and it is told under our own names. Text that may hold a person's data passes through the
mask before it becomes an attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from capataz.events.facts import (
    JSON,
    AnswerRead,
    ApprovalAsked,
    BreakerClosed,
    BreakerOpened,
    CapabilityLearned,
    CeilingReached,
    CheckEvaluated,
    CompressionFailed,
    EffectChecked,
    EscalationAnswered,
    Event,
    HistoryCompressed,
    MessageReceived,
    ModelSwitched,
    OutputCapped,
    ResultsShortened,
    RunEscalated,
    RunLabelled,
    RunResumed,
    TickPassed,
    ToolAnsweredLate,
    ToolRefused,
    VerdictGiven,
    WaitStarted,
)
from capataz.lens.spans import names as n

Value: TypeAlias = "str | bool | int | float | tuple[str, ...] | tuple[int, ...]"
Attributes: TypeAlias = dict[str, Value]
Masking: TypeAlias = Callable[[JSON], JSON]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a moment, inside a span. `at` in seconds since the epoch."""

    name: str
    at: float
    attributes: Mapping[str, Value]


def mark_of(event: Event, mask: Masking) -> Mark | None:
    """The fact as an event of a span; None for facts that are spans, or parts of them."""
    tell = _MARKS.get(type(event.fact))
    if tell is None:
        return None
    name, attributes = tell(event.fact)
    for key in _TEXT:
        if key in attributes:
            attributes[key] = str(mask(str(attributes[key])))
    return Mark(name, event.at, attributes)


_TEXT = (n.EVALUATION_WHY, n.DETAIL)
"""Attributes that hold words, and with them perhaps more than words."""
Told: TypeAlias = "tuple[str, Attributes]"


def _verdict(fact: VerdictGiven) -> Told:
    return n.EVALUATION, {
        n.EVALUATION_NAME: f"capataz.{fact.guard}",
        n.EVALUATION_LABEL: fact.action,
        n.EVALUATION_WHY: fact.words,
        n.GUARD: fact.guard,
        n.VERDICT: fact.action,
        n.EVIDENCE: tuple(fact.evidence),
    }


def _check(fact: CheckEvaluated) -> Told:
    return n.EVALUATION, {
        n.EVALUATION_NAME: fact.name,
        n.EVALUATION_SCORE: 1.0 if fact.passed else 0.0,
        n.EVALUATION_LABEL: "pass" if fact.passed else "fail",
        n.EVALUATION_WHY: fact.detail,
    }


def _effect(fact: EffectChecked) -> Told:
    return "capataz.effect.checked", {
        "capataz.effect.phase": fact.phase,
        "capataz.effect.answer": fact.answer,
        n.TURN_NUMBER: fact.turn,
        "capataz.tool.position": fact.position,
    }


def _wait(fact: WaitStarted) -> Told:
    return "capataz.wait", {n.SECONDS: float(fact.seconds), n.DETAIL: fact.reason}


def _switched(fact: ModelSwitched) -> Told:
    return "capataz.model.switched", {n.REQUEST_MODEL: fact.model, n.DETAIL: f"before: {fact.before}; {fact.reason}"}


def _capped(fact: OutputCapped) -> Told:
    return "capataz.output.capped", {"capataz.output.cap": fact.cap, n.DETAIL: fact.reason}


def _opened(fact: BreakerOpened) -> Told:
    told: Attributes = {"capataz.breaker.of": fact.of, "capataz.breaker.failures": fact.failures}
    return "capataz.breaker.opened", {**told, n.SECONDS: float(fact.seconds), n.DETAIL: f"{fact.name}: {fact.reason}"}


def _closed(fact: BreakerClosed) -> Told:
    return "capataz.breaker.closed", {"capataz.breaker.of": fact.of, n.DETAIL: fact.name}


def _learned(fact: CapabilityLearned) -> Told:
    return "capataz.capability.learned", {n.REQUEST_MODEL: fact.model, n.DETAIL: fact.parameter}


def _refused(fact: ToolRefused) -> Told:
    return "capataz.tool.refused", {
        n.TOOL_NAME: fact.call.tool,
        "capataz.tool.refused.reason": fact.reason,
        n.TURN_NUMBER: fact.call.turn,
        "capataz.tool.position": fact.call.position,
    }


def _late(fact: ToolAnsweredLate) -> Told:
    return "capataz.tool.answered_late", {n.TOOL_NAME: fact.tool, n.SECONDS: float(fact.seconds)}


def _ceiling(fact: CeilingReached) -> Told:
    return "capataz.ceiling.reached", {
        "capataz.ceiling": fact.ceiling,
        "capataz.ceiling.limit": float(fact.limit),
        "capataz.ceiling.used": float(fact.used),
    }


def _compressed(fact: HistoryCompressed) -> Told:
    return "capataz.history.compressed", {"capataz.history.upto": fact.upto}


def _not_compressed(fact: CompressionFailed) -> Told:
    return "capataz.history.compression_failed", {n.DETAIL: fact.reason}


def _shortened(fact: ResultsShortened) -> Told:
    return "capataz.results.shortened", {"capataz.history.upto": fact.upto}


def _asked(fact: ApprovalAsked) -> Told:
    return "capataz.approval.asked", {"capataz.approval.digest": fact.digest, n.DETAIL: fact.reason}


def _escalated(fact: RunEscalated) -> Told:
    return "capataz.run.escalated", {n.REASON: fact.reason, "capataz.escalated.to": fact.to, n.DETAIL: fact.detail}


def _answered(fact: EscalationAnswered) -> Told:
    return "capataz.escalation.answered", {"capataz.answer.action": fact.action}


def _resumed(fact: RunResumed) -> Told:
    return "capataz.run.resumed", {"capataz.lease.epoch": fact.epoch, n.DETAIL: fact.reason}


def _tick(fact: TickPassed) -> Told:
    return "capataz.tick", {n.WAITING_FOR: fact.waiting_for}


def _said(fact: MessageReceived) -> Told:
    return "capataz.message.received", {"capataz.message.role": fact.role}


def _read(fact: AnswerRead) -> Told:
    return "capataz.answer.read", {"capataz.answer.valid": not fact.problem}


def _labelled(fact: RunLabelled) -> Told:
    known: Attributes = {} if fact.success is None else {n.EVALUATION_SCORE: 1.0 if fact.success else 0.0}
    label = "unknown" if fact.success is None else "pass" if fact.success else "fail"
    return n.EVALUATION, {n.EVALUATION_NAME: "capataz.label", n.EVALUATION_LABEL: label, **known}


_MARKS: Mapping[type, Callable[[Any], Told]] = MappingProxyType(
    {
        VerdictGiven: _verdict,
        CheckEvaluated: _check,
        EffectChecked: _effect,
        WaitStarted: _wait,
        ModelSwitched: _switched,
        OutputCapped: _capped,
        BreakerOpened: _opened,
        BreakerClosed: _closed,
        CapabilityLearned: _learned,
        ToolRefused: _refused,
        ToolAnsweredLate: _late,
        CeilingReached: _ceiling,
        HistoryCompressed: _compressed,
        CompressionFailed: _not_compressed,
        ResultsShortened: _shortened,
        ApprovalAsked: _asked,
        RunEscalated: _escalated,
        EscalationAnswered: _answered,
        RunResumed: _resumed,
        TickPassed: _tick,
        MessageReceived: _said,
        AnswerRead: _read,
        RunLabelled: _labelled,
    }
)
