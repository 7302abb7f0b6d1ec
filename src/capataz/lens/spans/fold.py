"""A run as spans: pure records, folded from its events, for whatever exports them.

A record is made when its span has ended, never before, so a span without an end does not exist: what was still open
when a worker died is ended as hung by the recovery that folds the log again. Identity comes from the log, not from
chance: every worker that touches a run, and every run of the same root task, agrees on who is whose parent. Tokens
stand on the spans of model calls alone, since viewers add them up; the totals of a run have names of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Literal

from capataz.events.facts import (
    JSON,
    Call,
    ChildEnded,
    EscalationAnswered,
    Event,
    Fault,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunResumed,
    RunStarted,
    TickPassed,
    ToolFailed,
    ToolFinished,
    ToolStarted,
    Usage,
)
from capataz.lens.spans import content as said, names as n
from capataz.lens.spans.attributes import Telling
from capataz.lens.spans.marks import Attributes, Mark, Masking, Value, mark_of
from capataz.memory.transcript import Transcript

What = Literal["run", "turn", "model", "tool"]
MOST_MARKS = 1000
"""Events kept on one span; a run that goes on and on may not eat the memory of what watches it."""


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span that has ended. Times in seconds since the epoch; `error` describes the failure, empty for none."""

    what: What
    key: str
    """Its identity, the same for whoever folds the log."""
    parent: str | None
    """Key of the span above it, which may be another run's."""
    trace: str
    """Id of the run at the top: all its runs are one trace."""
    run: str
    name: str
    start: float
    end: float
    attributes: Mapping[str, Value]
    marks: tuple[Mark, ...] = ()
    error: str = ""
    link: str | None = None
    """Key of the span this one goes on from, after someone has decided."""

    @property
    def client(self) -> bool:
        """Whether it stands for a call to another service."""
        return self.what == "model"


@dataclass(slots=True)
class _Turn:
    number: int
    key: str
    start: float
    marks: list[Mark] = field(default_factory=list[Mark])
    calls: int = 0
    tokens: int = 0
    tries: int = 0


@dataclass(slots=True)
class _Tool:
    start: float
    key: str
    name: str
    attempt: int


