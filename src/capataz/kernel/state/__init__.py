"""What the kernel knows of a run, and all that `decide` may look at. It is never stored as truth: it is a fold.

Each part is a module of its own, by the subject it is about; it holds what is known of it, and how that grows. No part
knows another: `capataz.kernel.evolve` tells each what has happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from capataz.events.facts import (
    Ceilings,
    Event,
    Fault,
    HandedOver,
    RunEnded,
    RunEscalated,
    RunStarted,
    Spend,
    ToolFacts,
    Versions,
)
from capataz.guards.base import Signal
from capataz.kernel.state.answer import Answer
from capataz.kernel.state.asking import Asking
from capataz.kernel.state.checks import Checks
from capataz.kernel.state.judgement import Judgement
from capataz.kernel.state.ledger import Ledger
from capataz.kernel.state.people import People
from capataz.kernel.state.prompt import Prompt
from capataz.kernel.state.spending import Spending
from capataz.kernel.state.turn import Turn
from capataz.memory.transcript import Transcript
from capataz.policy.policy import Policy


class Watching(Protocol):
    """Guards fed together. `capataz.guards.watch.Watch` is the one that is used."""

    def start(self) -> Any: ...
    def step(self, state: Any, event: Event, /) -> tuple[Any, tuple[Signal, ...]]: ...
    def handed(self, state: Any, /) -> tuple[HandedOver, ...]: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What a run is judged by: fixed when it starts (or is replayed), never part of the log."""

    policy: Policy
    watch: Watching


NOT_BEGUN = RunStarted(run="", agent="", task="", role="talking")
"""Stands for the run's beginning until it is told."""


@dataclass(slots=True)
class State:
    """Everything `decide` may look at."""

    rules: Rules
    watched: Any
    """The guards' own memory."""

    started: RunStarted = NOT_BEGUN
    started_at: float = 0.0
    now: float = 0.0
    paused: float = 0.0
    """Seconds in which nobody worked on the run: it waited for a person, or for a worker."""
    seq: int = -1
    """Position of the newest event."""
    versions: Versions = Versions()
    """What the worker that drives the run now runs with."""
    tools: Mapping[str, ToolFacts] = field(default_factory=dict[str, ToolFacts])

    transcript: Transcript = field(default_factory=Transcript)
    """What the model sees."""
    prompt: Prompt = field(default_factory=Prompt)
    asking: Asking = field(default_factory=Asking)
    turn: Turn = field(default_factory=Turn)
    ledger: Ledger = field(default_factory=Ledger)
    """What has taken effect."""
    tool_faults: dict[str, tuple[Fault, int]] = field(default_factory=dict[str, tuple[Fault, int]])
    """Tools whose newest use failed: the fault, and where it is recorded."""
    waiting: tuple[float, int] | None = None
    """(until, turn): a pause before another try of the model or of a tool, begun and not ended."""
    spent: Spending = field(default_factory=Spending)

    judgement: Judgement = field(default_factory=Judgement)
    checks: Checks = field(default_factory=Checks)
    people: People = field(default_factory=People)
    answer: Answer = field(default_factory=Answer)

    escalated: RunEscalated | None = None
    """Somebody else has to decide, and has not yet."""
    ended: RunEnded | None = None

    @property
    def begun(self) -> bool:
        return self.started is not NOT_BEGUN

    @property
    def over(self) -> bool:
        """Nothing can be done here: the run has ended, or a person has to decide."""
        return self.ended is not None or (self.escalated is not None and self.escalated.to == "human")

    @property
    def acting(self) -> bool:
        return self.started.role == "acting"

    @property
    def ceilings(self) -> Ceilings:
        return self.started.ceilings

    @property
    def elapsed(self) -> float:
        """Seconds somebody has worked on the run."""
        return self.now - self.started_at - self.paused

    @property
    def spend(self) -> Spend:
        """What this run and its children have used so far."""
        return self.spent.total(self.turn.number, self.elapsed)
