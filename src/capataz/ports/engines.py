"""What brings submitted runs to the workers that drive them."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal, Protocol

from capataz.ports.queues import Claim, Job, JobRow


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
        """Order the end of a run. False where there is nothing to end, or its end was ordered before."""
        ...

    async def look(self, run: str) -> JobRow | None: ...

    async def wake(self, run: str) -> bool:
        """A person has answered: a run that waits goes on. False where it does not wait."""
        ...

    async def close(self) -> None: ...
