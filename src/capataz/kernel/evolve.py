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
from capataz.kernel.state import Rules, State
from capataz.kernel.state.turn import begun


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
        state.judgement.signals.extend(signals)
    step = _FOLDS.get(type(event.fact))
    if step is not None:
        step(state, event, event.fact)
    return state


# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────


def _run_started(state: State, event: Event, fact: RunStarted) -> None:
    state.started, state.started_at = fact, event.at
    state.versions = fact.versions
    state.tools = {tool.name: tool for tool in fact.tools}
    state.ledger.elsewhere.update(fact.standing)
    state.prompt.begin(fact.overhead, fact.task)


def _run_resumed(state: State, event: Event, fact: RunResumed) -> None:
    state.versions = fact.versions or state.versions
    if fact.tools:
        state.tools = {tool.name: tool for tool in fact.tools}
    state.ledger.elsewhere.update(fact.standing)
    for view in state.turn.calls.values():
        if view.stage == "started" and not view.call.acting:
            view.repeat()
        elif view.stage == "probed" and (view.call.turn, view.call.position) not in state.ledger.acts:
            view.ask_again()


def _message_received(state: State, event: Event, fact: MessageReceived) -> None:
    state.prompt.add(fact.text)
    if fact.role == "user":
        state.people.rejected.clear()


def _child_ended(state: State, event: Event, fact: ChildEnded) -> None:
    state.spent.add_child(fact.spend)
    state.ledger.elsewhere.update(fact.standing)


def _run_ended(state: State, event: Event, fact: RunEnded) -> None:
    state.ended = fact


# ── the model ────────────────────────────────────────────────────────────────────────────────────────────


def _model_call_started(state: State, event: Event, fact: ModelCallStarted) -> None:
    if fact.purpose == "loop":
        state.asking.attempt, state.asking.failure = fact.attempt, None
    elif fact.purpose == "closing":
        state.answer.closing = "asked"


def _model_replied(state: State, event: Event, fact: ModelReplied) -> None:
    state.spent.use(fact.usage)
    state.prompt.reply(fact)
    if fact.purpose == "loop":
        state.turn = begun(fact, event.seq)
        state.asking.afresh()
        state.answer.hear(fact)
    elif fact.purpose == "closing":
        state.answer.closing = "over"
        state.answer.hear(fact)


def _model_call_failed(state: State, event: Event, fact: ModelCallFailed) -> None:
    if fact.purpose == "closing":
        state.answer.closing = "over"
    elif fact.purpose == "loop" and fact.fault.reason == "context-too-long" and not state.prompt.retried:
        state.prompt.refused = state.prompt.retried = True
    elif fact.purpose == "loop":
        state.asking.attempt, state.asking.failure = fact.attempt, fact


def _model_switched(state: State, event: Event, fact: ModelSwitched) -> None:
    state.asking.model += 1
    state.asking.afresh()


def _output_capped(state: State, event: Event, fact: OutputCapped) -> None:
    state.asking.cap, state.asking.failure = fact.cap, None


def _wait_started(state: State, event: Event, fact: WaitStarted) -> None:
    state.waiting = (event.at + fact.seconds, fact.turn)


def _wait_ended(state: State, event: Event, fact: WaitEnded) -> None:
    state.waiting = None
    if state.asking.failure is not None:
        state.asking.attempt, state.asking.failure = state.asking.attempt + 1, None
    for view in state.turn.calls.values():
        if view.stage == "failed":
            view.repeat()


# ── the tools ────────────────────────────────────────────────────────────────────────────────────────────


def _tool_refused(state: State, event: Event, fact: ToolRefused) -> None:
    if (view := state.turn.view(fact.call.turn, fact.call.position)) is not None:
        view.stage = "done"
    state.prompt.add(fact.message)
    state.ledger.found_done = state.ledger.found_done or fact.reason == "ledger"


def _tool_started(state: State, event: Event, fact: ToolStarted) -> None:
    view = state.turn.view(fact.turn, fact.position)
    if view is None:
        return
    state.spent.calls += 1
    view.stage = "started"
    if view.call.acting:
        facts = state.tools.get(view.call.tool) or ToolFacts(view.call.tool, view.call.kind)
        state.ledger.start(view.call, facts, event.seq, event.at, view.before)


