"""What is behind a run: the models, the tools and the checks of an agent, made ready, and what all runs share.

These are values for the performer and those who prepare its work. Nothing here decides or does anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from capataz.checks import Check
from capataz.events.facts import JSON, Call, ChildEnded, EscalationAnswered, RunEscalated, RunStarted
from capataz.faults.classify import ToolFaults
from capataz.models.gateway import Gateway
from capataz.money.accounts import Payer, Source
from capataz.policy.breaker import Breakers
from capataz.ports import Chance, Clock, Deadlines, Model
from capataz.runtime.journal import Journal
from capataz.runtime.privacy import Privacy
from capataz.tools.toolset import Toolset
from capataz.tools.usercode import Threads


@dataclass(frozen=True, slots=True)
class Voice:
    """A model and how it is called."""

    model: Model
    provider: str
    name: str
    """Its name at the provider."""
    own_server: bool = False
    """Served from an address of the user's own: the provider's price list does not apply."""
    endpoint: str = ""
    """What fails together with it: the provider, or the server of one's own."""

    @property
    def priced_as(self) -> str:
        """Whose price list applies; nobody's for a server of one's own."""
        return "" if self.own_server else self.provider

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"


@dataclass(frozen=True, slots=True)
class Worker:
    """What is behind a run and how it is asked: everything about the agent that only the performer needs."""

    voices: tuple[Voice, ...]
    """The agent's own model, then those it may hop to on a rate limit."""
    system: str
    toolset: Toolset
    checks: Mapping[str, Check] = field(default_factory=dict[str, Check])
    deadlines: Deadlines = Deadlines()
    max_output: int | None = None
    temperature: float | None = None
    extra: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    read_answer: Callable[[str], str] | None = None
    """Says what is wrong with a typed answer; an empty string when nothing is."""
    summariser: Voice | None = None
    """Writes the summaries of long histories; the agent's own model where none is given."""
    supervise: Callable[[RunEscalated, Journal], Awaitable[EscalationAnswered | None]] | None = None
    source: Source = "loop"
    """What its calls are booked as."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """What a sub-agent hands to its parent: its outcome as data, never just its words."""

    result: JSON
    ended: ChildEnded | None
    """None where no child was begun."""


class Delegate(Protocol):
    """Runs the agent behind a tool as a child of this run, within what is left of its budget.

    `key` is the same for every try at the same call: a child that was begun before a crash is taken up, not repeated.
    """

    def __call__(self, call: Call, parent: Journal, key: str) -> Awaitable[ChildResult]: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every run of a process shares."""

    gateway: Gateway
    clock: Clock
    chance: Chance
    threads: Threads
    breakers: Breakers = field(default_factory=Breakers)
    """Of the tools; of this process only."""
    faults: ToolFaults = field(default_factory=ToolFaults)
    """Rows of the user's own exceptions."""
    privacy: Privacy | None = None
    """What must not leave; None where the user has switched masking off."""


def payer_of(started: RunStarted) -> Payer:
    """Whose accounts pay for the calls of a run: the root's, with all its descendants."""
    return Payer(started.root or started.run, started.agent, started.tenant, started.user)


def within(deadlines: Deadlines, seconds: float | None) -> Deadlines:
    """The deadlines of a call, none of them later than the end of the run."""
    if seconds is None or seconds >= deadlines.total:
        return deadlines
    left = max(seconds, 0.05)
    return Deadlines(min(deadlines.connect, left), min(deadlines.first_byte, left), min(deadlines.silence, left), left)
