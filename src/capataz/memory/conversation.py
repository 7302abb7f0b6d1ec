"""A person's thread with an agent, over many runs: what has to be kept of it, and what a store must promise.

What was said is kept, in order, with a summary of the older part; what a run did on the way to its answer is not, but
for the receipts of its effects. One run at a time works in a conversation. A message that arrives meanwhile waits in
the store, and a run of its own answers it next, in the order of arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from capataz.events.facts import Said


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message that wants an answer, and the run that is to give it."""

    conversation: str
    run: str
    agent: str
    text: str
    tenant: str = ""
    user: str = ""
    patience: float = 0.0
    """Seconds for which somebody stands beside it; a message of the queue waits as long as its job."""


@dataclass(frozen=True, slots=True)
class Entered:
    """The conversation is this run's. What it is told of what was before, and what others have done."""

    summary: str
    said: tuple[Said, ...]
    upto: int
    """Position in the conversation of what comes first in `said`."""
    standing: tuple[str, ...]
    """Effects other runs of the conversation have made or may have made."""
    unsettled: tuple[str, ...] = ()
    """Runs that had the conversation and were given up: what they did is only in their logs."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a run leaves to its conversation. A fold over its log, so it may be told twice."""

    answer: str = ""
    summary: str = ""
    upto: int = 0
    """The summary holds what was said before this position; it counts only where that is news."""
    standing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation as the list shows it. Times in seconds since the epoch."""

    conversation: str
    agent: str
    tenant: str
    user: str
    created_at: float
    changed_at: float
    messages: int
    waiting: int
    """Messages no run has taken up yet."""
    run: str | None
    """The run at work in it."""
    summarised: int
    """How many messages, from the first, the summary stands for."""
    summary: str = ""


class Conversations(Protocol):
    """Where conversations are kept: beside the logs, under one clock for all workers. Raises `StoreError`."""

    async def arrive(self, message: Arrived) -> None:
        """Keep a message, or stand beside it for longer. Said twice of one run, it is there once.

        Raises `Misuse` when the conversation is another agent's, tenant's or user's.
        """
        ...

    async def enter(self, conversation: str, run: str, lease: float) -> Entered | None:
        """The conversation for this run, for so many seconds; None while another has it or an earlier message waits.

        A run whose time is over and whose job is no more is given up, and becomes `unsettled`; a message nobody stands
        beside any more counts as said. Raises `NotFound` when the conversation was erased.
        """
        ...

    async def stay(self, conversation: str, run: str, lease: float) -> bool:
        """Hold on for so many seconds from now; False when it is another run's. With 0: let go, and stop waiting."""
        ...

    async def leave(self, conversation: str, run: str, told: Told) -> None:
        """Keep what a run that has come to its end (or was given up) leaves, and let the next one in."""
        ...

    async def threads(self, limit: int = 50) -> list[Thread]:
        """Those that changed last first."""
        ...

    async def thread(self, conversation: str) -> tuple[Thread, list[Said]]:
        """One, with all that was said in it. Raises `NotFound`."""
        ...

    async def erase(self, conversation: str) -> int:
        """Take out the conversation, its runs with those of their sub-agents, and their jobs; how many runs.

        Raises `Misuse` while a run is at work in it, and `NotFound`.
        """
        ...