@dataclass(slots=True, eq=False)
class Spans:
    """Folds the events of one run, in order; each call of `fold` gives the spans that ended with that event.

    `mask` takes a JSON value to what of it may leave; content (instructions, messages, arguments, results) becomes an
    attribute only with `content`, and only through the mask.
    """

    mask: Masking
    content: bool = False
    semconv: n.Semconv = "1.41"
    run: RunStarted | None = None
    _tell: Telling = field(init=False)
    _key: str = ""
    _segment: int = 0
    _link: str | None = None
    _start: float = 0.0
    _marks: list[Mark] = field(default_factory=list[Mark])
    _common: Attributes = field(default_factory=dict[str, Value])
    _providers: dict[str, str] = field(default_factory=dict[str, str])
    _over: bool = True
    _turn: _Turn | None = None
    _model: tuple[ModelCallStarted, float, int] | None = None
    _calls: dict[int, Call] = field(default_factory=dict[int, Call])
    _tools: dict[tuple[int, int], _Tool] = field(default_factory=dict[tuple[int, int], _Tool])
    _tried: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    """How often each call of the present turn was begun."""
    _hung: bool = False
    _totals: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    """Turns, tool calls, input and output tokens of this run alone."""
    _money: Decimal | None = Decimal(0)
    _transcript: Transcript = field(default_factory=Transcript)

    def __post_init__(self) -> None:
        self._tell = Telling(self.mask, self.content, self.semconv)

    def fold(self, event: Event) -> tuple[SpanRecord, ...]:
        """Bring the spans forward by one event."""
        if self._over and not isinstance(event.fact, RunStarted):
            if self.run is None or not isinstance(event.fact, (RunResumed, EscalationAnswered)):
                return ()
            self._go_on(event)
        step = self._STEPS.get(type(event.fact))
        ended = step(self, event, event.fact) if step is not None else self._mark(event)
        if self.content:
            self._transcript.fold(event)
        return ended

    @property
    def open(self) -> bool:
        """Whether the run's own span is open."""
        return not self._over

    @property
    def trace(self) -> str:
        return (self.run.root or self.run.run) if self.run is not None else ""

    @property
    def agent(self) -> str:
        return self.run.agent if self.run is not None else ""

    @property
    def key(self) -> str:
        """Of the run's own span."""
        return self._key

    @property
    def parent(self) -> str | None:
        """Key of the span above the run's: the call that began it, or the run it is a supervisor of."""
        if self.run is None or not self.run.parent:
            return None
        begun_by_a_call = self.run.run.startswith(f"{self.run.parent}.")
        return f"{self.run.run}/tool" if begun_by_a_call else f"{self.run.parent}/run"

    @property
    def start_attributes(self) -> Attributes:
        """What is known of the run's span when it begins: what a sampler may look at."""
        assert self.run is not None
        return self._tell.run(self.run, self.trace, self._common)

    def tool_span(self, turn: int, position: int) -> str | None:
        """Key of the span of a tool that runs now."""
        tool = self._tools.get((turn, position))
        return tool.key if tool is not None else None

    # ── the run ──────────────────────────────────────────────────────────────────────────────────────────

    def _run_started(self, event: Event, fact: RunStarted) -> tuple[SpanRecord, ...]:
        self.run, self._start, self._over = fact, event.at, False
        self._key = f"{fact.run}/run"
        self._common = {n.AGENT_NAME: fact.agent, n.RUN_ID: fact.run}
        if fact.conversation:
            self._common[n.CONVERSATION] = fact.conversation
        for named in (fact.model, *fact.fallbacks):
            provider, _, model = named.partition(":")
            self._providers.setdefault(model, n.provider_of(provider))
        return ()

    def _go_on(self, event: Event) -> None:
        """Someone has decided: the run goes on in a span of its own, linked to the one before."""
        assert self.run is not None
        self._link, self._segment = self._key, self._segment + 1
        self._key = f"{self.run.run}/run/{self._segment}"
        self._start, self._over = event.at, False

    def _run_over(self, event: Event, fact: RunEnded | RunEscalated) -> tuple[SpanRecord, ...]:
        assert self.run is not None
        ended = [*self._all_hung(event.at), *self._close_turn(event.at)]
        outcome = "escalated" if isinstance(fact, RunEscalated) else fact.outcome
        attributes = self.start_attributes
        attributes.update({n.OUTCOME: outcome, n.REASON: fact.reason, n.SEGMENT: self._segment})
        turns, calls, read, written = self._totals
        attributes.update({n.RUN_TURNS: turns, n.RUN_CALLS: calls, n.RUN_INPUT: read, n.RUN_OUTPUT: written})
        if self._money is not None:
            attributes[n.RUN_MONEY] = float(self._money)
        failed = outcome in ("partial", "aborted")
        if failed:
            attributes[n.ERROR_TYPE] = fact.reason or outcome
        if isinstance(fact, RunEscalated) and (mark := mark_of(event, self.mask)) is not None:
            self._marks.append(mark)
        error = (str(self.mask(fact.detail)) or fact.reason or outcome) if failed else ""
        parent = self.parent
        name = f"{n.INVOKE_AGENT} {self.run.agent}" if self.run.agent else n.INVOKE_AGENT
        marks, self._marks = tuple(self._marks), []
        self._over = True
        ended.append(
            SpanRecord(
                *("run", self._key, parent, self.trace, self.run.run, name, self._start, event.at),
                attributes,
                marks,
                error,
                self._link,
            )
        )
        return tuple(ended)

    def _resumed(self, event: Event, fact: RunResumed) -> tuple[SpanRecord, ...]:
        """What a dead worker left open never closes by itself: it is ended here, as hung."""
        ended = self._all_hung(event.at)
        self._mark(event)
        return tuple(ended)

    def _ticked(self, event: Event, fact: TickPassed) -> tuple[SpanRecord, ...]:
        self._hung = True
        return self._mark(event)

    def _all_hung(self, at: float) -> list[SpanRecord]:
        ended: list[SpanRecord] = []
        why = "no sign of life: the watchdog ended it" if self._hung else "its worker was gone: the recovery ended it"
        if self._model is not None:
            ended.append(self._model_span(at, {}, n.HUNG, why))
        for place in tuple(self._tools):
            ended.append(self._tool_span(place, at, self._calls.get(place[1]), {}, n.HUNG, why))
        self._hung = False
        return ended

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────

    def _open_turn(self, number: int, at: float) -> list[SpanRecord]:
        turn = self._turn
        if turn is not None and turn.number == number:
            return []
        ended = self._close_turn(at)
        assert self.run is not None
        self._turn = _Turn(number, f"{self.run.run}/turn/{number}/{self._segment}", at)
        self._totals[0] += 1
        self._tried.clear()
        return ended

    def _close_turn(self, at: float) -> list[SpanRecord]:
        turn, self._turn = self._turn, None
        if turn is None or self.run is None:
            return []
        attributes: Attributes = {
            **self._common,
            n.TURN_NUMBER: turn.number,
            n.TURN_CALLS: turn.calls,
            n.TURN_TOKENS: turn.tokens,
            n.TURN_TRIES: turn.tries,
        }
        names = (turn.key, self._key, self.trace, self.run.run, n.TURN)
        return [SpanRecord("turn", *names, turn.start, at, attributes, tuple(turn.marks))]

    def _inside(self) -> str:
        return self._turn.key if self._turn is not None else self._key

    def _mark(self, event: Event) -> tuple[SpanRecord, ...]:
        if (mark := mark_of(event, self.mask)) is not None:
            self._append(mark)
        return ()

    # ── model calls ──────────────────────────────────────────────────────────────────────────────────────

    def _model_started(self, event: Event, fact: ModelCallStarted) -> tuple[SpanRecord, ...]:
        ended = self._open_turn(fact.turn, event.at) if fact.purpose == "loop" else []
        if self._turn is not None:
            self._turn.tries += 1
        self._model = (fact, event.at, event.seq)
        return tuple(ended)

    def _replied(self, event: Event, fact: ModelReplied) -> tuple[SpanRecord, ...]:
        ended = self._begun_here(event, fact)
        assert self.run is not None
        self._add_up(fact.usage)
        if fact.purpose == "loop":
            self._calls = {call.position: call for call in fact.calls}
            if self._turn is not None:
                self._turn.calls, self._turn.tokens = len(fact.calls), self._turn.tokens + fact.usage.tokens
        told = self._tell.reply(fact, self.run.instructions, self._transcript.messages)
        ended.append(self._model_span(event.at, told, "", ""))
        return tuple(ended)

    def _failed(self, event: Event, fact: ModelCallFailed) -> tuple[SpanRecord, ...]:
        ended = self._begun_here(event, fact)
        told: Attributes = {n.ERROR_CLASS: fact.fault.row}
        ended.append(self._model_span(event.at, told, fact.fault.reason, self._fault(fact.fault)))
        return tuple(ended)

    def _begun_here(self, event: Event, fact: ModelReplied | ModelCallFailed) -> list[SpanRecord]:
        """A record of another runtime may know only the end of a call: its start is reckoned back."""
        if self._model is not None:
            return []
        start = event.at - max(0.0, fact.seconds)
        ended = self._open_turn(fact.turn, start) if fact.purpose == "loop" else []
        self._model = (ModelCallStarted(fact.turn, fact.attempt, fact.model, fact.purpose), start, event.seq)
        return ended

    def _add_up(self, usage: Usage) -> None:
        self._totals[2] += usage.input
        self._totals[3] += usage.output
        self._money = None if self._money is None or usage.money is None else self._money + usage.money

    def _model_span(self, at: float, told: Attributes, error: str, words: str) -> SpanRecord:
        assert self._model is not None
        assert self.run is not None
        fact, start, seq = self._model
        self._model = None
        provider = self._providers.get(fact.model, "unknown")
        attributes = self._tell.model_call(fact, provider, self._common)
        attributes.update(told)
        if error:
            attributes[n.ERROR_TYPE] = error
        name = f"{n.CHAT} {fact.model}" if fact.model else n.CHAT
        key = f"{self.run.run}/model/{seq}"
        return SpanRecord(
            *("model", key, self._inside(), self.trace, self.run.run, name, start, max(at, start)),
            attributes,
            error=words or error,
        )

    # ── tools ────────────────────────────────────────────────────────────────────────────────────────────

    def _tool_started(self, event: Event, fact: ToolStarted) -> tuple[SpanRecord, ...]:
        assert self.run is not None
        place = (fact.turn, fact.position)
        attempt = self._tried[place] = self._tried.get(place, 0) + 1
        # A sub-agent's run is named after the key of the call that began it: so it finds the span above it.
        name = (fact.idempotency_key or f"{self.run.run}:{fact.turn}:{fact.position}").replace(":", ".")
        key = f"{name}/tool" if attempt == 1 else f"{name}/tool/{attempt}"
        self._tools[place] = _Tool(event.at, key, fact.tool, attempt)
        self._totals[1] += 1
        return ()

    def _tool_finished(self, event: Event, fact: ToolFinished) -> tuple[SpanRecord, ...]:
        return self._tool_over(event, fact.call, fact.result, fact.fault, fact.error, fact.in_doubt, fact.seconds)

    def _tool_failed(self, event: Event, fact: ToolFailed) -> tuple[SpanRecord, ...]:
        return self._tool_over(event, fact.call, fact.result, fact.fault, True, fact.in_doubt, fact.seconds)

    def _tool_over(
        self, event: Event, call: Call, result: JSON, fault: Fault | None, error: bool, in_doubt: bool, seconds: float
    ) -> tuple[SpanRecord, ...]:
        assert self.run is not None
        place = (call.turn, call.position)
        if place not in self._tools:
            if place in self._tried:  # it was ended as hung, and now its outcome is known: no second span
                told: Attributes = {n.TOOL_NAME: call.tool, n.IN_DOUBT: in_doubt}
                self._append(Mark("capataz.tool.settled", event.at, told))
                return ()
            self._tool_started(Event(event.seq, event.at - max(0.0, seconds), event.fact), _start_of(call))
        attributes: Attributes = {}
        if in_doubt:
            attributes[n.IN_DOUBT] = True
        if isinstance(event.fact, ToolFinished) and event.fact.child:
            attributes[n.CHILD_RUN] = event.fact.child
        if fault is not None:
            attributes[n.ERROR_CLASS] = fault.row
        if self.content:
            attributes[n.TOOL_RESULT] = said.text_of(result, self.mask)
        kind = (fault.reason if fault is not None else "tool-error") if error else ""
        words = self._fault(fault) if fault is not None else kind
        return (self._tool_span(place, event.at, call, attributes, kind, words if error else ""),)

    def _tool_span(
        self, place: tuple[int, int], at: float, call: Call | None, told: Attributes, error: str, words: str
    ) -> SpanRecord:
        assert self.run is not None
        tool = self._tools.pop(place)
        attributes = self._tell.tool(tool.name, tool.attempt, call, self._common)
        attributes.update(told)
        if error:
            attributes[n.ERROR_TYPE] = error
        names = (self._inside(), self.trace, self.run.run, f"{n.EXECUTE_TOOL} {tool.name}")
        return SpanRecord("tool", tool.key, *names, tool.start, max(at, tool.start), attributes, error=words or error)

    def _child_ended(self, event: Event, fact: ChildEnded) -> tuple[SpanRecord, ...]:
        told: Attributes = {n.CHILD_RUN: fact.run, n.AGENT_NAME: fact.agent, n.OUTCOME: fact.outcome}
        self._append(Mark("capataz.child.ended", event.at, told))
        return ()

    def _append(self, mark: Mark) -> None:
        marks = self._turn.marks if self._turn is not None else self._marks
        if len(marks) < MOST_MARKS:
            marks.append(mark)

    def _fault(self, fault: Fault) -> str:
        return str(self.mask(fault.message)) or fault.reason

    _STEPS: ClassVar[Mapping[type, Callable[[Any, Event, Any], tuple[SpanRecord, ...]]]] = {
        RunStarted: _run_started,
        RunResumed: _resumed,
        RunEnded: _run_over,
        RunEscalated: _run_over,
        TickPassed: _ticked,
        ModelCallStarted: _model_started,
        ModelReplied: _replied,
        ModelCallFailed: _failed,
        ToolStarted: _tool_started,
        ToolFinished: _tool_finished,
        ToolFailed: _tool_failed,
        ChildEnded: _child_ended,
    }


def _start_of(call: Call) -> ToolStarted:
    return ToolStarted(call.turn, call.position, call.tool)
