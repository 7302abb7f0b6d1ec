"""What a run meant: its log folded into a tree that a person can read, at any moment of the run's life.

The tree is the one source of every view of a run: terminal, page, JSON. It is a fold, so it is the same live,
afterwards, for a run cut short and for a run some other framework recorded. It must never judge: every verdict shown
here was recorded by the kernel, with its evidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from capataz.events.facts import (
    JSON,
    Call,
    CeilingReached,
    CheckEvaluated,
    ChildEnded,
    EffectChecked,
    EscalationAnswered,
    Event,
    Fault,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    OutcomeName,
    Purpose,
    RunEnded,
    RunEscalated,
    RunStarted,
    Spend,
    TickPassed,
    ToolFailed,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    Usage,
    VerdictGiven,
    WaitStarted,
)
from capataz.lens.signals import Signals

CallState = Literal["asked", "running", "done", "failed", "refused", "in-doubt"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the tree an event stands: a turn, and within it a call where it belongs to one."""

    turn: int
    position: int | None = None


@dataclass(slots=True)
class CallView:
    """One call: what was asked, what came back, what its read-back said. Times in seconds."""

    call: Call
    state: CallState = "asked"
    result: JSON = None
    """What the model saw."""
    full: str | None = None
    """The whole text, when the result was cut for the model."""
    fault: Fault | None = None
    refusal: str | None = None
    seconds: float | None = None
    started_at: float | None = None
    tries: int = 1
    """How often it was run before the model saw a result."""
    effects: list[EffectChecked] = field(default_factory=list[EffectChecked])
    child: str | None = None
    child_outcome: OutcomeName | None = None
    seqs: list[int] = field(default_factory=list[int])

    @property
    def confirmed(self) -> bool:
        """Whether a read-back after the act said that the effect is there."""
        return any(effect.phase == "after" and effect.answer == "yes" for effect in self.effects)


@dataclass(slots=True)
class TurnView:
    """One reply of the model, the calls it asked for, and everything that happened meanwhile (`marks`, in order)."""

    number: int
    purpose: Purpose = "loop"
    started_at: float = 0.0
    tries: int = 0
    """Model calls made for this turn, failed ones included."""
    reply: ModelReplied | None = None
    reply_seq: int | None = None
    calls: list[CallView] = field(default_factory=list[CallView])
    marks: list[Event] = field(default_factory=list[Event])

    @property
    def verdicts(self) -> tuple[VerdictGiven, ...]:
        return tuple(mark.fact for mark in self.marks if isinstance(mark.fact, VerdictGiven))

    @property
    def checks(self) -> tuple[CheckEvaluated, ...]:
        return tuple(mark.fact for mark in self.marks if isinstance(mark.fact, CheckEvaluated))

    @property
    def waits(self) -> tuple[WaitStarted, ...]:
        return tuple(mark.fact for mark in self.marks if isinstance(mark.fact, WaitStarted))

    @property
    def failures(self) -> tuple[ModelCallFailed, ...]:
        return tuple(mark.fact for mark in self.marks if isinstance(mark.fact, ModelCallFailed))

    @property
    def usage(self) -> Usage | None:
        return self.reply.usage if self.reply is not None else None


