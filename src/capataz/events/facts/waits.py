"""Pauses before another try, and what is left alone for a while because it keeps failing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class WaitStarted:
    """The runtime pauses before trying again. `seconds` is what was drawn, so that a replay draws nothing."""

    seconds: float
    reason: str
    turn: int


@dataclass(frozen=True, slots=True)
class WaitEnded:
    turn: int


@dataclass(frozen=True, slots=True)
class BreakerOpened:
    """So many failures in a row that what failed is left alone for a while, by every run of this process."""

    of: Literal["provider", "tool"]
    name: str
    failures: int
    seconds: float
    """How long it is left alone, before one call tries."""
    reason: str


@dataclass(frozen=True, slots=True)
class BreakerClosed:
    """What was left alone has answered again."""

    of: Literal["provider", "tool"]
    name: str
