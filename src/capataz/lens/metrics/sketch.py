"""Percentiles in bounded memory: values are counted in buckets that grow by two percent.

A percentile is right to within one percent of its value, however many values there were, and two sketches add up to
the sketch of both. Nothing is sampled and nothing is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, log

GROWTH = 1.02
_LOG = log(GROWTH)
SMALLEST = 1e-6
"""Values at or below it are counted as zero."""


@dataclass(slots=True)
class Sketch:
    """Counts by bucket. About 1,400 buckets between a microsecond and ten days."""

    count: int = 0
    total: float = 0.0
    buckets: dict[int, int] = field(default_factory=dict[int, int])
    least: float = float("inf")
    most: float = 0.0

    def add(self, value: float) -> None:
        """Count one value; what is below zero counts as zero."""
        value = max(0.0, value)
        place = ceil(log(value) / _LOG) if value > SMALLEST else -(10**6)
        self.buckets[place] = self.buckets.get(place, 0) + 1
        self.count += 1
        self.total += value
        self.least, self.most = min(self.least, value), max(self.most, value)

    def merge(self, other: Sketch) -> None:
        for place, count in other.buckets.items():
            self.buckets[place] = self.buckets.get(place, 0) + count
        self.count += other.count
        self.total += other.total
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """The value that this share of all is not above; None without values.

        >>> sketch = Sketch()
        >>> for number in range(1, 101): sketch.add(number)
        >>> round(sketch.quantile(0.5))
        50
        """
        if not self.count:
            return None
        wanted, seen = max(1, ceil(share * self.count)), 0
        for place in sorted(self.buckets):
            seen += self.buckets[place]
            if seen >= wanted:
                middle = 0.0 if place == -(10**6) else GROWTH**place / (1 + (GROWTH - 1) / 2)
                return min(max(middle, self.least), self.most)
        return self.most

    def below(self, bound: float) -> int:
        """How many values are at or below a bound, to within a bucket: for histograms of others."""
        if bound >= self.most:
            return self.count
        place = ceil(log(bound) / _LOG) if bound > SMALLEST else -(10**6)
        return sum(count for at, count in self.buckets.items() if at <= place)
