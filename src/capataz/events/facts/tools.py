"""What became of the calls a model asked for, and what the world said of their effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capataz.events.values import JSON, Answer3, Call, Fault


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
