"""Where logs are kept, and the records of runs that other runtimes drive."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from capataz.events.facts import Event, OutcomeName, Spend


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


@dataclass(frozen=True, slots=True)
class KeptSpan:
    """A span as it came. `ended` (seconds since the epoch) orders snapshots of the same span."""

    trace: str
    span: str
    ended: float
    body: bytes


class SpanBook(Protocol):
    """Where spans of other runtimes are kept, unique by trace and span; the later snapshot of a span stays."""

    async def keep(self, spans: Sequence[KeptSpan], now: float, most: int) -> tuple[frozenset[str], int]:
        """Take spans in; the traces that they changed, and how many were refused since their trace has `most`."""
        ...

    async def of(self, trace: str) -> list[KeptSpan]: ...

    async def open(self, before: float, limit: int = 100) -> list[tuple[str, float]]:
        """Traces of which more is expected, without news since `before`, with the time of the last."""
        ...

    async def settle(self, trace: str, last: float) -> None:
        """Nothing more is expected, unless news have come since `last`."""
        ...

    async def forget(self, before: float, limit: int = 1000) -> int:
        """Drop the spans of settled traces without news since `before`; how many traces. Their runs stay."""
        ...


class RecordStore(Store, Protocol):
    """A store that also keeps records of runs that other runtimes drive."""

    def spans(self) -> SpanBook: ...

    async def rewrite(self, lease: Lease, events: Sequence[Event]) -> None:
        """Put a record in the place of the one before it, all at once.

        A record is told anew when more of it comes; a log of our own never is: that is refused with `Misuse`.
        """
        ...
