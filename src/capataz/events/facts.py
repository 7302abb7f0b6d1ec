"""The facts a run is made of, and the only thing that is ever stored.

Everything known about a run is a fold over these values, so they say what *happened*, in the past tense, once.
A start and its end are two facts; nothing is edited afterwards; the prompt is never stored, since it is a fold.
This module must never read a clock, draw a number or touch the world: time and position arrive with the envelope.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from capataz.events.values import (
    ACTING as ACTING,
    JSON as JSON,
    Answer3 as Answer3,
    Call as Call,
    Ceilings as Ceilings,
    Evidence as Evidence,
    Fault as Fault,
    Fork as Fork,
    HandedOver as HandedOver,
    Kind as Kind,
    Opaque as Opaque,
    OutcomeName as OutcomeName,
    Purpose as Purpose,
    Role as Role,
    Row as Row,
    Said as Said,
    Spend as Spend,
    ToolFacts as ToolFacts,
    Usage as Usage,
    Versions as Versions,
)

# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RunStarted:
    run: str
    agent: str
    task: str
    role: Role = "acting"
    model: str = ""
    instructions: str = ""
    tools: tuple[ToolFacts, ...] = ()
    checks: tuple[str, ...] = ()  # names of the `done_when` checks: the required effects
    ceilings: Ceilings = Ceilings()
    task_type: str | None = None
    conversation: str | None = None
    root: str = ""
    """The run at the top of the lineage; the run itself where it has no parent."""
    parent: str | None = None
    versions: Versions = Versions()
    source: str = "capataz"
    """Which runtime produced the run; foreign records carry the name of their format."""
    overhead: int = 0
    """Bytes of instructions and tool declarations: what every model call sends beside the history."""
    standing: tuple[str, ...] = ()
    """Effects that other runs of the same root have made or may have made: the ledger refuses them here too."""
    fallbacks: tuple[str, ...] = ()  # models to hop to on a rate limit, in order
    supervised: bool = False  # another agent or a callable is asked before a person
    typed: bool = False  # the answer has to be of a given type
    window: int | None = None
    """Tokens the model can see at once; None when not known, and then only its own refusal says that it is full."""
    keep_last: int = 8  # messages at the end of the history that are never compressed
    fork: Fork | None = None
    """The run this one was split off from; None where it was begun by itself."""
    tenant: str = ""
    user: str = ""  # on whose behalf the run is made: their accounts pay for it
    handed: tuple[HandedOver, ...] | None = None
    """Hand-offs of the root so far, the one that began this run last."""
    depth: int = 0  # runs above this one


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A fresh worker took the run over and folded its log. Without this fact the run would wait for ever."""

    epoch: int
    reason: str = "recovered"
    versions: Versions | None = None
    """What the new worker runs with; an approval given under other tools or another policy does not count."""
    standing: tuple[str, ...] = ()
    """Effects that other runs of the conversation have made, or may have made, in the meantime."""


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """Something was said to the model in the middle of a run: by the person, or by a foreign runtime."""

    role: Literal["user", "runtime"]
    text: str


@dataclass(frozen=True, slots=True)
class TickPassed:
    """Nothing happened, and that is a fact: guards of silence live on ticks. `beat` is the last sign of life."""

    beat: float
    waiting_for: Literal["model", "tool", "own"] = "own"


# ── the model ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ModelCallStarted:
    turn: int
    attempt: int
    model: str
    purpose: Purpose = "loop"
    reserved_tokens: int = 0
    endpoint: str = ""
    """Reserved: most it can use, bytes sent and largest output. Endpoint: provider, or "provider at address"."""


@dataclass(frozen=True, slots=True)
class ModelReplied:
    turn: int
    attempt: int
    text: str
    calls: tuple[Call, ...] = ()
    stop: str = "stop"
    usage: Usage = Usage(reported=False)
    model: str = ""
    purpose: Purpose = "loop"
    thinking: str = ""
    opaque: Opaque | None = None
    seconds: float = 0.0
    first_byte: float | None = None
    written: tuple[str, ...] = ()
    """Names of tools whose calls were written as text instead of being asked for: they were not run."""


