"""Bringing the state forward, one event at a time. Nothing else changes a state.

Folding the same events gives the same state, whoever folds them and whenever: that is what makes a crash survivable
and a recorded run replayable. A state is owned by whoever folds it: `evolve` changes it in place and gives it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from capataz.events.facts import (
    JSON,
    AnswerRead,
    ApprovalAsked,
    Call,
    CeilingReached,
    CheckEvaluated,
    ChildEnded,
    CompressionFailed,
    ConversationRecalled,
    EffectChecked,
    EscalationAnswered,
    Event,
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
    RunResumed,
    RunStarted,
    Spend,
    ToolAnsweredLate,
    ToolFacts,
    ToolFailed,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    VerdictGiven,
    WaitEnded,
    WaitStarted,
)
from capataz.kernel.state import CallView, Rules, State

MESSAGE_BYTES = 64
"""What a message costs on the wire beside its text, at most."""


def begin(rules: Rules) -> State:
    """The state before anything happened."""
    return State(rules, rules.watch.start())


def fold(rules: Rules, events: Iterable[Event]) -> State:
    """The state after these events, from the beginning of a log."""
    state = begin(rules)
    for event in events:
        evolve(state, event)
    return state


def evolve(state: State, event: Event) -> State:
    """Bring the state forward by one event. It takes the state over and returns it."""
    if isinstance(event.fact, RunResumed | EscalationAnswered):
        state.paused += max(0.0, event.at - state.now)
    state.seq, state.now = event.seq, event.at
    state.transcript.fold(event)
    state.watched, signals = state.rules.watch.step(state.watched, event)
    if signals:
        state.signals.extend(signals)
    step = _FOLDS.get(type(event.fact))
    if step is not None:
        step(state, event, event.fact)
    return state


def _size(text: str) -> int:
    """Bytes of a text on the wire, whatever it holds."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────


def _run_started(state: State, event: Event, fact: RunStarted) -> None:
    state.started, state.started_at = fact, event.at
    state.tools = {tool.name: tool for tool in fact.tools}
    state.ledger.elsewhere.update(fact.standing)
    state.versions = fact.versions
    state.prompt_bound = fact.overhead + _size(fact.task) + MESSAGE_BYTES
    state.context_tokens = (fact.overhead + len(fact.task)) // 4


def _run_resumed(state: State, event: Event, fact: RunResumed) -> None:
    state.versions = fact.versions or state.versions
    state.ledger.elsewhere.update(fact.standing)
    for view in state.calls.values():
        if view.stage == "started" and not view.call.acting:
            view.stage = "asked"


def _message_received(state: State, event: Event, fact: MessageReceived) -> None:
    state.prompt_bound += _size(fact.text) + MESSAGE_BYTES
    if fact.role == "user":
        state.rejected.clear()


def _run_escalated(state: State, event: Event, fact: RunEscalated) -> None:
    state.escalated = fact


def _run_ended(state: State, event: Event, fact: RunEnded) -> None:
    state.ended = fact


# ── the model ────────────────────────────────────────────────────────────────────────────────────────────


def _model_call_started(state: State, event: Event, fact: ModelCallStarted) -> None:
    if fact.purpose == "loop":
        state.attempt, state.failure = fact.attempt, None
    elif fact.purpose == "closing":
        state.closing = "asked"


def _model_replied(state: State, event: Event, fact: ModelReplied) -> None:
    _spend(state, fact)
    if fact.purpose == "loop":
        state.turn, state.reply, state.reply_seq = fact.turn, fact, event.seq
        state.failure, state.attempt, state.turn_failed = None, 0, False
        state.context_retried = False
        state.calls = {call.position: CallView(call) for call in fact.calls}
    elif fact.purpose == "closing":
        state.closing = "over"
    if fact.purpose in ("loop", "closing") and fact.text.strip() and not fact.written:
        state.answer, state.answer_turn = fact.text.strip(), fact.turn


def _spend(state: State, fact: ModelReplied) -> None:
    usage = fact.usage
    state.spend_input += usage.input
    state.spend_output += usage.output
    if usage.money is None:
        state.spend_money = None
    elif state.spend_money is not None:
        state.spend_money += usage.money
    if fact.purpose == "loop" and usage.reported and usage.input > 0:
        state.prompt_bound = usage.tokens + MESSAGE_BYTES
        state.context_tokens = usage.tokens
    elif fact.purpose in ("loop", "closing"):  # a summary or a judgement is no part of the history
        said = _size(fact.text) + sum(len(str(call.arguments)) + MESSAGE_BYTES for call in fact.calls)
        state.prompt_bound += said + MESSAGE_BYTES
        state.context_tokens += said // 4


