"""Spans of other runtimes, kept as they came, so that a record can be told again when more of it arrives.

Unique by trace and span: a batch that is sent twice changes nothing, and of two snapshots of one span the later one
stays. What the spans mean is for the reader of records to say; nothing here looks into a body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from capataz.ports import KeptSpan
from capataz.stores.sealing import OPEN, Seal
from capataz.stores.sql.database import Database, Perform

AT_ONCE = 500
"""Spans that one statement looks for."""
_KEEP = (
    "INSERT INTO span (trace, span, ended, body) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (trace, span) DO UPDATE SET ended = excluded.ended, body = excluded.body"
)
_NEWS = (
    "INSERT INTO trace (trace, last) VALUES (?, ?) "
    "ON CONFLICT (trace) DO UPDATE SET settled = 0, "
    "last = CASE WHEN excluded.last > trace.last THEN excluded.last ELSE trace.last END"
)

_FORGET = (
    # The condition twice: news may come between finding a trace and having it.
    "DELETE FROM trace WHERE trace IN (SELECT trace FROM trace WHERE settled = 1 AND last < ? LIMIT ?) "
    "AND settled = 1 AND last < ? RETURNING trace"
)


@dataclass(frozen=True, slots=True)
class SqlSpans:
    """A `SpanBook` in any of the stores. `seal` encrypts what the spans say."""

    perform: Perform
    seal: Seal = OPEN

    async def keep(self, spans: Sequence[KeptSpan], now: float, most: int) -> tuple[frozenset[str], int]:
        work = partial(_keep, spans=spans, now=now, most=most, seal=self.seal)
        traces = sorted({f"trace {span.trace}" for span in spans})
        return await self.perform("keep spans in", work, alone=traces)

    async def of(self, trace: str) -> list[KeptSpan]:
        return await self.perform("read spans from", partial(_of, trace=trace, seal=self.seal), reads=True)

    async def open(self, before: float, limit: int = 100) -> list[tuple[str, float]]:
        return await self.perform("list traces in", partial(_open, before=before, limit=limit), reads=True)

    async def settle(self, trace: str, last: float) -> None:
        await self.perform("settle a trace in", partial(_settle, trace=trace, last=last))

    async def forget(self, before: float, limit: int = 1000) -> int:
        return await self.perform("forget spans in", partial(_forget, before=before, limit=limit))


def _keep(
    connection: Database, spans: Sequence[KeptSpan], now: float, most: int, seal: Seal
) -> tuple[frozenset[str], int]:
    names: dict[str, set[str]] = {}
    for span in spans:
        names.setdefault(span.trace, set()).add(span.span)
    room: dict[str, int] = {}
    known: dict[tuple[str, str], KeptSpan] = {}
    for trace, own in names.items():
        (count,) = connection.execute("SELECT count(*) FROM span WHERE trace = ?", (trace,)).fetchone()
        room[trace] = most - count
        known.update(_known(connection, trace, sorted(own), seal))
    news: dict[tuple[str, str], KeptSpan] = {}
    refused = 0
    for span in spans:
        place = (span.trace, span.span)
        if place not in known and room[span.trace] <= 0:
            refused += 1
        elif place not in known or _is_news(span, known[place]):
            room[span.trace] -= place not in known
            known[place] = news[place] = span
    rows = [(*place, span.ended, seal.close(span.body, place_of_span(*place))) for place, span in sorted(news.items())]
    connection.executemany(_KEEP, rows)
    changed = sorted({trace for trace, _ in news})
    connection.executemany(_NEWS, [(trace, now) for trace in changed])
    return frozenset(changed), refused


def place_of_span(trace: str, span: str) -> str:
    """What a sealed body is bound to."""
    return f"span {span} of trace {trace}"


def _known(
    connection: Database, trace: str, names: Sequence[str], seal: Seal
) -> Iterator[tuple[tuple[str, str], KeptSpan]]:
    """Those of these spans that there are."""
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        marks = ", ".join("?" * len(some))
        found = connection.execute(
            f"SELECT span, ended, body FROM span WHERE trace = ? AND span IN ({marks})", (trace, *some)
        ).fetchall()
        for span, ended, body in found:
            yield (trace, span), KeptSpan(trace, span, ended, seal.open(body, place_of_span(trace, span)))


def _is_news(span: KeptSpan, known: KeptSpan) -> bool:
    """Whether this is a later snapshot of the span, or another one of the same moment."""
    return span.ended > known.ended or (span.ended == known.ended and span.body != known.body)


def _of(connection: Database, trace: str, seal: Seal) -> list[KeptSpan]:
    rows = connection.execute("SELECT span, ended, body FROM span WHERE trace = ?", (trace,))
    return [KeptSpan(trace, span, ended, seal.open(body, place_of_span(trace, span))) for span, ended, body in rows]


def _open(connection: Database, before: float, limit: int) -> list[tuple[str, float]]:
    found = connection.execute(
        "SELECT trace, last FROM trace WHERE settled = 0 AND last < ? ORDER BY last LIMIT ?", (before, limit)
    )
    return [(str(trace), float(last)) for trace, last in found]


def _settle(connection: Database, trace: str, last: float) -> None:
    """Not where news have come since it was looked at."""
    connection.execute("UPDATE trace SET settled = 1 WHERE trace = ? AND last = ?", (trace, last))


def _forget(connection: Database, before: float, limit: int) -> int:
    gone = connection.execute(_FORGET, (before, limit, before)).fetchall()
    connection.executemany("DELETE FROM span WHERE trace = ?", gone)
    return len(gone)
