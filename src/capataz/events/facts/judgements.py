"""What the run was judged by: its checks, its guards, its ceilings, the type of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class CheckEvaluated:
    """One `done_when` check was asked. `detail` is the reason, in words for the model."""

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class VerdictGiven:
    """What the kernel made of a signal under the policy. A recorded verdict wins over today's code."""

    action: Literal["nudge", "fail-turn", "stop", "escalate", "observe"]
    guard: str
    kind: str
    identity: str
    """Which loop (or claim, or silence): the same one a second time is what stops a run."""
    evidence: tuple[int, ...]
    """Sequence numbers of the events that prove it."""
    turn: int
    words: str = ""
    """For a person."""
    note: str = ""
    """For the model; empty when it is told nothing."""


@dataclass(frozen=True, slots=True)
class CeilingReached:
    """A warning, not an error: the run will end `Partial` with what it has."""

    ceiling: Literal["turns", "calls", "tokens", "money", "seconds"]
    limit: float
    used: float


@dataclass(frozen=True, slots=True)
class AnswerRead:
    """A typed answer was validated. `problem` says what is wrong with it; empty when nothing is."""

    turn: int
    problem: str = ""
