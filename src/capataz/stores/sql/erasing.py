"""Taking what was said out of logs that are over, and out of the conversations they belong to.

The one exception to rows that never change. Getting rid of what the database still holds of the old bytes is for the
store that knows it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from capataz.events.codec import decode, encode
from capataz.events.facts import Event, MessageReceived, RunStarted
from capataz.mistakes import NotFound, StoreError
from capataz.stores.index import shown
from capataz.stores.sealing import Seal
from capataz.stores.sql.conversation_tables import place_of_message
from capataz.stores.sql.database import Database, Perform, as_whole
from capataz.stores.sql.log_tables import place_of_event, place_of_run

ERASED = "(erased)"
"""Owner of a log without what was said in it."""
_RUNS = "SELECT id, run, status FROM run WHERE root = ? AND events > 0 ORDER BY id"
_DUE = (
    "SELECT run FROM run WHERE status = 'ended' AND ended_at < ? AND root = run AND owner <> ? "
    "ORDER BY ended_at LIMIT ?"
)
_FORGET = (
    # A summary that holds what was erased: what it says cannot be told apart.
    "UPDATE conversation SET summary = ? WHERE id IN (SELECT message.conversation FROM message "
    "WHERE message.run = ? AND message.position < conversation.upto)"
)
NOT_OVER = "run {} is not over, and without what was said it could not go on: cancel it, or answer what it waits for"
Blank: TypeAlias = Callable[[Event], Event]


async def _nothing() -> None:
    """Nothing is left elsewhere, or it goes by itself."""


@dataclass(frozen=True, slots=True)
class SqlErasures:
    """Erasure and retention in any of the stores.

    `kept` is a task as the queue's table keeps it, `locking` ends the statement that finds the runs, and `after` takes
    what was erased out of what the database keeps beside its tables.
    """

    perform: Perform
    seal: Seal
    kept: Callable[[str], str | bytes]
    locking: str = ""
    after: Callable[[], Awaitable[None]] = _nothing

    async def erase(self, root: str, blank: Blank) -> int:
        work = partial(_erase, root=root, how=self, blank=blank)
        count = await self.perform(f"erase run {root} from", work)
        await self.after()
        return count

    async def due(self, before: float, limit: int) -> list[str]:
        return await self.perform("look for old runs in", partial(_due, before=before, limit=limit), reads=True)


def _erase(connection: Database, root: str, how: SqlErasures, blank: Blank) -> int:
    """The runs of a root task; how many. Nothing is changed where one of them is not over."""
    runs = connection.execute(f"{_RUNS}{how.locking}", (root,)).fetchall()
    if not any(run == root for _, run, _ in runs):
        raise NotFound(f"there is no run {root} in this store that another has not started")
    for _, run, status in runs:
        if status != "ended":
            raise StoreError(NOT_OVER.format(run))
    with as_whole(connection):
        for identity, run, _ in runs:
            _log(connection, identity, run, how, blank)
            _messages(connection, run, how.seal, blank)
            connection.execute("DELETE FROM span WHERE trace = ?", (run,))
            connection.execute("DELETE FROM trace WHERE trace = ?", (run,))
    return len(runs)


def _log(connection: Database, identity: int, run: str, how: SqlErasures, blank: Blank) -> None:
    rows = connection.execute("SELECT seq, at, body FROM event WHERE run = ?", (identity,)).fetchall()
    blanked = [blank(decode(seq, at, how.seal.open(body, place_of_event(run, seq)))) for seq, at, body in rows]
    bodies = [(how.seal.close(encode(event), place_of_event(run, event.seq)), identity, event.seq) for event in blanked]
    connection.executemany("UPDATE event SET body = ? WHERE run = ? AND seq = ?", bodies)
    for event in blanked:
        if isinstance(event.fact, RunStarted):
            task = shown(run, event.fact).task
            listed = how.seal.close_text(task, place_of_run(run))
            connection.execute("UPDATE run SET task = ?, owner = ? WHERE id = ?", (listed, ERASED, identity))
            connection.execute("UPDATE job SET task = ?, reason = '' WHERE run = ?", (how.kept(task), run))


def _messages(connection: Database, run: str, seal: Seal, blank: Blank) -> None:
    """What the run was asked and has answered, where its conversation keeps it, and what a summary made of it."""
    for identity, role, body in connection.execute(
        "SELECT id, role, body FROM message WHERE run = ?", (run,)
    ).fetchall():
        where = place_of_message(run, role)
        said = blank(Event(0, 0.0, MessageReceived(role, seal.open(body, where).decode(errors="surrogatepass")))).fact
        assert isinstance(said, MessageReceived)
        closed = seal.close(said.text.encode(), where)
        connection.execute("UPDATE message SET body = ? WHERE id = ?", (closed, identity))
    connection.execute(_FORGET, (b"", run))


def _due(connection: Database, before: float, limit: int) -> list[str]:
    """Root tasks that ended before this time and have not been erased, the oldest first."""
    return [run for (run,) in connection.execute(_DUE, (before, ERASED, limit))]