@dataclass(slots=True)
class Trace:
    """A run as a tree. `ending` is None while it runs, a `RunEscalated` while it waits for someone."""

    run: RunStarted | None = None
    """None for a log whose beginning is missing."""
    started_at: float = 0.0
    now: float = 0.0
    """Time of the newest event."""
    opening: list[Event] = field(default_factory=list[Event])
    """What happened before the first turn."""
    turns: list[TurnView] = field(default_factory=list[TurnView])
    ending: RunEnded | RunEscalated | None = None
    ending_seq: int | None = None
    spend: Spend = field(default_factory=Spend)
    warnings: list[str] = field(default_factory=list[str])
    signals: Signals = field(default_factory=Signals)
    """What went wrong on the way, counted."""
    events: int = 0
    places: dict[int, Place] = field(default_factory=dict[int, Place])
    """Where the event with a sequence number stands."""
    calls: dict[tuple[int, int], CallView] = field(default_factory=dict[tuple[int, int], CallView])
    """Every call by turn and position."""

    @property
    def outcome(self) -> OutcomeName | None:
        if isinstance(self.ending, RunEscalated):
            return "escalated"
        return self.ending.outcome if self.ending is not None else None

    @property
    def status(self) -> Literal["running", "ended", "escalated"]:
        if self.ending is None:
            return "running"
        return "escalated" if isinstance(self.ending, RunEscalated) else "ended"

    def call_at(self, seq: int) -> CallView | None:
        """The call an event belongs to, if it belongs to one."""
        place = self.places.get(seq)
        return None if place is None or place.position is None else self.calls.get((place.turn, place.position))

    def label(self, seq: int) -> str:
        """Where an event stands, in words: "turn 3, call 1"."""
        place = self.places.get(seq)
        if place is None:
            return f"event {seq}"
        if place.turn == 0:
            return "before the first turn"
        return f"turn {place.turn}" if place.position is None else f"turn {place.turn}, call {place.position + 1}"


def trace(events: Iterable[Event]) -> Trace:
    """The tree of a run, from its events in order. Every prefix of a log is a run that is still going on."""
    folding = Folding()
    folding.fold_all(events)
    return folding.trace


