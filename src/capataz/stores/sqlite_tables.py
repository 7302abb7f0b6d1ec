"""The statements: what claiming, appending, reading and listing mean in the tables of a SQLite log.

Each takes a connection and leaves the transaction to its caller. An append looks before it writes: what it refuses
(`Fenced`) has changed nothing, so that others of the same transaction are not troubled.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from capataz.events.codec import decode
from capataz.events.facts import Event, RunStarted
from capataz.mistakes import Fenced, NotFound
from capataz.ports import Lease, RunRow
from capataz.stores.account_tables import book, settled
from capataz.stores.fence import check_fence, refuse_over_own
from capataz.stores.index import Progress, shown
from capataz.stores.sealing import Seal

_PROGRESS = (
    "events, status, outcome, reason, started_at, ended_at, turns, calls, input_tokens, output_tokens, money, seconds"
)
_STARTED = "agent, task, model, root, parent, conversation, task_type"
_CLAIM = (
    "INSERT INTO run (run, epoch, owner) VALUES (?, 1, ?) "
    "ON CONFLICT (run) DO UPDATE SET epoch = epoch + 1, owner = excluded.owner RETURNING epoch"
)
_FENCE = f"SELECT id, epoch, owner, {_PROGRESS} FROM run WHERE run = ?"
_INSERT = "INSERT INTO event (run, seq, at, body) VALUES (?, ?, ?, ?)"
_ADVANCE = f"UPDATE run SET ({_PROGRESS}) = ({', '.join('?' * 12)}) WHERE id = ?"
_NAME = f"UPDATE run SET ({_STARTED}) = (?, ?, ?, ?, ?, ?, ?) WHERE id = ?"
_READ = "SELECT seq, at, body FROM event WHERE run = ? AND seq > ? ORDER BY seq"


def claim(connection: sqlite3.Connection, run: str, owner: str) -> Lease:
    (epoch,) = connection.execute(_CLAIM, (run, owner)).fetchone()
    return Lease(run, owner, epoch)


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
        raise Fenced(f"run {lease.run} was never claimed in this store: claim it there first")
    identity, epoch, owner, *columns = found
    progress = _progress(columns)
    check_fence(lease, first_seq, epoch, owner, progress.events)
    connection.executemany(
        _INSERT, [(identity, event.seq, event.at, body) for event, body in zip(events, bodies, strict=True)]
    )
    for event in events:
        progress.fold(event)
        if isinstance(event.fact, RunStarted):
            connection.execute(_NAME, (*_started(shown(lease.run, event.fact), lease.run, seal), identity))
    connection.execute(_ADVANCE, (*_columns(progress), identity))
    book(connection, settled(connection, [(lease.run, event.fact) for event in events]))


def rewrite(
    connection: sqlite3.Connection, lease: Lease, events: Sequence[Event], bodies: Sequence[bytes], seal: Seal
) -> None:
    """The record of another runtime's run told anew. What a log of our own holds is never touched."""
    found = connection.execute("SELECT id, epoch, owner FROM run WHERE run = ?", (lease.run,)).fetchone()
    if found is None:
        raise Fenced(f"run {lease.run} was never claimed in this store: claim it there first")
    identity, epoch, owner = found
    check_fence(lease, 0, epoch, owner, 0)
    first = connection.execute("SELECT seq, at, body FROM event WHERE run = ? AND seq = 0", (identity,)).fetchone()
    refuse_over_own(lease.run, None if first is None else opened(lease.run, first, seal))
    connection.execute("DELETE FROM event WHERE run = ?", (identity,))
    connection.execute(
        f"UPDATE run SET ({_PROGRESS}) = ({', '.join('?' * 12)}) WHERE id = ?", (*_columns(Progress()), identity)
    )
    append(connection, lease, 0, events, bodies, seal)


def read(connection: sqlite3.Connection, run: str, after: int, seal: Seal) -> list[Event]:
    found = connection.execute("SELECT id, events FROM run WHERE run = ?", (run,)).fetchone()
    if found is None or found[1] == 0:
        raise NotFound(f"there is no run {run} in this store")
    return [opened(run, row, seal) for row in connection.execute(_READ, (found[0], after))]


def place(run: str, seq: int) -> str:
    """What a sealed body is bound to."""
    return f"event {seq} of run {run}"


def place_of_run(run: str) -> str:
    """What the sealed task of a run's row is bound to."""
    return f"run {run}, its task"


def opened(run: str, row: Sequence[Any], seal: Seal) -> Event:
    """A row (position, time, body) of the log as an event."""
    seq, at, body = row
    return decode(seq, at, seal.open(body, place(run, seq)))


def rows(
    connection: sqlite3.Connection,
    limit: int,
    agent: str | None,
    outcome: str | None,
    root: str | None,
    before: float | None,
    seal: Seal,
) -> list[RunRow]:
    filters = {"agent = ?": agent, "outcome = ?": outcome, "root = ?": root, "started_at < ?": before}
    asked = {text: value for text, value in filters.items() if value is not None}
    where = " AND ".join(["events > 0", *asked])
    statement = f"SELECT run, {_STARTED}, {_PROGRESS} FROM run WHERE {where} ORDER BY started_at DESC, id DESC LIMIT ?"
    return [_row(columns, seal) for columns in connection.execute(statement, (*asked.values(), limit))]


def _row(columns: Sequence[Any], seal: Seal) -> RunRow:
    run, agent, task, model, root, parent, conversation, task_type, *rest = columns
    task = seal.shown(task, place_of_run(run))
    started = RunStarted(
        run, agent, task, model=model, root=root, parent=parent, conversation=conversation, task_type=task_type
    )
    return _progress(rest).row(run, started)


def _started(fact: RunStarted, run: str, seal: Seal) -> tuple[Any, ...]:
    task = seal.close_text(fact.task, place_of_run(run))
    return fact.agent, task, fact.model, fact.root, fact.parent, fact.conversation, fact.task_type


def _progress(columns: Sequence[Any]) -> Progress:
    progress = Progress(*columns)
    progress.money = None if columns[10] is None else Decimal(columns[10])
    return progress


def _columns(progress: Progress) -> tuple[Any, ...]:
    p = progress
    money = None if p.money is None else str(p.money)
    return (
        *(p.events, p.status, p.outcome, p.reason, p.started_at, p.ended_at),
        *(p.turns, p.calls, p.input_tokens, p.output_tokens, money, p.seconds),
    )
