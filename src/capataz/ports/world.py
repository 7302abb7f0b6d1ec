"""Where time, chance and identity come from, and who watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from capataz.events.facts import Event


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