@dataclass(slots=True)
class Folding:
    """A tree that grows event by event, for watching a run live. O(1) for each event."""

    trace: Trace = field(default_factory=Trace)
    _input: int = 0
    _output: int = 0
    _money: Decimal | None = Decimal(0)
    _used: int = 0
    _turns: int = 0
    _children: Spend = field(default_factory=Spend)

    def fold(self, event: Event) -> None:
        self._take(event)
        self.trace.spend = self._spend()

    def fold_all(self, events: Iterable[Event]) -> None:
        """Several at once: what was spent is added up at the end only."""
        for event in events:
            self._take(event)
        self.trace.spend = self._spend()

    def _take(self, event: Event) -> None:
        tree = self.trace
        if not tree.events:
            tree.started_at = event.at
        tree.events += 1
        tree.now = event.at
        tree.signals.fold(event)
        match event.fact:
            case RunStarted() as fact:
                tree.run, tree.started_at = fact, event.at
                tree.places[event.seq] = Place(0)
            case ModelCallStarted() | ModelReplied() | ModelCallFailed():
                self._model(event)
            case ToolRefused() | ToolStarted() | ToolFinished() | EffectChecked() | ChildEnded():
                self._tool(event)
            case TickPassed():
                pass
            case ToolFailed(call=call):
                self._mark(event)
                view = self._call(event, call.turn, call.position, call)
                view.tries += 1
            case _:
                self._mark(event)
                self._judgement(event)

    # ── model ────────────────────────────────────────────────────────────────────────────────────────────

    def _model(self, event: Event) -> None:
        match event.fact:
            case ModelCallStarted(turn=turn, purpose=purpose):
                self._turn(turn, purpose, event).tries += 1
            case ModelCallFailed(turn=turn, purpose=purpose):
                view = self._turn(turn, purpose, event)
                view.marks.append(event)
                view.tries = max(view.tries, 1)
            case ModelReplied() as fact:
                self._reply(event, fact)
            case _:
                return
        self.trace.places[event.seq] = Place(self.trace.turns[-1].number)

    def _turn(self, number: int, purpose: Purpose, event: Event) -> TurnView:
        turns = self.trace.turns
        if turns and (turns[-1].number, turns[-1].purpose) == (number, purpose):
            return turns[-1]
        turns.append(TurnView(number, purpose, event.at))
        return turns[-1]

    def _reply(self, event: Event, fact: ModelReplied) -> None:
        view = self._turn(fact.turn, fact.purpose, event)
        view.reply, view.reply_seq, view.tries = fact, event.seq, max(view.tries, 1)
        if fact.purpose == "loop":
            self._turns = max(self._turns, fact.turn)
        for call in fact.calls:
            self.trace.calls[(call.turn, call.position)] = shown = CallView(call, seqs=[event.seq])
            view.calls.append(shown)
        usage = fact.usage
        self._input += usage.input
        self._output += usage.output
        self._money = None if self._money is None or usage.money is None else self._money + usage.money
        if not usage.reported:
            self._warn("the provider did not report its usage: tokens are estimated")

    # ── tools ────────────────────────────────────────────────────────────────────────────────────────────

    def _tool(self, event: Event) -> None:
        match event.fact:
            case ToolRefused(call=call, message=message, reason=reason, fault=fault):
                view = self._call(event, call.turn, call.position, call)
                view.state, view.refusal, view.fault, view.result = "refused", reason, fault, {"error": message}
            case ToolStarted(turn=turn, position=position, tool=tool):
                view = self._call(event, turn, position, Call(turn, position, "", tool, {}))
                view.state, view.started_at = "running", event.at
                self._used += 1
            case ToolFinished() as fact:
                self._finish(event, fact)
            case EffectChecked(turn=turn, position=position) as fact:
                self._call(event, turn, position, Call(turn, position, "", "", {})).effects.append(fact)
            case ChildEnded(turn=turn, position=position, run=run, outcome=outcome) as fact:
                view = self._call(event, turn, position, Call(turn, position, "", fact.agent, {}))
                view.child, view.child_outcome = run, outcome
                self._children = _sum(self._children, fact.spend)
            case _:
                pass

    def _finish(self, event: Event, fact: ToolFinished) -> None:
        view = self._call(event, fact.call.turn, fact.call.position, fact.call)
        if view.started_at is None:  # a foreign record may know only the end
            self._used += 1
        view.call, view.result, view.full, view.fault = fact.call, fact.result, fact.full, fact.fault
        view.state = "in-doubt" if fact.in_doubt else "failed" if fact.error else "done"
        view.seconds = fact.seconds
        view.child = fact.child or view.child
        if fact.in_doubt:
            self._warn(f"{fact.call.tool} in turn {fact.call.turn} is in doubt: it may still take effect")

    def _call(self, event: Event, turn: int, position: int, call: Call) -> CallView:
        """The view of a call; made here where a record has a call that no reply asked for."""
        view = self.trace.calls.get((turn, position))
        if view is None:
            view = self.trace.calls[(turn, position)] = CallView(call)
            self._turn(turn, "loop", event).calls.append(view)
        view.seqs.append(event.seq)
        self.trace.places[event.seq] = Place(turn, position)
        return view

    # ── judgements ───────────────────────────────────────────────────────────────────────────────────────

    def _mark(self, event: Event) -> None:
        turns = self.trace.turns
        (turns[-1].marks if turns else self.trace.opening).append(event)
        self.trace.places[event.seq] = Place(turns[-1].number if turns else 0)

    def _judgement(self, event: Event) -> None:
        match event.fact:
            case CeilingReached(ceiling=ceiling, limit=limit, used=used):
                self._warn(f"the ceiling of {limit:g} {ceiling} was reached ({used:g} used)")
            case RunEnded() | RunEscalated() as fact:
                self.trace.ending, self.trace.ending_seq = fact, event.seq
            case EscalationAnswered():
                self.trace.ending = self.trace.ending_seq = None
            case _:
                pass

    def _warn(self, words: str) -> None:
        if words not in self.trace.warnings:
            self.trace.warnings.append(words)

    def _spend(self) -> Spend:
        own = Spend(
            self._turns, self._used, self._input, self._output, self._money, self.trace.now - self.trace.started_at
        )
        return _sum(own, self._children)


def _sum(a: Spend, b: Spend) -> Spend:
    return Spend(
        a.turns + b.turns,
        a.calls + b.calls,
        a.input_tokens + b.input_tokens,
        a.output_tokens + b.output_tokens,
        None if a.money is None or b.money is None else a.money + b.money,
        max(a.seconds, b.seconds),
    )
