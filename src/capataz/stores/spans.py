"""Spans of other runtimes, kept as they came, so that a record can be told again when more of it arrives.

Unique by trace and span: a batch that is sent twice changes nothing, and of two snapshots of one span the later one
stays. What the spans mean is for the reader of records to say; nothing here looks into a body.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from capataz.ports import KeptSpan
from capataz.stores.queue import Perform
from capataz.stores.sealing import OPEN, Seal

_KEEP = (
    "INSERT INTO span (trace, span, ended, body) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (trace, span) DO UPDATE SET ended = excluded.ended, body = excluded.body"
)
_NEWS = (
    "INSERT INTO trace (trace, last) VALUES (?, ?) "
    "ON CONFLICT (trace) DO UPDATE SET last = max(last, excluded.last), settled = 0"
)


@dataclass(frozen=True, slots=True)
class SqlSpans:
    """A `SpanBook` on the tables of `schema/sqlite-004.sql`. `seal` encrypts what the spans say."""

    perform: Perform
    seal: Seal = OPEN

    async def keep(self, spans: Sequence[KeptSpan], now: float, most: int) -> tuple[frozenset[str], int]:
        return await self.perform("keep spans in", partial(_keep, spans=spans, now=now, most=most, seal=self.seal))

    async def of(self, trace: str) -> list[KeptSpan]:
        return await self.perform("read spans from", partial(_of, trace=trace, seal=self.seal), reads=True)

    async def open(self, before: float, limit: int = 100) -> list[tuple[str, float]]:
        return await self.perform("list traces in", partial(_open, before=before, limit=limit), reads=True)

    async def settle(self, trace: str, last: float) -> None:
        await self.perform("settle a trace in", partial(_settle, trace=trace, last=last))

    async def forget(self, before: float, limit: int = 1000) -> int:
        return await self.perform("forget spans in", partial(_forget, before=before, limit=limit))


def _keep(
    connection: sqlite3.Connection, spans: Sequence[KeptSpan], now: float, most: int, seal: Seal
) -> tuple[frozenset[str], int]:
    room: dict[str, int] = {}
    changed: set[str] = set()
    refused = 0
    for span in spans:
        if span.trace not in room:
            (count,) = connection.execute("SELECT count(*) FROM span WHERE trace = ?", (span.trace,)).fetchone()
            room[span.trace] = most - count
        known = _known(connection, span, seal)
        if known is None and room[span.trace] <= 0:
            refused += 1
        elif known is None or _is_news(span, known):
            room[span.trace] -= known is None
            body = seal.close(span.body, place_of_span(span.trace, span.span))
            connection.execute(_KEEP, (span.trace, span.span, span.ended, body))
            changed.add(span.trace)
    connection.executemany(_NEWS, [(trace, now) for trace in changed])
    return frozenset(changed), refused


def place_of_span(trace: str, span: str) -> str:
    """What a sealed body is bound to."""
    return f"span {span} of trace {trace}"


def _known(connection: sqlite3.Connection, span: KeptSpan, seal: Seal) -> KeptSpan | None:
    found = connection.execute(
        "SELECT ended, body FROM span WHERE trace = ? AND span = ?", (span.trace, span.span)
    ).fetchone()
    if found is None:
        return None
    return KeptSpan(span.trace, span.span, found[0], seal.open(found[1], place_of_span(span.trace, span.span)))


def _is_news(span: KeptSpan, known: KeptSpan) -> bool:
    """Whether this is a later snapshot of the span, or another one of the same moment."""
    return span.ended > known.ended or (span.ended == known.ended and span.body != known.body)


def _of(connection: sqlite3.Connection, trace: str, seal: Seal) -> list[KeptSpan]:
    rows = connection.execute("SELECT span, ended, body FROM span WHERE trace = ?", (trace,))
    return [KeptSpan(trace, span, ended, seal.open(body, place_of_span(trace, span))) for span, ended, body in rows]


def _open(connection: sqlite3.Connection, before: float, limit: int) -> list[tuple[str, float]]:
    found = connection.execute(
        "SELECT trace, last FROM trace WHERE settled = 0 AND last < ? ORDER BY last LIMIT ?", (before, limit)
    )
    return [(str(trace), float(last)) for trace, last in found]


def _settle(connection: sqlite3.Connection, trace: str, last: float) -> None:
    """Not where news have come since it was looked at."""
    connection.execute("UPDATE trace SET settled = 1 WHERE trace = ? AND last = ?", (trace, last))


def _forget(connection: sqlite3.Connection, before: float, limit: int) -> int:
    gone = connection.execute(
        "SELECT trace FROM trace WHERE settled = 1 AND last < ? LIMIT ?", (before, limit)
    ).fetchall()
    connection.executemany("DELETE FROM span WHERE trace = ?", gone)
    connection.executemany("DELETE FROM trace WHERE trace = ?", gone)
    return len(gone)
