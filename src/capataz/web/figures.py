"""Figures of the runs a caller may see: read once for each run, added up as often as one likes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from capataz.lens.metrics.figures import Figures, figures_of
from capataz.lens.metrics.tally import Runs
from capataz.mistakes import NotFound
from capataz.ports import RunRow
from capataz.telemetry.reading import rows_since
from capataz.web.site import Site
from capataz.web.tokens import Caller

MOST_RUNS = 5_000
"""The newest runs of a window that are read for a page."""
_KEPT = 20_000


@dataclass(slots=True)
class Gathering:
    """The figures of runs already read, by the row they had then."""

    _known: OrderedDict[str, tuple[RunRow, Figures]] = field(default_factory=OrderedDict[str, tuple[RunRow, Figures]])

    async def since(
        self, site: Site, caller: Caller, since: float | None, agent: str | None, most: int = MOST_RUNS
    ) -> tuple[list[Figures], bool]:
        """Figures of the runs begun since then, newest first, and whether there were more than are read."""
        found: list[Figures] = []
        async for row in self._rows(site, caller, since, agent):
            if len(found) >= most:
                return found, True
            known = self._known.get(row.run)
            if known is None or known[0] != row:
                try:
                    known = (row, figures_of(await site.store.read(row.run)))
                except NotFound:
                    continue
                self._known[row.run] = known
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            found.append(known[1])
        return found, False

    async def _rows(self, site: Site, caller: Caller, since: float | None, agent: str | None) -> AsyncIterator[RunRow]:
        async for row in rows_since(site.store, since, agent):
            if await site.books.may_see(caller, row.run, None, row.root):
                yield row


@dataclass(frozen=True, slots=True)
class Plot:
    """One line over time. Points are (x, y, words) in a picture of 300 by 80; gaps where there was nothing."""

    title: str
    last: str
    points: tuple[tuple[float, float, str], ...]
    lines: tuple[str, ...]
    top: str
    words: str


BUCKETS = 24
WIDTH, HEIGHT = 300.0, 80.0


def buckets(found: list[Figures], start: float, end: float) -> list[Runs]:
    """The runs of a window in equal parts of it."""
    parts = [Runs(tasks_only=True) for _ in range(BUCKETS)]
    span = max(end - start, 1e-6)
    for figures in found:
        place = int((figures.started_at - start) / span * BUCKETS)
        parts[max(0, min(BUCKETS - 1, place))].add(figures)
    return parts


def plot(title: str, values: list[float | None], form: str, most: float | None = None) -> Plot:
    """A line through the values; what is None is left out."""
    known = [value for value in values if value is not None]
    top = most if most is not None else max(known, default=0.0) or 1.0
    points: list[tuple[float, float, str]] = []
    lines: list[str] = []
    run: list[str] = []
    for place, value in enumerate(values):
        if value is None:
            run = _ended(run, lines)
            continue
        x, y = (place + 0.5) * WIDTH / len(values), HEIGHT - min(value / top, 1.0) * HEIGHT
        points.append((round(x, 1), round(y, 1), form.format(value)))
        run.append(f"{x:.1f},{y:.1f}")
    _ended(run, lines)
    last = form.format(known[-1]) if known else "no data"
    told = ", ".join(form.format(value) for value in known[-6:]) or "no data"
    words = f"{title}, the newest values last: {told}"
    return Plot(title, last, tuple(points), tuple(lines), form.format(top), words)


def _ended(run: list[str], lines: list[str]) -> list[str]:
    if len(run) > 1:
        lines.append(" ".join(run))
    return []
