"""What was asked of a model, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from capataz.events.values import JSON, Call, Fault, Opaque, Purpose, Usage


@dataclass(frozen=True, slots=True)
class ModelCallStarted:
    turn: int
    attempt: int
    model: str
    purpose: Purpose = "loop"
    reserved_tokens: int = 0
    """The most it can use: the bytes sent and the largest output."""
    endpoint: str = ""
    """The provider, or "provider at address"."""
    settings: Mapping[str, JSON] | None = None
    """What was asked for beside the history, where anything was: temperature, max_tokens, top_p, ..."""


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
    response: str = ""
    """The provider's own name for this answer, where it gives one."""


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
class CapabilityLearned:
    """A provider refused a parameter by name. `advice` is the line for the capability table; nobody applies it."""

    model: str
    parameter: str
    advice: str
