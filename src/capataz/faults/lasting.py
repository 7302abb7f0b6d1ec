"""Trouble that lasts is told when it begins, at long intervals while it lasts, and when it is over.

A store that is away fails every beat, and a line for each would hide what else is said. Nothing here knows a log or a
clock of its own, and nothing is decided: whoever asks goes on asking.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

AGAIN = 600.0
"""Seconds between two lines about the same trouble. What has not failed for longer begins anew."""
MOST_REASONS = 5
"""New reasons that are told at once: words that never repeat must not bring the flood back."""


@dataclass(slots=True)
class _Trouble:
    began: float
    latest: float
    said: float
    times: int = 1
    reasons: set[str] = field(default_factory=set[str])


class Lasting:
    """What goes wrong again and again, told by `say` in few lines. `now` is in seconds and never goes back.

    >>> times = iter((0.0, 2.0, 4.0))
    >>> troubles = Lasting(print, lambda: next(times))
    >>> troubles.failed("the beat could not be written", "disk full")
    the beat could not be written: disk full (told again every 10 min while it lasts)
    >>> troubles.failed("the beat could not be written", "disk full")
    >>> troubles.over("the beat could not be written")
    over after 4 s and 2 times: the beat could not be written
    """

    def __init__(self, say: Callable[[str], object], now: Callable[[], float]) -> None:
        self._say, self._now = say, now
        self._troubles: dict[str, _Trouble] = {}

    def failed(self, what: str, why: object) -> None:
        """It failed once more. `what` is one of a few, and never names a run: there are too many of them.

        `why` may change, and a new reason is told at once; words with a digit in them (ids, ports) make no new one.
        """
        now, reason = self._now(), re.sub(r"\w*\d\w*", "#", str(why))
        trouble = self._troubles.get(what)
        if trouble is None or now - trouble.latest > AGAIN:
            self._troubles[what] = _Trouble(now, now, now, reasons={reason})
            self._say(f"{what}: {why} (told again every {_span(AGAIN)} while it lasts)")
            return
        trouble.latest, trouble.times = now, trouble.times + 1
        fresh = reason not in trouble.reasons and len(trouble.reasons) < MOST_REASONS
        if fresh or now - trouble.said >= AGAIN:
            trouble.reasons.add(reason)
            trouble.said = now
            self._say(f"still, after {_span(now - trouble.began)} and {trouble.times:,} times: {what}: {why}")

    def over(self, what: str, calm: float = 0.0) -> None:
        """It went well: the trouble is over, if there was one and it has not come back for `calm` seconds."""
        trouble = self._troubles.get(what)
        if trouble is None or (now := self._now()) - trouble.latest < calm:
            return
        del self._troubles[what]
        times = "once" if trouble.times == 1 else f"{trouble.times:,} times"
        self._say(f"over after {_span(now - trouble.began)} and {times}: {what}")


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
