"""Alerts over a store: read what the rules need, evaluate, tell whoever is to be told.

The way out is one function for real alerts and for tried ones alike, so that a trial proves the way and not a copy of
it. Where notices go is given by the caller: a webhook's `tell`, a mailbox, a list.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from capataz.events.facts import JSON
from capataz.lens.alerts.evaluate import Reading, evaluate, history_needed
from capataz.lens.alerts.points import Point, point_of
from capataz.lens.alerts.rules import Rule
from capataz.lens.alerts.state import Notice
from capataz.lens.alerts.trial import trial
from capataz.lens.metrics.figures import figures_of
from capataz.mistakes import NotFound
from capataz.ports import Store
from capataz.telemetry.reading import rows_since

MOST_POINTS = 50_000
"""Runs looked at, the newest; at half a kilobyte each."""
_log = logging.getLogger("capataz.alerts")


async def points_for(store: Store, rules: Sequence[Rule], now: float) -> list[Point]:
    """The runs these rules look at: a stretch of time, and a number of runs beyond it, whichever is more."""
    seconds, runs = history_needed(rules)
    found: list[Point] = []
    async for row in rows_since(store):
        old = row.started_at < now - seconds and (row.ended_at or row.started_at) < now - seconds
        if len(found) >= MOST_POINTS or (old and len(found) >= runs):
            break
        try:
            found.append(point_of(figures_of(await store.read(row.run))))
        except NotFound:
            continue
    return found


def read_all(rules: Sequence[Rule], points: Sequence[Point], now: float) -> list[Reading]:
    """What each rule reads."""
    return [evaluate(rule, points, now) for rule in rules]


def try_all(rules: Sequence[Rule], now: float) -> list[Notice]:
    """A notice of each rule, from made-up runs, marked as a test."""
    return [Notice("test", trial(rule, now), now, now) for rule in rules]


def deliver(notices: Sequence[Notice], tell: Sequence[Callable[[Mapping[str, JSON]], None]], link: str = "") -> None:
    """Tell everyone of every notice: the log first, then each way out that was given."""
    for notice in notices:
        _log.log(logging.INFO if notice.kind == "resolved" else logging.WARNING, "%s", notice.text(link).rstrip())
        for way in tell:
            way(notice.json(link))
