"""What the kernel wants done. Imperative, plain data; the runtime performs them and records what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from capataz.events.facts import JSON, Call, Fact, Purpose, RunEscalated
from capataz.memory.compress import Plan
from capataz.policy.table import Rule


@dataclass(frozen=True, slots=True)
class Record:
    """Write this down: a judgement of the kernel's own. Nothing else has to be done for it."""

    fact: Fact


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model, through the gateway. None means that no ceiling stands in the way."""

    turn: int
    attempt: int
    purpose: Purpose
    prompt_bound: int
    """Upper bound of the tokens the prompt can be."""
    max_output: int | None
    seconds: float | None
    money: Decimal | None
    """The call is not made if it could cost more than this."""
    model: int = 0
    """Which of the agent's models: 0 is its own, the others those it may hop to."""


@dataclass(frozen=True, slots=True)
class UseTool:
    call: Call
    key: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ConfirmEffect:
    """Ask the tool's read-back whether the effect is there."""

    call: Call
    phase: Literal["before", "after"]
    key: str
    result: JSON = None


@dataclass(frozen=True, slots=True)
class EvaluateChecks:
    names: tuple[str, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class DrawWait:
    """Draw how long to wait before trying again, and write it down."""

    rule: Rule
    attempt: int
    hint: float | None
    reason: str
    turn: int
    longest: float | None
    """Seconds left to the run: a longer wait is not begun."""


@dataclass(frozen=True, slots=True)
class Sleep:
    until: float
    turn: int


@dataclass(frozen=True, slots=True)
class Compress:
    """Ask for a new summary, through the gateway, and write down what came of it."""

    plan: Plan
    turn: int


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """Validate a typed answer."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class AskSupervisor:
    """Hand the run's trouble to the agent or callable that stands above it."""

    escalation: RunEscalated


Command: TypeAlias = (
    Record
    | CallModel
    | UseTool
    | ConfirmEffect
    | EvaluateChecks
    | DrawWait
    | Sleep
    | Compress
    | ReadAnswer
    | AskSupervisor
)
