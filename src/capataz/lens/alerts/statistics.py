"""The few statistics alerts rest on: is a share over a limit, has a mean moved, are two shares the same?

Costs and lengths of runs are skewed, so means are compared on the scale of logarithms, where a rise is a factor. Every
answer says how sure it is and, where it is not, how many more runs would settle it. Plain formulas, no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, log, sqrt

SURE = 4.0
"""z from which a rise counts as sure. With less, checking again and again alarms on noise."""
SURE_SHARE = 3.0
"""z for a share against a fixed limit."""
BASELINE = 7
"""How many times the recent window the one before it may hold."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share with its interval (Wilson's): `part` of `whole`."""

    part: int
    whole: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.part / self.whole if self.whole else 0.0


def share(part: int, whole: int, z: float = SURE_SHARE) -> Share:
    """A share and the interval it lies in, at z standard errors.

    >>> found = share(10, 100, 1.96)
    >>> round(found.low, 3), round(found.high, 3)
    (0.055, 0.174)
    """
    if not whole:
        return Share(0, 0, 0.0, 1.0)
    p, square = part / whole, z * z / whole
    middle = (p + square / 2) / (1 + square)
    half = z / (1 + square) * sqrt(p * (1 - p) / whole + square / (4 * whole))
    return Share(part, whole, max(0.0, middle - half), min(1.0, middle + half))


def runs_for_share(value: float, limit: float, z: float = SURE_SHARE) -> int:
    """How many it takes to tell a share of `value` from `limit`."""
    distance = abs(value - limit)
    if distance < 1e-9:
        return 10**6
    return ceil(z * z * max(value * (1 - value), limit * (1 - limit)) / distance**2)


@dataclass(frozen=True, slots=True)
class Rise:
    """How much a mean moved between two windows, as a factor less one; the interval is at 95 %."""

    effect: float
    low: float
    high: float
    z: float
    deviation: float
    """Standard deviation of the logarithms."""
    recent: int
    before: int


def rise(recent: Sequence[float], before: Sequence[float]) -> Rise | None:
    """Welch's test on the logarithms; None where a window has fewer than two values above zero."""
    new = [log(value) for value in recent if value > 0]
    old = [log(value) for value in before if value > 0]
    if len(new) < 2 or len(old) < 2:
        return None
    (mean_new, spread_new), (mean_old, spread_old) = _moments(new), _moments(old)
    error = sqrt(spread_new / len(new) + spread_old / len(old))
    moved = mean_new - mean_old
    z = moved / error if error > 0 else (0.0 if moved == 0 else 99.0 if moved > 0 else -99.0)
    deviation = sqrt((spread_new + spread_old) / 2)
    low, high = exp(moved - 1.96 * error) - 1, exp(moved + 1.96 * error) - 1
    return Rise(exp(moved) - 1, low, high, z, deviation, len(new), len(old))


def runs_for_rise(effect: float, deviation: float, before: int, z: float = SURE) -> int:
    """How many recent runs it takes to be sure of a rise of `effect`, with so many in the window before."""
    if effect <= 0:
        return 10**6
    room = (log(1 + effect) / z) ** 2 - deviation**2 / max(before, 1)
    return ceil(deviation**2 / room) if room > 0 else 10**6


def difference(part: int, whole: int, part_before: int, whole_before: int) -> tuple[float, float, float]:
    """(by how much a share has moved, and the bounds of that at 95 %). Whole lengths must not be zero."""
    p, q = part / whole, part_before / whole_before
    # Newcombe's interval, from Wilson's: it holds near 0 and 1 too.
    a, b = share(part, whole, 1.96), share(part_before, whole_before, 1.96)
    low = p - q - sqrt((p - a.low) ** 2 + (b.high - q) ** 2)
    high = p - q + sqrt((a.high - p) ** 2 + (q - b.low) ** 2)
    return p - q, low, high


def _moments(values: Sequence[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / (len(values) - 1)
