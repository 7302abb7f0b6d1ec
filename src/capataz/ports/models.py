"""What answers, and what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from capataz.events.facts import JSON, Opaque, Usage
from capataz.memory.message import Message


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it. `schema` is the JSON Schema of its arguments (an object)."""

    name: str
    description: str
    schema: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds each wait of one model call may take. There is no "none": a wait without an end is a hung turn."""

    connect: float = 10.0
    first_byte: float = 120.0
    silence: float = 60.0
    """Between two chunks of a stream."""
    total: float = 600.0


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call, neutral. `history` grows at its end only, within one run."""

    model: str
    """Name at the provider, without the provider's prefix."""
    system: str
    history: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    max_output: int | None = None
    temperature: float | None = None
    extra: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    """Parameters of the provider's own, sent as they are."""
    deadlines: Deadlines = Deadlines()
    memo: dict[str, Any] = field(default_factory=dict[str, Any])
    """Scratch that lives as long as the run: a model keeps its encoded messages here, and encodes each one once."""


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as the model wrote it. `cut` says that it was not written to its end: never repair and run it."""

    id: str
    name: str
    arguments: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer of a model, neutral. Streams are consumed inside the model; each chunk was a sign of life."""

    text: str
    calls: tuple[RawCall, ...] = ()
    stop: str = "stop"
    """stop, calls, length, refusal, filter, pause or the provider's own word."""
    usage: Usage = Usage(reported=False)
    model: str = ""
    thinking: str = ""
    opaque: Opaque | None = None
    first_byte: float | None = None
    warnings: tuple[str, ...] = ()
    id: str = ""
    """The provider's own name for this answer, where it gives one."""


class Model(Protocol):
    """Something that answers. Every failure is raised as `ModelRefused` with a classified fault; nothing else."""

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        """Ask and return the whole answer. `beat()` is called at every sign of life."""
        ...

    async def close(self) -> None: ...
