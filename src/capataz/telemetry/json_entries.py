"""What one fact says in a log line: its name, its level, its fields. The schema is documented in `docs/telemetry.md`.

A line is for people with `grep` and for programs with a pipe: names are stable, a field that does not apply is left
out, nothing is nested deeper than the arguments of a call. Nothing here masks; whoever writes the line does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from capataz.events.facts import (
    JSON,
    AnswerRead,
    ApprovalAsked,
    BreakerClosed,
    BreakerOpened,
    Call,
    CapabilityLearned,
    CeilingReached,
    CheckEvaluated,
    ChildEnded,
    CompressionFailed,
    ConversationRecalled,
    EffectChecked,
    EscalationAnswered,
    Fact,
    Fault,
    HistoryCompressed,
    MessageReceived,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    ModelSwitched,
    OutputCapped,
    ResultsShortened,
    RunEnded,
    RunEscalated,
    RunLabelled,
    RunResumed,
    RunStarted,
    TickPassed,
    ToolAnsweredLate,
    ToolFailed,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    VerdictGiven,
    WaitEnded,
    WaitStarted,
)

Level: TypeAlias = Literal["debug", "info", "warning", "error"]
Fields: TypeAlias = dict[str, JSON]
Entry: TypeAlias = tuple[str, Level, Fields]
CONTENT = ("task", "text", "arguments", "result", "answer", "target", "shown")
"""Fields that hold what was said or asked; left out where content is off."""


def entry_of(fact: Fact) -> Entry:
    """(event, level, fields) of a fact. One this module does not know is told by its name alone."""
    tell = _TELL.get(type(fact))
    if tell is None:
        return type(fact).__name__, "info", {}
    event, level, fields = tell(fact)
    return event, level, {name: value for name, value in fields.items() if value is not None and value != ""}


def _started(f: RunStarted) -> Entry:
    versions = f.versions
    return "run.started", "info", {
        "task": f.task, "role": f.role, "model": f.model, "task_type": f.task_type, "conversation": f.conversation,
        "parent": f.parent, "source": f.source, "prompt_version": versions.prompt, "tools_version": versions.tools,
        "policy_version": versions.policy,
    }  # fmt: skip


def _ended(f: RunEnded) -> Entry:
    levels: Mapping[str, Level] = {"partial": "warning", "aborted": "error"}
    return "run.ended", levels.get(f.outcome, "info"), {
        "outcome": f.outcome, "reason": f.reason, "detail": f.detail, "answer": f.answer,
        "evidence": [proof.name for proof in f.evidence] or None, "missing": list(f.missing) or None,
        "no_action": f.no_action or None,
    }  # fmt: skip


def _escalated(f: RunEscalated) -> Entry:
    return "run.escalated", "warning", {
        "reason": f.reason, "detail": f.detail, "to": f.to, "answer": f.answer, "missing": list(f.missing) or None,
    }  # fmt: skip


def _resumed(f: RunResumed) -> Entry:
    return "run.resumed", "info", {"epoch": f.epoch, "reason": f.reason}


def _labelled(f: RunLabelled) -> Entry:
    return "run.labelled", "info", {"success": f.success, "by": f.by, "detail": f.detail}


def _said(f: MessageReceived) -> Entry:
    return "message.received", "info", {"role": f.role, "text": f.text}


def _asked(f: ModelCallStarted) -> Entry:
    return "model.called", "debug", {
        "turn": f.turn, "attempt": f.attempt, "model": f.model, "purpose": f.purpose, "endpoint": f.endpoint,
    }  # fmt: skip


def _replied(f: ModelReplied) -> Entry:
    usage = f.usage
    return "model.replied", "info", {
        "turn": f.turn, "attempt": f.attempt, "model": f.model, "purpose": f.purpose, "text": f.text, "stop": f.stop,
        "tools": [call.tool for call in f.calls], "seconds": _round(f.seconds), "first_byte": _round(f.first_byte),
        "input_tokens": usage.input, "output_tokens": usage.output, "cached_tokens": usage.cache_read or None,
        "money": None if usage.money is None else str(usage.money), "estimated": True if not usage.reported else None,
    }  # fmt: skip


def _model_failed(f: ModelCallFailed) -> Entry:
    return "model.failed", "warning", {
        "turn": f.turn, "attempt": f.attempt, "model": f.model, "purpose": f.purpose, "seconds": _round(f.seconds),
        **_fault(f.fault),
    }  # fmt: skip


def _tool_started(f: ToolStarted) -> Entry:
    return "tool.started", "info", {"turn": f.turn, "position": f.position, "tool": f.tool}


def _finished(f: ToolFinished) -> Entry:
    return "tool.finished", "warning" if f.error else "info", {
        **_call(f.call), "error": f.error, "in_doubt": f.in_doubt or None, "result": f.result, "child": f.child,
        "seconds": _round(f.seconds), **(_fault(f.fault) if f.fault is not None else {}),
    }  # fmt: skip


def _failed(f: ToolFailed) -> Entry:
    return "tool.failed", "warning", {
        **_call(f.call), "attempt": f.attempt, "in_doubt": f.in_doubt or None, "seconds": _round(f.seconds),
        **_fault(f.fault),
    }  # fmt: skip


def _refused(f: ToolRefused) -> Entry:
    return "tool.refused", "warning", {**_call(f.call), "reason": f.reason, "detail": f.message}


def _late(f: ToolAnsweredLate) -> Entry:
    return "tool.answered_late", "warning", {
        "turn": f.turn, "position": f.position, "tool": f.tool, "error": f.error, "result": f.result,
        "seconds": _round(f.seconds),
    }  # fmt: skip


def _effect(f: EffectChecked) -> Entry:
    level: Level = "warning" if f.phase == "after" and f.answer != "yes" else "info"
    return "effect.checked", level, {
        "turn": f.turn, "position": f.position, "phase": f.phase, "effect": f.answer, "detail": f.detail,
    }  # fmt: skip


def _child(f: ChildEnded) -> Entry:
    return "child.ended", "info", {
        "turn": f.turn, "position": f.position, "child": f.run, "child_agent": f.agent, "outcome": f.outcome,
        "input_tokens": f.spend.input_tokens, "output_tokens": f.spend.output_tokens,
    }  # fmt: skip


def _verdict(f: VerdictGiven) -> Entry:
    return "verdict.given", "info" if f.action == "observe" else "warning", {
        "turn": f.turn, "guard": f.guard, "kind": f.kind, "action": f.action, "detail": f.words,
        "evidence": list(f.evidence),
    }  # fmt: skip


def _check(f: CheckEvaluated) -> Entry:
    return "check.evaluated", "info", {"check": f.name, "passed": f.passed, "detail": f.detail}


def _ceiling(f: CeilingReached) -> Entry:
    return "ceiling.reached", "warning", {"ceiling": f.ceiling, "limit": f.limit, "used": f.used}


def _switched(f: ModelSwitched) -> Entry:
    return "model.switched", "warning", {"turn": f.turn, "model": f.model, "before": f.before, "reason": f.reason}


def _capped(f: OutputCapped) -> Entry:
    return "output.capped", "info", {"turn": f.turn, "cap": f.cap, "reason": f.reason}


def _waits(f: WaitStarted) -> Entry:
    return "wait.started", "info", {"turn": f.turn, "seconds": _round(f.seconds), "reason": f.reason}


def _waited(f: WaitEnded) -> Entry:
    return "wait.ended", "debug", {"turn": f.turn}


def _opened(f: BreakerOpened) -> Entry:
    return "breaker.opened", "warning", {
        "of": f.of, "name": f.name, "failures": f.failures, "seconds": _round(f.seconds), "reason": f.reason,
    }  # fmt: skip


def _closed(f: BreakerClosed) -> Entry:
    return "breaker.closed", "info", {"of": f.of, "name": f.name}


def _learned(f: CapabilityLearned) -> Entry:
    return "capability.learned", "warning", {"model": f.model, "parameter": f.parameter, "detail": f.advice}


def _compressed(f: HistoryCompressed) -> Entry:
    return "history.compressed", "info", {"turn": f.turn, "upto": f.upto}


def _uncompressed(f: CompressionFailed) -> Entry:
    return "history.compression_failed", "warning", {"turn": f.turn, "upto": f.upto, "reason": f.reason}


def _shortened(f: ResultsShortened) -> Entry:
    return "results.shortened", "info", {"turn": f.turn, "upto": f.upto}


def _recalled(f: ConversationRecalled) -> Entry:
    return "conversation.recalled", "info", {"messages": len(f.said)}


def _approval(f: ApprovalAsked) -> Entry:
    return "approval.asked", "warning", {
        "turn": f.turn, "position": f.position, "digest": f.digest, "shown": f.shown, "reason": f.reason,
    }  # fmt: skip


def _answered(f: EscalationAnswered) -> Entry:
    return "escalation.answered", "info", {"action": f.action, "by": f.by, "text": f.text}


def _read(f: AnswerRead) -> Entry:
    return "answer.read", "warning" if f.problem else "info", {"turn": f.turn, "detail": f.problem}


def _tick(f: TickPassed) -> Entry:
    return "tick.passed", "debug", {"waiting_for": f.waiting_for, "beat": f.beat}


def _call(call: Call) -> Fields:
    return {
        "turn": call.turn, "position": call.position, "tool": call.tool, "kind": call.kind, "target": call.target,
        "arguments": dict(call.arguments),
    }  # fmt: skip


def _fault(fault: Fault) -> Fields:
    return {"error_class": fault.row, "error_type": fault.reason, "detail": fault.message, "status": fault.status}


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


_TELL: Mapping[type, Callable[[Any], Entry]] = MappingProxyType(
    {
        RunStarted: _started,
        RunEnded: _ended,
        RunEscalated: _escalated,
        RunResumed: _resumed,
        RunLabelled: _labelled,
        MessageReceived: _said,
        ModelCallStarted: _asked,
        ModelReplied: _replied,
        ModelCallFailed: _model_failed,
        ModelSwitched: _switched,
        OutputCapped: _capped,
        ToolStarted: _tool_started,
        ToolFinished: _finished,
        ToolFailed: _failed,
        ToolRefused: _refused,
        ToolAnsweredLate: _late,
        EffectChecked: _effect,
        ChildEnded: _child,
        VerdictGiven: _verdict,
        CheckEvaluated: _check,
        CeilingReached: _ceiling,
        WaitStarted: _waits,
        WaitEnded: _waited,
        BreakerOpened: _opened,
        BreakerClosed: _closed,
        CapabilityLearned: _learned,
        HistoryCompressed: _compressed,
        CompressionFailed: _uncompressed,
        ResultsShortened: _shortened,
        ConversationRecalled: _recalled,
        ApprovalAsked: _approval,
        EscalationAnswered: _answered,
        AnswerRead: _read,
        TickPassed: _tick,
    }
)
