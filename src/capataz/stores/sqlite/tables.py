"""The statements that write: what appending means in the tables of a SQLite log.

Each takes a connection and leaves the transaction to its caller. An append looks before it writes: what it refuses
(`Fenced`) has changed nothing, so that others of the same transaction are not troubled.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from capataz.events.facts import Event, RunStarted
from capataz.ports import Lease
from capataz.stores.fence import check_fence, refuse_over_own
from capataz.stores.index import Progress
from capataz.stores.sealing import Seal
from capataz.stores.sql.account_tables import book, settled
from capataz.stores.sql.log_tables import (
    PROGRESS,
    STARTED,
    first,
    never_claimed,
    progress_columns,
    progress_of,
    started_columns,
)

_FENCE = f"SELECT id, epoch, owner, {PROGRESS} FROM run WHERE run = ?"
_INSERT = "INSERT INTO event (run, seq, at, body) VALUES (?, ?, ?, ?)"
_ADVANCE = f"UPDATE run SET ({PROGRESS}) = ({', '.join('?' * 12)}) WHERE id = ?"
_NAME = f"UPDATE run SET ({STARTED}) = (?, ?, ?, ?, ?, ?, ?) WHERE id = ?"


def append(
    connection: sqlite3.Connection,
    lease: Lease,
    first_seq: int,
    events: Sequence[Event],
    bodies: Sequence[bytes],
    seal: Seal,
) -> None:
    found = connection.execute(_FENCE, (lease.run,)).fetchone()
    if found is None:
        raise never_claimed(lease.run)
    identity, epoch, owner, *columns = found
    progress = progress_of(columns)
    check_fence(lease, first_seq, epoch, owner, progress.events)
    connection.executemany(
        _INSERT, [(identity, event.seq, event.at, body) for event, body in zip(events, bodies, strict=True)]
    )
    for event in events:
        progress.fold(event)
        if isinstance(event.fact, RunStarted):
            connection.execute(_NAME, (*started_columns(lease.run, event.fact, seal), identity))
    connection.execute(_ADVANCE, (*progress_columns(progress), identity))
    book(connection, settled(connection, [(lease.run, event.fact) for event in events]))


def rewrite(
    connection: sqlite3.Connection, lease: Lease, events: Sequence[Event], bodies: Sequence[bytes], seal: Seal
) -> None:
    """The record of another runtime's run told anew. What a log of our own holds is never touched."""
    found = connection.execute("SELECT id, epoch, owner FROM run WHERE run = ?", (lease.run,)).fetchone()
    if found is None:
        raise never_claimed(lease.run)
    identity, epoch, owner = found
    check_fence(lease, 0, epoch, owner, 0)
    refuse_over_own(lease.run, first(connection, lease.run, identity, seal))
    connection.execute("DELETE FROM event WHERE run = ?", (identity,))
    connection.execute(_ADVANCE, (*progress_columns(Progress()), identity))
    append(connection, lease, 0, events, bodies, seal)