def _model_call_failed(state: State, event: Event, fact: ModelCallFailed) -> None:
    if fact.purpose == "loop" and fact.fault.reason == "context-too-long" and not state.context_retried:
        state.context_refused = state.context_retried = True
    elif fact.purpose == "loop":
        state.failure, state.attempt = fact, fact.attempt
    elif fact.purpose == "closing":
        state.closing = "over"


def _model_switched(state: State, event: Event, fact: ModelSwitched) -> None:
    state.model += 1
    state.failure, state.attempt = None, 0


def _output_capped(state: State, event: Event, fact: OutputCapped) -> None:
    state.cap, state.failure = fact.cap, None


def _wait_started(state: State, event: Event, fact: WaitStarted) -> None:
    state.waiting = (event.at + fact.seconds, fact.turn)


def _wait_ended(state: State, event: Event, fact: WaitEnded) -> None:
    state.waiting = None
    if state.failure is not None:
        state.failure, state.attempt = None, state.attempt + 1
    for view in state.calls.values():
        if view.stage == "failed":
            view.stage = "probed" if view.call.acting else "asked"


# ── the tools ────────────────────────────────────────────────────────────────────────────────────────────


def _tool_refused(state: State, event: Event, fact: ToolRefused) -> None:
    if (view := _view(state, fact.call.turn, fact.call.position)) is not None:
        view.stage = "done"
    state.prompt_bound += _size(fact.message) + MESSAGE_BYTES
    state.found_done = state.found_done or fact.reason == "ledger"


def _tool_started(state: State, event: Event, fact: ToolStarted) -> None:
    view = _view(state, fact.turn, fact.position)
    if view is None:
        return
    state.used_calls += 1
    view.stage = "started"
    if view.call.acting:
        facts = state.tools.get(view.call.tool) or ToolFacts(view.call.tool, view.call.kind)
        state.ledger.start(view.call, facts, event.seq, event.at, view.before)


def _tool_finished(state: State, event: Event, fact: ToolFinished) -> None:
    state.ledger.finish(fact, event.seq)
    text = fact.result if isinstance(fact.result, str) else str(fact.result)
    state.prompt_bound += _size(text) + MESSAGE_BYTES
    state.context_tokens += len(text) // 4
    if not fact.error:
        state.tool_faults.pop(fact.call.tool, None)
    elif fact.fault is not None:
        state.tool_faults[fact.call.tool] = (fact.fault, event.seq)
    if not fact.error:
        state.last_results = [*state.last_results[-2:], f"{fact.call.tool}: {text[:400]}"]
    view = _view(state, fact.call.turn, fact.call.position)
    if view is None:
        return
    view.finished = fact
    act = state.ledger.acts.get((fact.call.turn, fact.call.position))
    asked = act is not None and act.facts.confirmable and not act.answered
    view.stage = "returned" if asked else "done"


def _tool_failed(state: State, event: Event, fact: ToolFailed) -> None:
    if (view := _view(state, fact.call.turn, fact.call.position)) is not None:
        view.stage, view.failed, view.tries = "failed", fact, fact.attempt + 1


def _tool_answered_late(state: State, event: Event, fact: ToolAnsweredLate) -> None:
    state.ledger.answer_late(fact, event.seq)
    size = len(str(fact.result).encode()) + 3 * MESSAGE_BYTES
    state.prompt_bound += size
    state.context_tokens += size // 4


def _effect_checked(state: State, event: Event, fact: EffectChecked) -> None:
    state.ledger.check(fact, event.seq, event.at)
    view = _view(state, fact.turn, fact.position)
    if fact.phase == "after" and fact.answer == "yes":
        state.claims = 0
    if view is None:
        return
    if fact.phase == "before":
        view.before, view.stage = fact.answer, "probed"
        return
    act = state.ledger.acts.get((fact.turn, fact.position))
    if act is not None and act.answered and view.finished is not None:
        view.stage = "done"


def _child_ended(state: State, event: Event, fact: ChildEnded) -> None:
    state.child_spend = _add(state.child_spend, fact.spend)
    state.ledger.elsewhere.update(fact.standing)


def _view(state: State, turn: int, position: int) -> CallView | None:
    """The call of the present turn at this position; a call of an earlier turn is settled and stays so."""
    return state.calls.get(position) if turn == state.turn else None


# ── the judgements ───────────────────────────────────────────────────────────────────────────────────────


def _check_evaluated(state: State, event: Event, fact: CheckEvaluated) -> None:
    state.checks[fact.name], state.check_seq[fact.name] = fact, event.seq


def _verdict_given(state: State, event: Event, fact: VerdictGiven) -> None:
    state.signals = [signal for signal in state.signals if signal.identity != fact.identity]
    state.prompt_bound += _size(fact.note) + MESSAGE_BYTES if fact.note else 0
    if fact.action in ("nudge", "fail-turn"):
        state.heard[fact.identity] = fact.turn
    if fact.action == "fail-turn":
        state.turn_failed = True
        state.claims += 1
    elif fact.action in ("stop", "escalate"):
        state.stop = fact


