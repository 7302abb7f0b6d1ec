"""What the kernel knows: the fold of a log.

`evolve` takes one event and brings the state forward; it is the only thing that does. Folding the same events gives
the same state, whoever folds them and whenever: that is what makes a crash survivable and a recorded run replayable.
A state is owned by whoever folds it: `evolve` changes it in place and gives it back. It is never stored as truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol

from capataz.events.facts import (
    Call,
    CeilingReached,
    Ceilings,
    CheckEvaluated,
    ChildEnded,
    EffectChecked,
    Event,
    MessageReceived,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunResumed,
    RunStarted,
    Spend,
    ToolFacts,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    VerdictGiven,
    WaitEnded,
    WaitStarted,
)
from capataz.guards.base import Signal
from capataz.kernel.ledger import Ledger
from capataz.memory.transcript import Transcript
from capataz.policy.policy import Policy


class Watching(Protocol):
    """Guards fed together. `capataz.guards.watch.Watch` is the one that is used."""

    def start(self) -> Any: ...
    def step(self, state: Any, event: Event, /) -> tuple[Any, tuple[Signal, ...]]: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What a run is judged by: fixed when it starts (or is replayed), never part of the log."""

    policy: Policy
    watch: Watching


CallStage = Literal["asked", "probed", "started", "returned", "done"]


@dataclass(slots=True)
class CallView:
    """How far one call of the present turn has come."""

    call: Call
    stage: CallStage = "asked"
    before: str | None = None
    finished: ToolFinished | None = None
    started_at: float = 0.0


@dataclass(slots=True)
class State:
    """Everything `decide` may look at."""

    rules: Rules
    watched: Any
    started: RunStarted | None = None
    started_at: float = 0.0
    now: float = 0.0
    seq: int = -1
    """Position of the newest event."""
    transcript: Transcript = field(default_factory=Transcript)
    ledger: Ledger = field(default_factory=Ledger)
    tools: Mapping[str, ToolFacts] = field(default_factory=dict[str, ToolFacts])

    turn: int = 0
    """Number of the newest turn; the first is 1."""
    attempt: int = 0
    calls: dict[int, CallView] = field(default_factory=dict[int, CallView])
    """Calls of the present turn by position."""
    reply: ModelReplied | None = None
    """Newest reply of the loop; None before the first one."""
    reply_seq: int = -1
    failure: ModelCallFailed | None = None
    """The newest model call failed and nothing was decided about it yet."""
    waiting: tuple[float, int] | None = None
    """(until, turn): a pause that was begun and has not ended."""

    signals: list[Signal] = field(default_factory=list[Signal])
    """Noticed and not judged yet."""
    heard: dict[str, int] = field(default_factory=dict[str, int])
    """Loop identities the model was told of, and in which turn."""
    claims: int = 0
    """Failed turns since the last act that was confirmed."""
    turn_failed: bool = False
    stop: VerdictGiven | None = None
    ceiling: CeilingReached | None = None
    closing: Literal["none", "asked", "over"] = "none"

    answer: str = ""
    answer_turn: int | None = None
    checks: dict[str, CheckEvaluated] = field(default_factory=dict[str, CheckEvaluated])
    check_seq: dict[str, int] = field(default_factory=dict[str, int])
    last_results: list[str] = field(default_factory=list[str])

    used_calls: int = 0
    prompt_bound: int = 0
    spend_input: int = 0
    spend_output: int = 0
    spend_money: Decimal | None = Decimal(0)
    child_spend: Spend = field(default_factory=Spend)

    ended: RunEnded | None = None
    escalated: RunEscalated | None = None

    @property
    def ceilings(self) -> Ceilings:
        return self.started.ceilings if self.started is not None else Ceilings()

    @property
    def acting(self) -> bool:
        return self.started is not None and self.started.role == "acting"

    @property
    def over(self) -> bool:
        return self.ended is not None or self.escalated is not None

    @property
    def claim(self) -> ModelReplied | None:
        """The newest reply, where it asked for no call and was not sent back: the model thinks it is done."""
        reply = self.reply
        return reply if reply is not None and not reply.calls and not self.turn_failed else None

    @property
    def spend(self) -> Spend:
        """What this run and its children have used so far."""
        child = self.child_spend
        money = None if self.spend_money is None or child.money is None else self.spend_money + child.money
        return Spend(
            turns=self.turn + child.turns,
            calls=self.used_calls + child.calls,
            input_tokens=self.spend_input + child.input_tokens,
            output_tokens=self.spend_output + child.output_tokens,
            money=money,
            seconds=self.now - self.started_at,
        )


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
    state.seq, state.now = event.seq, event.at
    state.transcript.fold(event)
    state.watched, signals = state.rules.watch.step(state.watched, event)
    state.signals.extend(signals)
    _fold_run(state, event)
    _fold_model(state, event)
    _fold_tools(state, event)
    _fold_judgement(state, event)
    return state


def _fold_run(state: State, event: Event) -> None:
    match event.fact:
        case RunStarted() as fact:
            state.started, state.started_at = fact, event.at
            state.tools = {tool.name: tool for tool in fact.tools}
            state.ledger.elsewhere.update(fact.standing)
            state.prompt_bound = fact.overhead + len(fact.task.encode()) + 64
        case RunResumed():
            state.escalated = None
            state.waiting = None
            for view in state.calls.values():
                if view.stage in ("started", "probed") and not view.call.acting:
                    view.stage = "asked"
        case MessageReceived(text=text):
            state.prompt_bound += len(text.encode()) + 16
        case RunEscalated() as fact:
            state.escalated = fact
        case RunEnded() as fact:
            state.ended = fact
        case _:
            pass


