"""A trace as plain JSON values, for programs: `show --json` and the HTTP API say the same, from here."""

from __future__ import annotations

import json
from collections.abc import Iterable

from capataz.events.codec import encode
from capataz.events.facts import JSON, Event, Evidence, Fault, Spend, Usage
from capataz.lens.trace.fold import CallView, Trace, TurnView


def trace_json(tree: Trace) -> dict[str, JSON]:
    """The whole tree. Times in seconds since the epoch, durations in seconds, money in dollars as text."""
    run, ending = tree.run, tree.ending
    return {
        "run_id": run.run if run is not None else "",
        "agent": run.agent if run is not None else "",
        "task": run.task if run is not None else "",
        "role": run.role if run is not None else "acting",
        "model": run.model if run is not None else "",
        "source": run.source if run is not None else "",
        "parent": run.parent if run is not None else None,
        "status": tree.status,
        "outcome": tree.outcome,
        "reason": ending.reason if ending is not None else "",
        "detail": ending.detail if ending is not None else "",
        "answer": ending.answer if ending is not None else "",
        "missing": list(ending.missing) if ending is not None else [],
        "evidence": evidence_json(ending.evidence) if ending is not None else [],
        "started_at": tree.started_at,
        "usage": spend_json(tree.spend),
        "warnings": list(tree.warnings),
        "signals": signals_json(tree),
        "events": tree.events,
        "opening": _marks(tree.opening),
        "turns": [_turn(turn) for turn in tree.turns],
    }


def signals_json(tree: Trace) -> list[JSON]:
    """What went wrong on the way, under the names of the metrics; `first` is a sequence number."""
    return [signal.json() for signal in tree.signals.found.values()]


def evidence_json(proofs: Iterable[Evidence]) -> list[JSON]:
    """Proofs, each with its place in the log."""
    return [{"what": e.what, "name": e.name, "detail": e.detail, "seq": e.seq} for e in proofs]


def spend_json(spend: Spend) -> dict[str, JSON]:
    """What was used. `money` is text, so that no cent is rounded; null when a price is not known."""
    return {
        "turns": spend.turns,
        "calls": spend.calls,
        "tokens": spend.tokens,
        "input_tokens": spend.input_tokens,
        "output_tokens": spend.output_tokens,
        "money": None if spend.money is None else str(spend.money),
        "seconds": round(spend.seconds, 3),
    }


def _turn(turn: TurnView) -> JSON:
    reply = turn.reply
    return {
        "turn": turn.number,
        "purpose": turn.purpose,
        "tries": turn.tries,
        "model": reply.model if reply is not None else "",
        "text": reply.text if reply is not None else "",
        "thinking": reply.thinking if reply is not None else "",
        "stop": reply.stop if reply is not None else "",
        "seconds": reply.seconds if reply is not None else None,
        "first_byte": reply.first_byte if reply is not None else None,
        "usage": _usage(reply.usage) if reply is not None else None,
        "calls": [_call(call) for call in turn.calls],
        "marks": _marks(turn.marks),
    }


def _usage(usage: Usage) -> dict[str, JSON]:
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "reasoning": usage.reasoning,
        "money": None if usage.money is None else str(usage.money),
        "reported": usage.reported,
    }


def _call(view: CallView) -> JSON:
    return {
        "position": view.call.position,
        "id": view.call.id,
        "tool": view.call.tool,
        "kind": view.call.kind,
        "target": view.call.target,
        "arguments": dict(view.call.arguments),
        "state": view.state,
        "result": view.result,
        "seconds": view.seconds,
        "refusal": view.refusal,
        "fault": _fault(view.fault),
        "effects": [{"phase": e.phase, "answer": e.answer, "detail": e.detail} for e in view.effects],
        "child": view.child,
        "child_outcome": view.child_outcome,
        "seqs": list(view.seqs),
    }


def _fault(fault: Fault | None) -> JSON:
    if fault is None:
        return None
    return {"row": fault.row, "reason": fault.reason, "message": fault.message, "status": fault.status}


def _marks(marks: Iterable[Event]) -> list[JSON]:
    """Judgements, failures and waits as the log has them, each with its place and time."""
    return [{"seq": mark.seq, "at": mark.at, **json.loads(encode(mark))} for mark in marks]
