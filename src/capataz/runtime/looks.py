"""When to look again at what another process changes: soon at first, then less and less often, and not for ever."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field

FIRST, LAST = 0.02, 0.5
"""Seconds between two looks: they grow from the first to the last while nothing happens."""


@dataclass(slots=True)
class Looks:
    """`patience` is the seconds in which something has to happen, `trouble` what is said when nothing did.

    >>> looks = Looks()
    >>> [round(looks.pause(), 3) for _ in range(3)], looks.pause(news=True)
    ([0.02, 0.03, 0.045], 0.02)
    """

    patience: float = math.inf
    trouble: str = ""
    _next: float = FIRST
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.patience

    def pause(self, *, news: bool = False) -> float:
        """Seconds until the next look. Raises `TimeoutError` where patience is at its end and there was no news."""
        if news:
            self._next, self._until = FIRST, time.monotonic() + self.patience
        elif time.monotonic() > self._until:
            raise TimeoutError(self.trouble)
        pause, self._next = self._next, min(self._next * 1.5, LAST)
        return pause

    async def rest(self, *, news: bool = False) -> None:
        """`pause`, slept in asynchronous code."""
        await asyncio.sleep(self.pause(news=news))
