"""Taking what was said out of logs that are over, in PostgreSQL. The one exception to rows that never change.

The old versions of the rows leave the disk with the server's next VACUUM, and its write-ahead log and backups in their
own time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from capataz.events.codec import decode, encode
from capataz.events.facts import Event, RunStarted
from capataz.mistakes import NotFound, StoreError
from capataz.stores.index import shown
from capataz.stores.postgres_queue import Perform
from capataz.stores.postgres_server import Connection
from capataz.stores.postgres_tables import clean
from capataz.stores.sealing import Seal
from capataz.stores.sqlite_erasing import ERASED, NOT_OVER
from capataz.stores.sqlite_tables import place, place_of_run

_DUE = (
    "SELECT run FROM run WHERE status = 'ended' AND ended_at < %s AND root = run AND owner <> %s "
    "ORDER BY ended_at LIMIT %s"
)
_RUNS = "SELECT id, run, status FROM run WHERE root = %s AND events > 0 ORDER BY id FOR UPDATE"


class PostgresErasures:
    """Erasure and retention in one database."""

    def __init__(self, perform: Perform, seal: Seal) -> None:
        self._perform, self._seal = perform, seal

    async def erase(self, root: str, blank: Callable[[Event], Event]) -> int:
        return await self._perform(f"erase run {root} from", partial(erase, root=root, blank=blank, seal=self._seal))

    async def due(self, before: float, limit: int) -> list[str]:
        return await self._perform("look for old runs in", partial(due, before=before, limit=limit))


def erase(connection: Connection, root: str, blank: Callable[[Event], Event], seal: Seal) -> int:
    """The runs of a root task; how many. Nothing is changed where one of them is not over."""
    with connection.transaction():
        runs = connection.execute(_RUNS, (root,)).fetchall()
        if not any(run == root for _, run, _ in runs):
            raise NotFound(f"there is no run {root} in this store that another has not started")
        for _, run, status in runs:
            if status != "ended":
                raise StoreError(NOT_OVER.format(run))
        for identity, run, _ in runs:
            _one(connection, identity, run, blank, seal)
    return len(runs)


def _one(connection: Connection, identity: int, run: str, blank: Callable[[Event], Event], seal: Seal) -> None:
    connection.execute("DELETE FROM span WHERE trace = %s", (run,))
    connection.execute("DELETE FROM trace WHERE trace = %s", (run,))
    rows = connection.execute("SELECT seq, at, body FROM event WHERE run = %s", (identity,), binary=True).fetchall()
    blanked = [blank(decode(seq, at, seal.open(body, place(run, seq)))) for seq, at, body in rows]
    closed = [(seal.close(encode(event), place(run, event.seq)), identity, event.seq) for event in blanked]
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE event SET body = %b WHERE run = %s AND seq = %s", closed)
    for event in blanked:
        if isinstance(event.fact, RunStarted):
            task = shown(run, event.fact).task
            listed = clean(seal.close_text(task, place_of_run(run)))
            connection.execute("UPDATE run SET task = %s, owner = %s WHERE id = %s", (listed, ERASED, identity))
            connection.execute("UPDATE job SET task = %b, reason = '' WHERE run = %s", (task.encode(), run))


def due(connection: Connection, before: float, limit: int) -> list[str]:
    """Root tasks that ended before this time and have not been erased, the oldest first."""
    return [run for (run,) in connection.execute(_DUE, (before, ERASED, limit))]
