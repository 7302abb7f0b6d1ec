"""Reading again what was read: a second sweep over known ranges, shifted so that no call repeats byte for byte."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from capataz.events.facts import JSON, Event
from capataz.guards.base import Signal
from capataz.guards.canon import meaningful
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.reading import Step, note, trim
from capataz.guards.shared import Shared

TRACKS = 64
PARTS = 128
"""Separate ranges remembered of one source."""

_STARTS = (
    "offset",
    "start",
    "from",
    "begin",
    "skip",
    "start_line",
    "line_start",
    "first",
    "lo",
    "from_line",
    "position",
)
_ENDS = ("end", "to", "stop", "until", "end_line", "line_end", "last", "hi", "to_line")
_LENGTHS = ("limit", "length", "count", "size", "n", "num", "lines", "max", "max_lines", "num_lines", "take", "bytes")


@dataclass(slots=True)
class Track:
    """Ranges [start, end) of one source that were read: sorted, and none touches another."""

    starts: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])

    def add(self, start: int, end: int) -> int:
        """Take the range in, and say how much of it was known."""
        starts, ends = self.starts, self.ends
        first, after = bisect_left(ends, start), bisect_right(starts, end)
        overlap = 0
        if first < after:
            touched = zip(starts[first:after], ends[first:after], strict=True)
            overlap = sum(min(end, high) - max(start, low) for low, high in touched)
            start, end = min(start, starts[first]), max(end, ends[after - 1])
        starts[first:after], ends[first:after] = (start,), (end,)
        if len(starts) > PARTS:
            del starts[0], ends[0]
        return overlap


@dataclass(slots=True)
class Sweeps:
    tracks: dict[int, Track] = field(default_factory=dict[int, Track])
    stale: int = 0
    places: list[int] = field(default_factory=list[int])
    epoch: int = 0
    page: int = 0


class Sweeping(Shared[Sweeps]):
    """Ranges that were mostly read before, one after the other, while nothing changed."""

    name = "sweeping"
    kinds = frozenset(("read", "search", "poll"))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Sweeps:
        return Sweeps()

    def see(self, state: Sweeps, event: Event, step: Step | None) -> Signal | None:
        if step is None or step.acting or step.error or step.free:
            return None
        span = span_of(step.call.arguments)
        if span is None:
            return None
        epoch, page = step.reader.epoch - step.moved, step.reader.page
        if epoch != state.epoch or page != state.page:
            state.epoch, state.page, state.stale = epoch, page, 0
            state.tracks.clear()
        start, end, source = span
        key = hash((step.tool, source))
        track = state.tracks.get(key)
        if track is None:
            track = state.tracks[key] = Track()
            trim(state.tracks, TRACKS)
        if track.add(start, end) * 2 < end - start:
            state.stale = 0
            return None
        if not state.stale:
            state.places = []
        state.stale += 1
        note(state.places, step.seq)
        return self._signal(state, step)

    def _signal(self, state: Sweeps, step: Step) -> Signal | None:
        limit = self.thresholds.stale
        if state.stale < limit.nudge:
            return None
        what = step.call.target or step.tool
        return Signal(
            self.name,
            "no-progress",
            f"sweep:{step.tool}:{what}:{step.epoch}",
            tuple(state.places),
            "stop" if state.stale >= limit.stop else "nudge",
            f"{state.stale} ranges of {what} in a row had mostly been read before.",
            f"You are reading {what} a second time: the last {state.stale} ranges were mostly known to you. What you "
            "look for is not there; use what you read, look elsewhere, or say that it is not to be found.",
            setting="stale",
            count=state.stale,
        )


@lru_cache(maxsize=4096)
def _names(keys: tuple[str, ...]) -> tuple[str, str, bool] | None:
    """(start, end or length, whether it is a length) among the names of a call's arguments."""
    start = next((name for name in _STARTS if name in keys), None)
    end = next((name for name in _ENDS if name in keys and name != start), None)
    length = next((name for name in _LENGTHS if name in keys), None)
    other = end or length
    return None if start is None or other is None else (start, other, end is None)


def span_of(arguments: Mapping[str, JSON]) -> tuple[int, int, int] | None:
    """(start, end, hash of the other arguments) where a call asks for a range of something.

    >>> span_of({"path": "a", "offset": 10, "limit": 5})[:2]
    (10, 15)
    """
    names = _names(tuple(arguments))
    if names is None:
        return None
    start, end = arguments[names[0]], arguments[names[1]]
    if type(start) is not int or type(end) is not int:
        return None
    if names[2]:
        end += start
    if end <= start:
        return None
    others = 0
    for key, value in meaningful(arguments).items():
        if key != names[0] and key != names[1]:
            others ^= hash((key, repr(value)))
    return start, end, others