def _ceiling_reached(state: State, event: Event, fact: CeilingReached) -> None:
    state.ceiling = fact


def _history_compressed(state: State, event: Event, fact: HistoryCompressed) -> None:
    state.compress_tried = fact.upto
    _measure(state)


def _compression_failed(state: State, event: Event, fact: CompressionFailed) -> None:
    state.compress_tried = fact.upto


def _results_shortened(state: State, event: Event, fact: ResultsShortened) -> None:
    _measure(state)


def _conversation_recalled(state: State, event: Event, fact: ConversationRecalled) -> None:
    said = [*(item.text for item in fact.said), fact.summary]
    state.prompt_bound += sum(_size(text) + MESSAGE_BYTES for text in said)
    state.context_tokens += sum(len(text) for text in said) // 4


def _measure(state: State) -> None:
    """The history was made shorter: its size has to be estimated anew, from its characters and bytes."""
    overhead = state.started.overhead if state.started is not None else 0
    messages = state.transcript.messages
    texts = [message.text + "".join(str(call.arguments) for call in message.calls) for message in messages]
    state.context_tokens = (overhead + sum(len(text) for text in texts)) // 4
    state.prompt_bound = overhead + sum(_size(text) + MESSAGE_BYTES for text in texts)
    state.context_refused = False


def _approval_asked(state: State, event: Event, fact: ApprovalAsked) -> None:
    state.asked = fact.digest


def _answer_read(state: State, event: Event, fact: AnswerRead) -> None:
    state.read = fact
    state.misread += 1 if fact.problem else 0


def _escalation_answered(state: State, event: Event, fact: EscalationAnswered) -> None:
    """Somebody decided: what stood in the way is taken away, and the run goes on from where it was."""
    state.escalated, state.stop, state.failure = None, None, None
    state.attempt, state.claims = 0, 0
    state.answered_seq, state.asked = event.seq, ""
    if fact.by == "supervisor":
        state.supervisions += 1
    waiting = next((view for _, view in sorted(state.calls.items()) if view.stage != "done"), None)
    match fact.action:
        case "approve":
            state.approved.add(fact.digest)
        case "reject" if waiting is not None:
            state.rejected[waiting.call.tool, waiting.call.target] = fact.text
        case "correct" if waiting is not None and fact.arguments is not None:
            waiting.call = _corrected(state, waiting.call, fact.arguments)
        case "answer":
            state.turn_failed = True
            state.tool_faults.clear()
            state.prompt_bound += _size(fact.text) + MESSAGE_BYTES
        case "happened" | "not-happened":
            state.ledger.rule("yes" if fact.action == "happened" else "no", event.seq)
        case "abort":
            state.abort = fact.text
        case _:
            pass


def _corrected(state: State, call: Call, arguments: Mapping[str, JSON]) -> Call:
    """The call with a person's arguments: that person has approved it as it is now."""
    facts = state.tools.get(call.tool)
    name = facts.target if facts is not None else None
    target = str(arguments[name]) if name is not None and name in arguments else call.target
    return replace(call, arguments=dict(arguments), target=target, approval="", problem=None, fault=None)


def _add(a: Spend, b: Spend) -> Spend:
    return Spend(
        a.turns + b.turns,
        a.calls + b.calls,
        a.input_tokens + b.input_tokens,
        a.output_tokens + b.output_tokens,
        None if a.money is None or b.money is None else a.money + b.money,
        max(a.seconds, b.seconds),
    )


_FOLDS: Mapping[type, Callable[[State, Event, Any], None]] = MappingProxyType(
    {
        RunStarted: _run_started,
        RunResumed: _run_resumed,
        MessageReceived: _message_received,
        RunEscalated: _run_escalated,
        RunEnded: _run_ended,
        ModelCallStarted: _model_call_started,
        ModelReplied: _model_replied,
        ModelCallFailed: _model_call_failed,
        WaitStarted: _wait_started,
        WaitEnded: _wait_ended,
        ToolRefused: _tool_refused,
        ToolStarted: _tool_started,
        ToolFinished: _tool_finished,
        ToolFailed: _tool_failed,
        ToolAnsweredLate: _tool_answered_late,
        EffectChecked: _effect_checked,
        ChildEnded: _child_ended,
        CheckEvaluated: _check_evaluated,
        VerdictGiven: _verdict_given,
        CeilingReached: _ceiling_reached,
        ModelSwitched: _model_switched,
        OutputCapped: _output_capped,
        HistoryCompressed: _history_compressed,
        CompressionFailed: _compression_failed,
        ResultsShortened: _results_shortened,
        ConversationRecalled: _conversation_recalled,
        ApprovalAsked: _approval_asked,
        AnswerRead: _answer_read,
        EscalationAnswered: _escalation_answered,
    }
)
