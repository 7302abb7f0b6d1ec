"""Writing what is kept anew under another key, a piece at a time, while others go on working.

Every piece is a transaction of its own, does nothing to what is already as it should be, and leaves alone what somebody
else has written meanwhile; so it may be broken off and begun again. Getting rid of what the database still holds of the
old bytes is for the store that knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from capataz.stores.sealing import Seal
from capataz.stores.sql.conversation_tables import place_of_message, place_of_summary
from capataz.stores.sql.database import Database, Perform
from capataz.stores.sql.log_tables import place_of_event, place_of_run
from capataz.stores.sql.spans import place_of_span

PIECE = 500
"""Rows of one transaction."""
_NAMED = "JOIN run AS name ON name.id = event.run"


@dataclass(frozen=True, slots=True)
class _Kept:
    """A column that holds what was said."""

    table: str
    key: tuple[str, ...]
    before: tuple[Any, ...]
    """Stands before every key."""
    column: str
    named: str
    """What the place is made of that a text is bound to."""
    place: Callable[..., str]
    beside: str = ""


def _kept(place_of_job: Callable[[str], str]) -> tuple[_Kept, ...]:
    return (
        _Kept("event", ("run", "seq"), (-1, -1), "body", "name.run, seq", place_of_event, _NAMED),
        _Kept("run", ("id",), (0,), "task", "run", place_of_run),
        _Kept("job", ("id",), (0,), "task", "run", place_of_job),
        _Kept("message", ("id",), (0,), "body", "run, role", place_of_message),
        _Kept("conversation", ("id",), (0,), "summary", "conversation", place_of_summary),
        _Kept("receipt", ("conversation", "run"), (0, ""), "body", "run, 'receipt'", place_of_message),
        _Kept("span", ("trace", "span"), ("", ""), "body", "trace, span", place_of_span),
    )


async def rekey(perform: Perform, seal: Seal, place_of_job: Callable[[str], str]) -> int:
    """Everything that is not sealed with the newest key is; how many texts were written anew."""
    count = 0
    for kept in _kept(place_of_job):
        after: Sequence[Any] | None = kept.before
        while after is not None:
            work = partial(_piece, kept=kept, seal=seal, after=after)
            after, changed = await perform(f"write each {kept.table} anew in", work)
            count += changed
    return count


def _piece(connection: Database, kept: _Kept, seal: Seal, after: Sequence[Any]) -> tuple[Sequence[Any] | None, int]:
    """The rows that come next: the key of the last where there may be more, and how many were written anew."""
    key, marks = ", ".join(f"{kept.table}.{name}" for name in kept.key), ", ".join("?" * len(kept.key))
    rows = connection.execute(
        f"SELECT {kept.table}.{kept.column}, {key}, {kept.named} FROM {kept.table} {kept.beside} "
        f"WHERE ({key}) > ({marks}) ORDER BY {key} LIMIT ?",
        (*after, PIECE),
    ).fetchall()
    changed: list[tuple[Any, ...]] = []
    for old, *more in rows:
        own, named = more[: len(kept.key)], more[len(kept.key) :]
        new = _anew(old, seal, kept.place(*named))
        if new != old:
            changed.append((new, *own, old))
    if changed:
        where = " AND ".join(f"{name} = ?" for name in (*kept.key, kept.column))
        connection.executemany(f"UPDATE {kept.table} SET {kept.column} = ? WHERE {where}", changed)
    return (rows[-1][1 : 1 + len(kept.key)] if len(rows) == PIECE else None), len(changed)


def _anew(old: str | bytes, seal: Seal, where: str) -> str | bytes:
    """The text as it would be written now; itself where that is how it stands."""
    if isinstance(old, str):
        return seal.close_text(seal.open_text(old, where), where) if seal.stale_text(old) else old
    return seal.close(seal.open(old, where), where) if old and seal.stale(old) else old
