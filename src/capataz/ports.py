"""The seams: what the runtime needs from the world, as small protocols anyone may implement.

A port says what must be promised, never how. The conformance suites in `capataz.testing` turn each promise into a
test, so that a third-party store or model can prove it keeps them. Nothing here may do anything.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from capataz.events.facts import JSON, Event, Opaque, OutcomeName, Spend, Usage
from capataz.memory.transcript import Message
from capataz.money.accounts import Limit, Refusal, Reservation, Spent


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


# ── the queue: which run is driven next, by whom ─────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Job:
    """A run to be driven by some worker. Everything else about the run is in its log."""

    run: str
    agent: str
    task: str
    task_type: str | None = None
    conversation: str | None = None
    tenant: str = ""
    """Whose it is: slots are shared out evenly among tenants."""
    priority: int = 0
    """Higher goes first, among the jobs of one tenant."""
    due: float = 0.0
    """Not before this time (seconds since the epoch)."""
    key: str | None = None
    """A second job with the same key is not taken: it is the first one."""
    user: str = ""
    """On whose behalf it is, beside the tenant."""


JobState: TypeAlias = Literal["queued", "parked", "claimed", "waiting", "done", "dead", "cancelled"]
"""queued: to be driven. parked: the same, not before `due`. claimed: a worker has it. waiting: for a person; it is
queued again as soon as its log goes on. done, dead, cancelled: over; dead is a run that kept killing its workers."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to drive a job until the lease ends; beats move its end. `token` is raised by every claim."""

    job: Job
    worker: str
    token: int
    until: float
    order: str | None = None
    """Why the run shall be broken off ("cancelled: ..."); None where it shall go on."""


@dataclass(frozen=True, slots=True)
class Crashes:
    """How often a job took its worker down with it: at the step it is at now, and in all."""

    here: int
    total: int


@dataclass(frozen=True, slots=True)
class TurnBeat:
    """The last sign of life of a claimed run. `silent` is how long, in seconds, it may stay without another."""

    run: str
    token: int
    at: float
    waiting_for: Literal["model", "tool", "own"]
    silent: float


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """A worker says that it is alive, and how its runs are. It comes from a thread of its own, not from the loop."""

    worker: str
    slots: int
    busy: int
    lag: float
    """Seconds the event loop was late to answer."""
    health: str = "well"
    """well, draining, or why it takes no more work."""
    turns: tuple[TurnBeat, ...] = ()


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker is told in answer to its beat."""

    until: float
    """Its leases now end then."""
    lost: tuple[str, ...] = ()
    """Runs it has no longer: stop work on them, start nothing more."""
    breaks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Runs to break off, and why."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as the queue shows it."""

    job: Job
    state: JobState
    worker: str | None
    crashes: Crashes
    enqueued_at: float
    until: float | None = None
    order: str | None = None
    reason: str = ""
    """Why it is dead or cancelled."""
    beat: TurnBeat | None = None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as the others see it. One whose `until` has passed is dead or frozen."""

    beat: WorkerBeat
    started_at: float
    beat_at: float
    until: float


class Queue(Protocol):
    """Which run is driven next. It dispatches and counts; what happened in a run is only in its log.

    A lease is a promise about time and may be broken by a frozen process; what keeps two workers from writing to one
    run is the store's epoch, never the lease. Every operation with a claim does nothing, and says False, once the claim
    is not the newest. May be used from several event loops. `now` is the queue's own clock: one for all its workers.
    """

    async def enqueue(self, job: Job) -> str:
        """Put the job in; the id of the run, which is an earlier one's where the key (or the run) is known."""
        ...

    async def claim(
        self, worker: str, agents: Collection[str], lease: float, *, per_tenant: int | None = None, most: int = 1
    ) -> list[Claim]:
        """Up to `most` jobs that are due, for `lease` seconds, and none of a tenant that has `per_tenant` claimed.

        The tenant with the fewest claimed jobs goes first, then the one served longest ago. A job whose lease has run
        out is due again; whoever claims it counts the crash, here, before any work is begun.
        """
        ...

    async def begin(self, claim: Claim, step: str) -> Crashes | None:
        """Say at which step the run is, before it is driven on. Crashes at another step than the last do not count
        as crashes here. None when the claim is lost."""
        ...

    async def release(self, claim: Claim, until: float | None = None) -> bool:
        """Give the job back in good order, to be driven on at once or at `until`. That is no crash; where the lease
        was lost in the meantime, a crash that was counted for it is taken back."""
        ...

    async def finish(self, claim: Claim, state: Literal["done", "waiting", "dead", "cancelled"], reason: str) -> bool:
        """The job is over, or waits for a person."""
        ...

    async def cancel(self, run: str, reason: str) -> JobState | None:
        """Break a run off. A job no worker has begun is over at once; else whoever has it, or claims it next, is
        ordered to. The state it is in now; None where there is no such job."""
        ...

    async def beat(self, beat: WorkerBeat, lease: float) -> Orders:
        """A worker is alive: its leases, and its own, now end in `lease` seconds. What it shall do comes back."""
        ...

    async def leave(self, worker: str, crashed: bool = False) -> int:
        """A worker is gone: what it still had is due at once, and a crash of each where it `crashed`. How many."""
        ...

    async def lead(self, worker: str, lease: float) -> bool:
        """Whether this worker is the one that looks after the others, for so many seconds: one at a time is."""
        ...

    async def look(self, run: str) -> JobRow | None: ...

    async def jobs(self, states: Collection[JobState] = (), limit: int = 100) -> list[JobRow]:
        """Newest first; all states where none is given."""
        ...

    async def workers(self) -> list[WorkerRow]:
        """All that have not left, dead ones too."""
        ...


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of driving a run: it is over (`state`), or it gives its slot back until a time.

    A run that was cut because it hung keeps its claim until the lease runs out: the next one counts a crash.
    """

    state: Literal["done", "waiting", "dead", "cancelled", "parked", "hung"]
    reason: str = ""
    until: float | None = None


class Driver(Protocol):
    """Drives one claimed run from its log until it is over, waits, or is told to stop. The engine's way in."""

    def __call__(self, claim: Claim) -> Awaitable[Driven]: ...