def _tool_finished(state: State, event: Event, fact: ToolFinished) -> None:
    state.ledger.finish(fact, event.seq)
    text = fact.result if isinstance(fact.result, str) else str(fact.result)
    state.prompt.add(text)
    if not fact.error:
        state.answer.keep(fact, text)
        state.tool_faults.pop(fact.call.tool, None)
    elif fact.fault is not None:
        state.tool_faults[fact.call.tool] = (fact.fault, event.seq)
    if (view := state.turn.view(fact.call.turn, fact.call.position)) is not None:
        view.finished = fact
        act = state.ledger.acts.get((fact.call.turn, fact.call.position))
        asked = act is not None and act.facts.confirmable and not act.answered
        view.stage = "returned" if asked else "done"


def _tool_failed(state: State, event: Event, fact: ToolFailed) -> None:
    if (view := state.turn.view(fact.call.turn, fact.call.position)) is not None:
        view.stage, view.failed, view.tries = "failed", fact, fact.attempt + 1


def _tool_answered_late(state: State, event: Event, fact: ToolAnsweredLate) -> None:
    state.ledger.answer_late(fact, event.seq)
    state.prompt.add(str(fact.result), messages=3)


def _effect_checked(state: State, event: Event, fact: EffectChecked) -> None:
    state.ledger.check(fact, event.seq, event.at)
    if fact.phase == "after" and fact.answer == "yes":
        state.judgement.claims = 0
    view = state.turn.view(fact.turn, fact.position)
    if view is None:
        return
    if fact.phase == "before":
        view.before, view.stage = fact.answer, "probed"
        return
    act = state.ledger.acts.get((fact.turn, fact.position))
    if act is not None and act.answered and view.finished is not None:
        view.stage = "done"


# ── the judgements ───────────────────────────────────────────────────────────────────────────────────────


def _check_evaluated(state: State, event: Event, fact: CheckEvaluated) -> None:
    state.checks.evaluate(fact, event.seq)


def _verdict_given(state: State, event: Event, fact: VerdictGiven) -> None:
    state.judgement.give(fact)
    if fact.action == "fail-turn":
        state.turn.failed = True
    if fact.note:
        state.prompt.add(fact.note)


def _ceiling_reached(state: State, event: Event, fact: CeilingReached) -> None:
    state.judgement.ceiling = fact


def _answer_read(state: State, event: Event, fact: AnswerRead) -> None:
    state.answer.validate(fact)


# ── what is remembered ───────────────────────────────────────────────────────────────────────────────────


def _history_compressed(state: State, event: Event, fact: HistoryCompressed) -> None:
    state.prompt.tried = fact.upto
    state.prompt.measure(state.transcript.messages)


def _compression_failed(state: State, event: Event, fact: CompressionFailed) -> None:
    state.prompt.tried = fact.upto


def _results_shortened(state: State, event: Event, fact: ResultsShortened) -> None:
    state.prompt.measure(state.transcript.messages)


def _conversation_recalled(state: State, event: Event, fact: ConversationRecalled) -> None:
    for text in (*(item.text for item in fact.said), fact.summary):
        state.prompt.add(text)


# ── the people ───────────────────────────────────────────────────────────────────────────────────────────


def _approval_asked(state: State, event: Event, fact: ApprovalAsked) -> None:
    state.people.asked = fact.digest


def _run_escalated(state: State, event: Event, fact: RunEscalated) -> None:
    state.escalated = fact


def _escalation_answered(state: State, event: Event, fact: EscalationAnswered) -> None:
    """Somebody decided: what stood in the way is taken away, and the run goes on from where it was."""
    state.escalated = None
    state.judgement.stop, state.judgement.claims = None, 0
    state.asking.afresh()
    state.people.decided(fact, event.seq)
    waiting = next(iter(state.turn.unsettled), None)
    match fact.action:
        case "reject" if waiting is not None:
            state.people.rejected[waiting.call.tool, waiting.call.target] = fact.text
        case "correct" if waiting is not None and fact.arguments is not None:
            waiting.call = _corrected(state, waiting.call, fact.arguments)
        case "answer":
            state.turn.failed = True
            state.tool_faults.clear()
            state.prompt.add(fact.text)
        case "happened" | "not-happened":
            state.ledger.rule("yes" if fact.action == "happened" else "no", event.seq)
        case _:
            pass


def _corrected(state: State, call: Call, arguments: Mapping[str, JSON]) -> Call:
    """The call with a person's arguments: that person has approved it as it is now."""
    facts = state.tools.get(call.tool)
    name = facts.target if facts is not None else None
    target = str(arguments[name]) if name is not None and name in arguments else call.target
    return replace(call, arguments=dict(arguments), target=target, approval="", problem=None, fault=None)


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
