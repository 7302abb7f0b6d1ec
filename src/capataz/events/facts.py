"""The facts a run is made of, and the only thing that is ever stored.

Everything known about a run is a fold over these values, so they say what *happened*, in the past tense, once.
A start and its end are two facts; nothing is edited afterwards; the prompt is never stored, since it is a fold.
This module must never read a clock, draw a number or touch the world: time and position arrive with the
envelope (`Event`), stamped by whoever owns the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""Anything JSON can say. Arguments and results are kept as such values, never as objects of the user's."""

Kind = Literal["read", "search", "poll", "write", "exec", "message"]
"""What a tool does to the world. The first three look; the last three act."""

ACTING: frozenset[str] = frozenset({"write", "exec", "message"})

Role = Literal["acting", "talking", "coordinating"]
Purpose = Literal["loop", "closing", "compressing", "judging"]
Row = Literal["transient", "rate_limit", "invalid_input", "auth", "contract", "unknown", "ours"]
OutcomeName = Literal["completed", "answered", "partial", "escalated", "aborted"]
Answer3 = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider says a call cost. Tokens; `input` includes the cached ones, whatever the dialect."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    money: Decimal | None = None
    """US dollars; None when the price of the model is not known, which is not the same as free."""
    reported: bool = True
    """False when the provider said nothing and the figures are an estimate."""

    @property
    def tokens(self) -> int:
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class Fault:
    """A classified error: exactly one row of the taxonomy, with the reason inside that row.

    `message` is fit to be shown: masked, without stack trace. `wait` is the provider's own hint in seconds.
    `retries` lowers the row's number of retries where the reason is known to be hopeless (None: the row decides).
    """

    row: Row
    reason: str
    message: str
    status: int | None = None
    wait: float | None = None
    retries: int | None = None
    origin: Literal["model", "tool", "mcp", "store", "ours"] = "model"
    room: int | None = None
    """Tokens of output that would have fitted, where the provider's refusal says so."""


@dataclass(frozen=True, slots=True)
class Call:
    """A requested use of a tool, read against the agent's tools the moment the reply arrived.

    `id` is the provider's and may be reused for another call: (`turn`, `position`) is the identity.
    `arguments` are validated and canonical; when `problem` is set the call cannot run and they are as received.
    """

    turn: int
    position: int
    id: str
    tool: str
    arguments: Mapping[str, JSON]
    kind: Kind = "exec"
    target: str | None = None
    problem: str | None = None
    """Why the call cannot run (unknown tool, wrong arguments, cut off), in words for the model."""
    fault: Fault | None = None
    """The classified form of `problem`."""
    approval: str = ""
    """Why a person has to approve this call before it runs; empty when nobody has to."""

    @property
    def acting(self) -> bool:
        return self.kind in ACTING


@dataclass(frozen=True, slots=True)
class Opaque:
    """Parts of a reply that only their provider understands (signatures, encrypted reasoning), byte-exact."""

    provider: str
    payload: str
    """JSON text, replayed unchanged to the same provider and dropped for any other."""


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What the log needs to know of a tool to judge its calls later, without the tool's code."""

    name: str
    kind: Kind
    target: str | None = None
    """Name of the argument that says what is acted on."""
    confirmable: bool = False
    idempotent: bool = False
    repeatable: bool = False
    settle: float = 0.0
    """Seconds after which a "no" from confirm is final."""
    agent: str | None = None
    """Name of the agent behind the tool, when it is one."""
    tied: bool = False
    """Whether confirm looks at the result or the key of this very act: then a "yes" is this act's own."""


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Hard limits of a run; None is no limit. Money in US dollars, seconds of wall clock from the start."""

    turns: int | None = None
    calls: int | None = None
    tokens: int | None = None
    money: Decimal | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Spend:
    """What a run, with all its descendants, has used so far."""

    turns: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: Decimal | None = Decimal(0)
    """None once any part of it has no known price."""
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Evidence:
    """One proof that something is so in the world, and where in the log it was recorded."""

    what: Literal["effect", "check"]
    name: str
    detail: str
    seq: int


@dataclass(frozen=True, slots=True)
class Versions:
    """Digests pinned when the run starts, so that two runs can be told apart by what they ran with."""

    prompt: str = ""
    tools: str = ""
    policy: str = ""


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
    checks: tuple[str, ...] = ()
    """Names of the `done_when` checks: the required effects."""
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
    fallbacks: tuple[str, ...] = ()
    """Models to hop to on a rate limit, in order."""
    supervised: bool = False
    """Whether another agent or a callable is asked before a person."""
    typed: bool = False
    """Whether the answer has to be of a given type."""


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A fresh worker took the run over and folded its log. Without this fact the run would wait for ever."""

    epoch: int
    reason: str = "recovered"
    versions: Versions | None = None
    """What the new worker runs with; an approval given under other tools or another policy does not count."""


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
    """Upper bound of what this call can use: bytes sent and the largest output."""


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
    | ToolRefused
    | ToolStarted
    | ToolFinished
    | EffectChecked
    | ChildEnded
    | CheckEvaluated
    | VerdictGiven
    | CeilingReached
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
