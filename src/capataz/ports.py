"""The seams: what the runtime needs from the world, as small protocols anyone may implement.

A port says what must be promised, never how. The conformance suites in `capataz.testing` turn each promise into a
test, so that a third-party store or model can prove it keeps them. Nothing here may do anything.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from capataz.events.facts import JSON, Event, Opaque, OutcomeName, Spend, Usage
from capataz.memory.transcript import Message


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


class Model(Protocol):
    """Something that answers. Every failure is raised as `ModelRefused` with a classified fault; nothing else."""

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        """Ask and return the whole answer. `beat()` is called at every sign of life."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RunRow:
    """A line of the list of runs: a cache of what folding the log would say."""

    run: str
    agent: str
    task: str
    status: Literal["running", "ended", "escalated"]
    outcome: OutcomeName | None
    reason: str
    started_at: float
    ended_at: float | None
    spend: Spend
    events: int
    root: str
    parent: str | None = None
    conversation: str | None = None
    task_type: str | None = None
    model: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to one run. Only the store raises `epoch`, when a run is claimed."""

    run: str
    owner: str
    epoch: int


class Store(Protocol):
    """Where logs are kept. An append is the fence: it states the sequence and the epoch it expects."""

    async def claim(self, run: str, owner: str) -> Lease:
        """Take the run: the epoch goes up by one and every earlier holder is fenced off from now on."""
        ...

    def append(self, lease: Lease, first_seq: int, events: Sequence[Event]) -> Future[None]:
        """Queue events for writing, in the order of the calls. The future is done when they are durable.

        It fails with `Fenced` when the lease's epoch is not the newest or `first_seq` is not the next position,
        and with `StoreError` when they could not be written; then nothing of the batch was.
        """
        ...

    async def read(self, run: str, after: int = -1) -> list[Event]:
        """The events with a position above `after`, in order; `NotFound` where there is no such run."""
        ...

    async def runs(
        self,
        limit: int = 50,
        *,
        agent: str | None = None,
        outcome: str | None = None,
        root: str | None = None,
        before: float | None = None,
    ) -> list[RunRow]:
        """Newest first."""
        ...

    async def close(self) -> None:
        """Write what is queued and let go of everything."""
        ...


class Clock(Protocol):
    """Time comes in as data; this is where it comes from."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Chance(Protocol):
    """Chance and identity come in as data; this is where they come from."""

    def fraction(self) -> float:
        """At least 0 and below 1."""
        ...

    def identity(self) -> str:
        """A fresh id, sortable by the time it was made."""
        ...