@dataclass(frozen=True, slots=True)
class ModelCallFailed:
    turn: int
    attempt: int
    fault: Fault
    model: str = ""
    purpose: Purpose = "loop"
    seconds: float = 0.0
    billed: bool = False
    """Something of the answer had come before it broke off: the provider may charge for it."""


@dataclass(frozen=True, slots=True)
class ModelSwitched:
    """A rate limit made the run hop to the next model of its list, instead of waiting."""

    turn: int
    model: str
    before: str
    reason: str


@dataclass(frozen=True, slots=True)
class OutputCapped:
    """The provider said that prompt and output reserve do not fit together: the next try asks for less."""

    turn: int
    cap: int
    reason: str


@dataclass(frozen=True, slots=True)
class WaitStarted:
    """The runtime pauses before trying again. `seconds` is what was drawn, so that a replay draws nothing."""

    seconds: float
    reason: str
    turn: int


@dataclass(frozen=True, slots=True)
class WaitEnded:
    turn: int


@dataclass(frozen=True, slots=True)
class BreakerOpened:
    """So many failures in a row that what failed is left alone for a while, by every run of this process."""

    of: Literal["provider", "tool"]
    name: str
    failures: int
    seconds: float
    """How long it is left alone, before one call tries."""
    reason: str


@dataclass(frozen=True, slots=True)
class BreakerClosed:
    """What was left alone has answered again."""

    of: Literal["provider", "tool"]
    name: str


@dataclass(frozen=True, slots=True)
class CapabilityLearned:
    """A provider refused a parameter by name. `advice` is the line for the capability table; nobody applies it."""

    model: str
    parameter: str
    advice: str


# ── the tools ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ToolRefused:
    """The call was not run; the model reads why. Recorded for calls that cannot, must not or need not run."""

    call: Call
    reason: Literal["unknown-tool", "invalid-arguments", "ledger", "not-run", "policy", "truncated", "rejected"]
    message: str
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """Durable before an acting tool runs: after a crash, a start without an end is an unknown outcome."""

    turn: int
    position: int
    tool: str
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True)
class ToolFinished:
    call: Call
    result: JSON
    """What the model sees."""
    error: bool = False
    fault: Fault | None = None
    state_changed: bool | None = None
    """Whether the tool says it changed the world; None when it does not say."""
    in_doubt: bool = False
    """An act whose end is unknown (time-out, crash, dropped connection): it may still take effect."""
    seconds: float = 0.0
    full: str | None = None
    """The whole text, when `result` had to be cut for the model."""
    child: str | None = None
    """Run id of the sub-agent that did the work."""


@dataclass(frozen=True, slots=True)
class ToolFailed:
    """A try of a call failed in a way that passes. It is tried again before the model sees anything of it.

    Only for calls that may be repeated: those that look, and acts declared idempotent, with the same key.
    """

    call: Call
    attempt: int
    fault: Fault
    result: JSON
    """What the model will see if it is not tried again after all."""
    in_doubt: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ToolAnsweredLate:
    """A call that was given up on has come to its end after all. It says nothing about any other call."""

    turn: int
    position: int
    tool: str
    result: JSON
    error: bool = False
    in_doubt: bool = False
    """It answered, but still not whether it took effect."""
    seconds: float = 0.0  # from its start


@dataclass(frozen=True, slots=True)
class EffectChecked:
    """What the tool's own read-back said, before or after the act."""

    turn: int
    position: int
    phase: Literal["before", "after"]
    answer: Answer3
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A run started by this one has ended: its spend is ours, its outcome is data."""

    run: str
    agent: str
    outcome: OutcomeName
    spend: Spend
    turn: int
    position: int
    standing: tuple[str, ...] = ()
    """Effects the child made or may have made."""
    handed: tuple[HandedOver, ...] | None = None  # hand-offs of the root up to its end; None in logs that do not say


# ── the judgements ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class CheckEvaluated:
    """One `done_when` check was asked. `detail` is the reason, in words for the model."""

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class VerdictGiven:
    """What the kernel made of a signal under the policy. A recorded verdict wins over today's code."""

    action: Literal["nudge", "fail-turn", "stop", "escalate", "observe"]
    guard: str
    kind: str
    identity: str
    """Which loop (or claim, or silence): the same one a second time is what stops a run."""
    evidence: tuple[int, ...]
    """Sequence numbers of the events that prove it."""
    turn: int
    words: str = ""
    """For a person."""
    note: str = ""
    """For the model; empty when it is told nothing."""