class Engine(Protocol):
    """Brings submitted runs to workers: the local one over a `Queue`, another over a cluster's own machinery."""

    async def submit(self, job: Job) -> str:
        """Take the job in; the id of the run (an earlier one's, where the key is known)."""
        ...

    async def cancel(self, run: str, reason: str) -> bool:
        """Order the end of a run. False where there is nothing to end."""
        ...

    async def look(self, run: str) -> JobRow | None: ...

    async def wake(self, run: str) -> bool:
        """A person has answered: a run that waits goes on. False where it does not wait."""
        ...

    async def close(self) -> None: ...


# ── records of other runtimes ────────────────────────────────────────────────────────────────────────────────


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


# ── what it costs ────────────────────────────────────────────────────────────────────────────────────────────


class Accounts(Protocol):
    """Balances beside the logs, brought forward in the transactions that append to them: they cannot drift apart.

    Every append settles by itself what its facts bring to an end: the reply of a call, its failure, the resumption
    or the end of a run. A reservation whose call's end is not known is charged in full.
    """

    def reserve(
        self, lease: Lease, first_seq: int, events: Sequence[Event], wanted: Reservation, limits: Sequence[Limit]
    ) -> Future[Refusal | None]:
        """`Store.append`, and in the same transaction hold what the model call can use that the last event starts.

        The place of that event is the key. `limits` hold beside those that are set in the store, which go before them.
        A refusal holds nothing; the events are written all the same.
        """
        ...

    async def limits(self) -> list[Limit]: ...

    async def allow(self, limit: Limit) -> None:
        """Set a limit, in the place of the one there is for this account and period."""
        ...

    async def disallow(self, whose: str, name: str, period: str) -> bool:
        """Take a limit away; False where there was none."""
        ...

    async def spent(self, by: str, bucket: str = "total", limit: int = 100) -> list[Spent]:
        """What was spent by each "tenant", "user", "agent", "run" or "source" in a period ("total", "2026-11",
        "2026-11-30"; runs have only a total), the greatest first."""
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


class Observer(Protocol):
    """Someone who watches runs: spans, logs. It is called in the run's own task and may neither wait nor raise."""

    def __call__(self, run: str, event: Event, /) -> None:
        """A fact has been recorded."""
        ...

    def recall(self, run: str, events: Sequence[Event], /) -> None:
        """A run is taken up from its log; these facts were recorded before, perhaps by another process."""
        ...
