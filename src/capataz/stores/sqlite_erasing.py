"""Taking what was said out of logs that are over, in a SQLite file. The one exception to rows that never change."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial

from capataz.events.codec import decode, encode
from capataz.events.facts import Event, RunStarted
from capataz.mistakes import NotFound, StoreError
from capataz.stores.index import shown
from capataz.stores.queue import Perform
from capataz.stores.sealing import Seal
from capataz.stores.sqlite_tables import place, place_of_run

ERASED = "(erased)"
"""Owner of a log without what was said in it."""
_RUNS = "SELECT id, run, status FROM run WHERE root = ? AND events > 0"
_DUE = (
    "SELECT run FROM run WHERE status = 'ended' AND ended_at < ? AND root = run AND owner <> ? "
    "ORDER BY ended_at LIMIT ?"
)
NOT_OVER = "run {} is not over, and without what was said it could not go on: cancel it, or answer what it waits for"


class SqliteErasures:
    """Erasure and retention in one file. `after` takes what was erased out of what SQLite keeps beside the file."""

    def __init__(self, perform: Perform, seal: Seal, after: Callable[[], None]) -> None:
        self._perform, self._seal, self._after = perform, seal, after

    async def erase(self, root: str, blank: Callable[[Event], Event]) -> int:
        count = await self._perform(f"erase run {root} from", partial(erase, root=root, blank=blank, seal=self._seal))
        await asyncio.to_thread(self._after)
        return count

    async def due(self, before: float, limit: int) -> list[str]:
        return await self._perform("look for old runs in", partial(due, before=before, limit=limit), reads=True)


def erase(connection: sqlite3.Connection, root: str, blank: Callable[[Event], Event], seal: Seal) -> int:
    """The runs of a root task; how many. Nothing is changed where one of them is not over."""
    connection.execute("PRAGMA secure_delete=ON")
    runs = connection.execute(_RUNS, (root,)).fetchall()
    if not any(run == root for _, run, _ in runs):
        raise NotFound(f"there is no run {root} in this store that another has not started")
    for _, run, status in runs:
        if status != "ended":
            raise StoreError(NOT_OVER.format(run))
    for identity, run, _ in runs:
        _one(connection, identity, run, blank, seal)
    return len(runs)


def _one(connection: sqlite3.Connection, identity: int, run: str, blank: Callable[[Event], Event], seal: Seal) -> None:
    connection.execute("DELETE FROM span WHERE trace = ?", (run,))
    connection.execute("DELETE FROM trace WHERE trace = ?", (run,))
    rows = connection.execute("SELECT seq, at, body FROM event WHERE run = ?", (identity,)).fetchall()
    for seq, at, body in rows:
        event = blank(decode(seq, at, seal.open(body, place(run, seq))))
        closed = seal.close(encode(event), place(run, seq))
        connection.execute("UPDATE event SET body = ? WHERE run = ? AND seq = ?", (closed, identity, seq))
        if isinstance(event.fact, RunStarted):
            task = shown(run, event.fact).task
            listed = seal.close_text(task, place_of_run(run))
            connection.execute("UPDATE run SET task = ?, owner = ? WHERE id = ?", (listed, ERASED, identity))
            connection.execute("UPDATE job SET task = ?, reason = '' WHERE run = ?", (task, run))


def due(connection: sqlite3.Connection, before: float, limit: int) -> list[str]:
    """Root tasks that ended before this time and have not been erased, the oldest first."""
    return [run for (run,) in connection.execute(_DUE, (before, ERASED, limit))]
