"""From a store to figures: the runs of a window, one log at a time; for a scraper, only what is new.

Nothing of a log is kept once it is folded. What is read is the store's; this module decides nothing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import dataclass
from math import inf, nextafter

from capataz.lens.metrics.figures import Figures, figures_of
from capataz.lens.metrics.prometheus import exposition
from capataz.lens.metrics.tally import Tally
from capataz.mistakes import NotFound, Sealed, StoreError, Unreadable
from capataz.ports import RunRow, Store

PAGE = 500
PATIENCE = 7 * 86_400.0
"""Seconds a scraper looks back for runs that are still open; an older one is counted as it stands."""

_LOG = logging.getLogger("capataz")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the list of runs to go on: behind this run, or without one at what began before this time."""

    started_at: float
    run: str = ""


async def rows_behind(
    store: Store, place: Place | None, *, agent: str | None = None, outcome: str | None = None, size: int = PAGE
) -> AsyncIterator[RunRow]:
    """The runs of the list from this place on, newest first, each once; also among those begun at one moment."""
    before = None if place is None else nextafter(place.started_at, inf) if place.run else place.started_at
    waiting = place is not None and bool(place.run)
    async for row in _rows(store, before, agent, outcome, size):
        if waiting and place is not None and row.started_at == place.started_at:
            waiting = row.run != place.run
            continue
        yield row


async def rows_since(store: Store, since: float | None = None, agent: str | None = None) -> AsyncIterator[RunRow]:
    """The runs begun at or after `since` (seconds since the epoch; None: all), newest first, each once."""
    async for row in _rows(store, None, agent, None, PAGE):
        if since is not None and row.started_at < since:
            return
        yield row


async def _rows(
    store: Store, before: float | None, agent: str | None, outcome: str | None, size: int
) -> AsyncIterator[RunRow]:
    seen: set[str] = set()
    limit = size
    while True:
        page = await store.runs(limit, agent=agent, outcome=outcome, before=before)
        fresh = [row for row in page if row.run not in seen]
        for row in fresh:
            yield row
        if len(page) < limit:
            return
        # Runs may have begun at the very same moment: the next page overlaps, and grows where that is not enough.
        last = page[-1].started_at
        seen = {row.run for row in page if row.started_at == last} | (seen if before == nextafter(last, inf) else set())
        before, limit = nextafter(last, inf), size if fresh else limit * 2


def left_out(run: str, error: StoreError) -> None:
    """One run that cannot be read must not hide all the others, and must not be hidden itself."""
    _LOG.warning("run %s is left out of the figures: %s", run, error)


async def figures_since(store: Store, since: float | None = None, agent: str | None = None) -> AsyncIterator[Figures]:
    """The figures of those runs, newest first. A run that was deleted in the meantime is passed over."""
    async for row in rows_since(store, since, agent):
        try:
            yield figures_of(await store.read(row.run))
        except NotFound:
            continue
        except (Sealed, Unreadable) as error:
            left_out(row.run, error)


async def tally_since(store: Store, since: float | None = None, agent: str | None = None) -> Tally:
    """Those runs added up."""
    total = Tally()
    async for figures in figures_since(store, since, agent):
        total.add(figures)
    return total


class Scrape:
    """What a scraper is shown. Each call reads only what is new since the last, and runs that were still open."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sealed = Tally()
        self._counted: set[str] = set()
        """Runs begun since the horizon that are in the tally for good."""
        self._horizon: float | None = None
        """Every run begun before it is counted."""

    async def text(self, now: float) -> str:
        """Everything so far, in Prometheus' text format."""
        newest, oldest_open = self._horizon or 0.0, inf
        still_open: list[Figures] = []
        begun: dict[str, float] = {}
        async for row in rows_since(self._store, self._horizon):
            newest = max(newest, row.started_at)
            begun[row.run] = row.started_at
            if row.run in self._counted:
                continue
            try:
                figures = figures_of(await self._store.read(row.run))
            except NotFound:
                continue
            except (Sealed, Unreadable) as error:
                left_out(row.run, error)
                self._counted.add(row.run)
                continue
            if row.status == "ended" or row.started_at < now - PATIENCE:
                self._sealed.add(figures)
                self._counted.add(row.run)
            else:
                still_open.append(figures)
                oldest_open = min(oldest_open, row.started_at)
        self._horizon = min(newest, oldest_open)
        self._counted = {run for run in self._counted if begun.get(run, 0.0) >= self._horizon}
        total = deepcopy(self._sealed)
        for figures in still_open:
            total.add(figures)
        return exposition(total)