@dataclass(frozen=True, slots=True)
class CeilingReached:
    """A warning, not an error: the run will end `Partial` with what it has."""

    ceiling: Literal["turns", "calls", "tokens", "money", "seconds"]
    limit: float
    used: float


@dataclass(frozen=True, slots=True)
class HistoryCompressed:
    """Everything before position `upto` of the transcript is now held by `summary`, written from the one before."""

    upto: int
    summary: str
    turn: int


@dataclass(frozen=True, slots=True)
class CompressionFailed:
    """The old summary stays and the run goes on."""

    upto: int
    reason: str
    turn: int


@dataclass(frozen=True, slots=True)
class ResultsShortened:
    """Results of tools before position `upto` of the transcript are shown as marked stubs from now on."""

    upto: int
    turn: int


@dataclass(frozen=True, slots=True)
class ConversationRecalled:
    """What is remembered of a thread: a summary of what was said before `upto`, what was said since, no plumbing."""

    summary: str
    said: tuple[Said, ...]
    upto: int = 0


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A risky act waits for a person. `digest` binds the answer to exactly this call under these versions."""

    turn: int
    position: int
    digest: str
    shown: str
    """What will run if it is approved, in words."""
    reason: str


@dataclass(frozen=True, slots=True)
class EscalationAnswered:
    """Somebody decided. The run goes on from where it was, after a restart too.

    retry: try again what failed. approve, reject: the call that was asked about. correct: that call with other
    arguments, approved as corrected. answer: words for the model. happened, not-happened: how the act in doubt ended.
    abort: the run ends here.
    """

    action: Literal["retry", "approve", "reject", "correct", "answer", "happened", "not-happened", "abort"]
    by: str
    text: str = ""
    digest: str = ""
    """Of the call that an approval is for."""
    arguments: Mapping[str, JSON] | None = None


@dataclass(frozen=True, slots=True)
class AnswerRead:
    """A typed answer was validated. `problem` says what is wrong with it; empty when nothing is."""

    turn: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RunEscalated:
    """The run is suspended: someone else has to decide. The log stays open."""

    reason: str
    detail: str
    to: Literal["human", "supervisor"] = "human"
    answer: str = ""
    missing: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Seals the log. `reason` is one of a small set of words; `detail` is for people."""

    outcome: Literal["completed", "answered", "partial", "aborted"]
    reason: str
    detail: str = ""
    answer: str = ""
    answer_turn: int | None = None
    """The turn the answer was said in; None when the runtime put it together."""
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    no_action: bool = False


@dataclass(frozen=True, slots=True)
class RunLabelled:
    """Somebody outside says how a recorded run really went: a test, a reward, a person."""

    success: bool | None
    by: str = ""
    detail: str = ""


Fact: TypeAlias = (
    RunStarted
    | RunResumed
    | MessageReceived
    | TickPassed
    | ModelCallStarted
    | ModelReplied
    | ModelCallFailed
    | ModelSwitched
    | OutputCapped
    | WaitStarted
    | WaitEnded
    | BreakerOpened
    | BreakerClosed
    | CapabilityLearned
    | ToolRefused
    | ToolStarted
    | ToolFinished
    | ToolAnsweredLate
    | ToolFailed
    | EffectChecked
    | ChildEnded
    | CheckEvaluated
    | VerdictGiven
    | CeilingReached
    | HistoryCompressed
    | CompressionFailed
    | ResultsShortened
    | ConversationRecalled
    | ApprovalAsked
    | EscalationAnswered
    | AnswerRead
    | RunEscalated
    | RunEnded
    | RunLabelled
)


@dataclass(frozen=True, slots=True)
class Event:
    """A fact with its position in the log of its run and the time it was recorded (seconds since the epoch)."""

    seq: int
    at: float
    fact: Fact = field(repr=True)
