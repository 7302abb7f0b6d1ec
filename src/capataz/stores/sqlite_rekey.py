"""Writing what is kept anew under another key, a piece at a time, while others go on working.

Every piece is a transaction of its own and does nothing to what is already as it should be, so it may be broken off and
begun again. At the end what SQLite has kept of the old bytes (free pages, the write-ahead file) is given up as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial

from capataz.stores.queue import Perform
from capataz.stores.sealing import Seal
from capataz.stores.spans import place_of_span
from capataz.stores.sqlite_tables import place

PIECE = 500
"""Rows of one transaction."""


async def rekey(perform: Perform, seal: Seal) -> int:
    """Everything that is not sealed with the newest key is; how many texts were written anew."""
    count = 0
    after: tuple[int, int] = (-1, -1)
    while True:
        found = await perform("write events anew in", partial(_events, seal=seal, after=after))
        count += found[1]
        if found[0] is None:
            break
        after = found[0]
    for step in (_tasks, _jobs, _messages, _summaries, _receipts):
        last, going_on = 0, True
        while going_on:
            last, changed, going_on = await perform("write texts anew in", partial(step, seal=seal, after=last))
            count += changed
    place_of: tuple[str, str] | None = ("", "")
    while place_of is not None:
        place_of, changed = await perform("write spans anew in", partial(_spans, seal=seal, after=place_of))
        count += changed
    return count


def _spans(connection: sqlite3.Connection, seal: Seal, after: tuple[str, str]) -> tuple[tuple[str, str] | None, int]:
    rows = connection.execute(
        "SELECT trace, span, body FROM span WHERE (trace, span) > (?, ?) ORDER BY trace, span LIMIT ?", (*after, PIECE)
    ).fetchall()
    changed = [
        (seal.close(seal.open(body, where), where), trace, span)
        for trace, span, body in rows
        if seal.stale(body) and (where := place_of_span(trace, span))
    ]
    connection.executemany("UPDATE span SET body = ? WHERE trace = ? AND span = ?", changed)
    return ((rows[-1][0], rows[-1][1]) if len(rows) == PIECE else None), len(changed)


def _events(connection: sqlite3.Connection, seal: Seal, after: tuple[int, int]) -> tuple[tuple[int, int] | None, int]:
    connection.execute("PRAGMA secure_delete = 1")
    rows = connection.execute(
        "SELECT event.run, event.seq, event.body, run.run FROM event JOIN run ON run.id = event.run "
        "WHERE (event.run, event.seq) > (?, ?) ORDER BY event.run, event.seq LIMIT ?",
        (*after, PIECE),
    ).fetchall()
    changed = [
        (seal.close(seal.open(body, place(name, seq)), place(name, seq)), run, seq)
        for run, seq, body, name in rows
        if seal.stale(body)
    ]
    connection.executemany("UPDATE event SET body = ? WHERE run = ? AND seq = ?", changed)
    return ((rows[-1][0], rows[-1][1]) if len(rows) == PIECE else None), len(changed)


Piece = tuple[int, int, bool]
"""The last row that was looked at, how many were changed, whether there are more."""


def _texts(table: str, connection: sqlite3.Connection, seal: Seal, after: int) -> Piece:
    """The column `task` of a table that has an id and a run."""
    rows = connection.execute(
        f"SELECT id, run, task FROM {table} WHERE id > ? ORDER BY id LIMIT ?", (after, PIECE)
    ).fetchall()
    changed = [
        (seal.close_text(seal.open_text(task, where), where), identity)
        for identity, run, task in rows
        if seal.stale_text(task) and (where := f"run {run}, its task")
    ]
    connection.executemany(f"UPDATE {table} SET task = ? WHERE id = ?", changed)
    return _piece(rows, len(changed))


_tasks: Callable[..., Piece] = partial(_texts, "run")
_jobs: Callable[..., Piece] = partial(_texts, "job")


def _messages(connection: sqlite3.Connection, seal: Seal, after: int) -> Piece:
    rows = connection.execute(
        "SELECT id, run, role, body FROM message WHERE id > ? ORDER BY id LIMIT ?", (after, PIECE)
    ).fetchall()
    changed = [
        (seal.close(seal.open(body, where), where), identity)
        for identity, run, role, body in rows
        if seal.stale(body) and (where := f"run {run}, its {role}")
    ]
    connection.executemany("UPDATE message SET body = ? WHERE id = ?", changed)
    return _piece(rows, len(changed))


def _summaries(connection: sqlite3.Connection, seal: Seal, after: int) -> Piece:
    rows = connection.execute(
        "SELECT id, conversation, summary FROM conversation WHERE id > ? ORDER BY id LIMIT ?", (after, PIECE)
    ).fetchall()
    changed = [
        (seal.close(seal.open(body, where), where), identity)
        for identity, name, body in rows
        if body and seal.stale(body) and (where := f"conversation {name}, its summary")
    ]
    connection.executemany("UPDATE conversation SET summary = ? WHERE id = ?", changed)
    return _piece(rows, len(changed))


def _receipts(connection: sqlite3.Connection, seal: Seal, after: int) -> Piece:
    """All receipts of one conversation at a time."""
    found = connection.execute("SELECT min(conversation) FROM receipt WHERE conversation > ?", (after,)).fetchone()[0]
    if found is None:
        return after, 0, False
    rows = connection.execute("SELECT run, body FROM receipt WHERE conversation = ?", (found,)).fetchall()
    changed = [
        (seal.close(seal.open(body, where), where), found, run)
        for run, body in rows
        if seal.stale(body) and (where := f"run {run}, its receipt")
    ]
    connection.executemany("UPDATE receipt SET body = ? WHERE conversation = ? AND run = ?", changed)
    return found, len(changed), True


def _piece(rows: list[tuple[int, ...]], changed: int) -> Piece:
    return (rows[-1][0] if rows else 0), changed, len(rows) == PIECE
