"""The values that facts are made of: calls, faults, usage, ceilings, evidence. They are frozen, like the facts.

They are imported from `capataz.events.facts`, beside the facts that hold them. Nothing here knows of a run or a log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
class HandedOver:
    """How often two agents of one root have handed work to each other since an effect last changed."""

    giver: str
    taker: str
    """Of the latest hand-off between the two."""
    count: int = 1
    told: bool = False
    """Whether one of them was told to stop it."""


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
class Said:
    """Something a person or an agent said in a conversation."""

    role: Literal["user", "assistant"]
    text: str
    run: str = ""
    """The run it was said in or started."""


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


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a run was split off from another one: what came before is the other's record, with one edit."""

    run: str
    step: int
    """Position of the last event that was taken over."""
    edit: str = ""
    """What was edited, in words."""
    dry: bool = True
    """Whether acting tools are only described, not run."""
    prompt: bool = False
    """Whether the instructions that stand in this log take the place of the agent's."""
    policy: str = ""
    """The text of the policy file that takes the place of the agent's policy; empty for none."""
