"""Which run is driven next, by whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias


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
    tries: int = 0
    """How often a worker took it."""


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
        ordered to. The state it is in now; None where nothing was ordered: there is no such job, it is over, or it was
        ordered before. The first order stands, with its reason: it may have been handed out already."""
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

    async def jobs(
        self, states: Collection[JobState] = (), limit: int = 100, *, tenant: str | None = None, untaken: bool = False
    ) -> list[JobRow]:
        """Newest first; all states where none is given, and all tenants. `untaken`: only those no worker ever took."""
        ...

    async def workers(self) -> list[WorkerRow]:
        """All that have not left, dead ones too."""
        ...
