"""What the kernel knows of a run, and all that `decide` may look at. It is never stored as truth: it is a fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol

from capataz.events.facts import (
    AnswerRead,
    Call,
    CeilingReached,
    Ceilings,
    CheckEvaluated,
    Event,
    Fault,
    HandedOver,
    ModelCallFailed,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunStarted,
    Spend,
    ToolFacts,
    ToolFailed,
    ToolFinished,
    VerdictGiven,
    Versions,
)
from capataz.guards.base import Signal
from capataz.kernel.ledger import Ledger
from capataz.memory.transcript import Transcript
from capataz.policy.policy import Policy


class Watching(Protocol):
    """Guards fed together. `capataz.guards.watch.Watch` is the one that is used."""

    def start(self) -> Any: ...
    def step(self, state: Any, event: Event, /) -> tuple[Any, tuple[Signal, ...]]: ...
    def handed(self, state: Any, /) -> tuple[HandedOver, ...]: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What a run is judged by: fixed when it starts (or is replayed), never part of the log."""

    policy: Policy
    watch: Watching


CallStage = Literal["asked", "probed", "started", "failed", "returned", "done"]


@dataclass(slots=True)
class CallView:
    """How far one call of the present turn has come."""

    call: Call
    stage: CallStage = "asked"
    before: str | None = None
    finished: ToolFinished | None = None
    started_at: float = 0.0
    failed: ToolFailed | None = None
    """The newest try that failed and may be repeated."""
    tries: int = 0
    """How many tries have failed so."""


@dataclass(slots=True)
class State:
    """Everything `decide` may look at."""

    rules: Rules
    watched: Any
    started: RunStarted | None = None
    started_at: float = 0.0
    now: float = 0.0
    paused: float = 0.0
    """Seconds in which nobody worked on the run: it waited for a person, or for a worker."""
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

    context_tokens: int = 0
    """What the history fills of the window: the last reported usage, and characters divided by four since."""
    context_refused: bool = False
    """The provider refused the history as too long, and nothing was done about it yet."""
    context_retried: bool = False
    compress_tried: int = 0
    """Position up to which a compression was tried last, whether it worked or not."""

    used_calls: int = 0
    found_done: bool = False
    """A read-back, or the ledger, said of an act that was asked for that it is done already."""
    prompt_bound: int = 0
    spend_input: int = 0
    spend_output: int = 0
    spend_money: Decimal | None = Decimal(0)
    child_spend: Spend = field(default_factory=Spend)

    versions: Versions = Versions()
    """What the worker that drives the run now runs with."""
    approved: set[str] = field(default_factory=set[str])
    """Digests of calls a person has approved."""
    asked: str = ""
    """Digest of the call that a person was asked about last."""
    rejected: dict[tuple[str, str | None], str] = field(default_factory=dict[tuple[str, str | None], str])
    """Effects (tool, target) a person has rejected, with the reason given."""
    tool_faults: dict[str, tuple[Fault, int]] = field(default_factory=dict[str, tuple[Fault, int]])
    """Tools whose newest use failed: the fault, and where it is recorded."""
    answered_seq: int = -1
    """Where somebody decided last."""
    supervisions: int = 0
    """How often a supervisor was asked in this run."""
    abort: str | None = None
    """A person ordered the end; the words that came with it."""
    model: int = 0
    """Which model of the list is asked now: 0 is the agent's own."""
    cap: int | None = None
    """Largest output the provider said would fit."""
    read: AnswerRead | None = None
    """The newest validation of a typed answer."""
    misread: int = 0
    """How often an answer was not of the type asked for."""

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
        """Nothing can be done here: the run has ended, or a person has to decide."""
        return self.ended is not None or (self.escalated is not None and self.escalated.to == "human")

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
            seconds=self.now - self.started_at - self.paused,
        )