def _fold_model(state: State, event: Event) -> None:
    match event.fact:
        case ModelCallStarted(purpose="loop") as fact:
            state.attempt, state.failure = fact.attempt, None
        case ModelCallStarted(purpose="closing"):
            state.closing = "asked"
        case ModelReplied() as fact:
            _spend(state, fact)
            _fold_reply(state, event.seq, fact)
        case ModelCallFailed(purpose="loop") as fact:
            state.failure, state.attempt = fact, fact.attempt
        case ModelCallFailed(purpose="closing"):
            state.closing = "over"
        case WaitStarted(seconds=seconds, turn=turn):
            state.waiting = (event.at + seconds, turn)
        case WaitEnded():
            state.waiting = None
            if state.failure is not None:
                state.failure, state.attempt = None, state.attempt + 1
        case _:
            pass


def _fold_reply(state: State, seq: int, fact: ModelReplied) -> None:
    if fact.purpose == "loop":
        state.turn, state.reply, state.reply_seq = fact.turn, fact, seq
        state.failure, state.attempt = None, 0
        state.turn_failed = False
        state.calls = {call.position: CallView(call) for call in fact.calls}
    elif fact.purpose == "closing":
        state.closing = "over"
    if fact.purpose in ("loop", "closing") and fact.text.strip():
        state.answer, state.answer_turn = fact.text.strip(), fact.turn


def _spend(state: State, fact: ModelReplied) -> None:
    usage = fact.usage
    state.spend_input += usage.input
    state.spend_output += usage.output
    if usage.money is None:
        state.spend_money = None
    elif state.spend_money is not None:
        state.spend_money += usage.money
    said = len(fact.text.encode()) + sum(len(str(call.arguments)) + 64 for call in fact.calls)
    reported = usage.reported and usage.input > 0 and fact.purpose == "loop"
    state.prompt_bound = usage.tokens + 64 if reported else state.prompt_bound + said + 64


def _fold_tools(state: State, event: Event) -> None:
    match event.fact:
        case ToolRefused(call=call, message=message):
            view = state.calls.get(call.position)
            if view is not None and call.turn == state.turn:
                view.stage = "done"
            state.prompt_bound += len(message.encode()) + 64
        case ToolStarted(turn=turn, position=position):
            _fold_start(state, event, turn, position)
        case ToolFinished() as fact:
            _fold_finish(state, event, fact)
        case EffectChecked() as fact:
            _fold_effect(state, event, fact)
        case ChildEnded(spend=spend, standing=standing):
            state.child_spend = _add(state.child_spend, spend)
            state.ledger.elsewhere.update(standing)
        case _:
            pass


def _fold_start(state: State, event: Event, turn: int, position: int) -> None:
    view = state.calls.get(position)
    if view is None or turn != state.turn:
        return
    state.used_calls += 1
    view.stage, view.started_at = "started", event.at
    if view.call.acting:
        facts = state.tools.get(view.call.tool) or ToolFacts(view.call.tool, view.call.kind)
        state.ledger.start(view.call, facts, event.seq, event.at, view.before)


def _fold_finish(state: State, event: Event, fact: ToolFinished) -> None:
    state.ledger.finish(fact, event.seq)
    size = len(fact.result) if isinstance(fact.result, str) else len(str(fact.result))
    state.prompt_bound += size * 4 if isinstance(fact.result, str) and not fact.result.isascii() else size
    state.prompt_bound += 64
    if not fact.error:
        state.last_results = [*state.last_results[-2:], f"{fact.call.tool}: {str(fact.result)[:400]}"]
    view = state.calls.get(fact.call.position)
    if view is None or fact.call.turn != state.turn:
        return
    view.finished = fact
    act = state.ledger.acts.get((fact.call.turn, fact.call.position))
    asked = act is not None and act.facts.confirmable and not act.answered
    view.stage = "returned" if asked else "done"


def _fold_effect(state: State, event: Event, fact: EffectChecked) -> None:
    state.ledger.check(fact, event.seq, event.at)
    view = state.calls.get(fact.position)
    if view is None or fact.turn != state.turn:
        return
    if fact.phase == "before":
        view.before, view.stage = fact.answer, "probed"
        return
    act = state.ledger.acts.get((fact.turn, fact.position))
    if act is not None and act.answered and view.finished is not None:
        view.stage = "done"
    if fact.answer == "yes":
        state.claims = 0


def _fold_judgement(state: State, event: Event) -> None:
    match event.fact:
        case CheckEvaluated() as fact:
            state.checks[fact.name], state.check_seq[fact.name] = fact, event.seq
        case VerdictGiven() as fact:
            state.signals = [signal for signal in state.signals if signal.identity != fact.identity]
            state.prompt_bound += len(fact.note.encode()) + 64 if fact.note else 0
            if fact.action == "nudge":
                state.heard[fact.identity] = fact.turn
            elif fact.action == "fail-turn":
                state.heard[fact.identity] = fact.turn
                state.turn_failed = True
                state.claims += 1
            elif fact.action in ("stop", "escalate"):
                state.stop = fact
        case CeilingReached() as fact:
            state.ceiling = fact
        case _:
            pass


def _add(a: Spend, b: Spend) -> Spend:
    return Spend(
        a.turns + b.turns,
        a.calls + b.calls,
        a.input_tokens + b.input_tokens,
        a.output_tokens + b.output_tokens,
        None if a.money is None or b.money is None else a.money + b.money,
        max(a.seconds, b.seconds),
    )
