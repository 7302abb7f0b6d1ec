"""The statements that write: what appending means in the tables of a PostgreSQL log.

Appends come in groups: one look at all their fences, one insert for all their events. What is refused (`Fenced`) has
changed nothing, so that the others of the group are not troubled. The transaction is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from capataz.events.facts import Event, RunStarted
from capataz.mistakes import Fenced, StoreError
from capataz.money.accounts import Refusal
from capataz.ports import Lease
from capataz.stores.fence import check_fence, refuse_over_own
from capataz.stores.index import Progress
from capataz.stores.postgres.accounts import Entry, follow, is_held
from capataz.stores.postgres.database import PostgresDatabase
from capataz.stores.postgres.server import Connection
from capataz.stores.sealing import OPEN, Seal
from capataz.stores.sql.account_tables import Hold
from capataz.stores.sql.log_tables import (
    PROGRESS,
    STARTED,
    first,
    never_claimed,
    progress_columns,
    progress_of,
    started_columns,
)

_FENCES: LiteralString = (
    f"SELECT run, id, epoch, owner, {PROGRESS} FROM run WHERE run = ANY (%s) ORDER BY id FOR UPDATE"
)
_INSERT = (
    "INSERT INTO event (run, seq, at, body) "
    "SELECT * FROM unnest(%b::bigint[], %b::integer[], %b::double precision[], %b::bytea[])"
)
_ADVANCE: LiteralString = f"UPDATE run SET ({PROGRESS}) = ROW ({'%s, ' * 11}%s) WHERE id = %s"
_NAME: LiteralString = f"UPDATE run SET ({STARTED}) = ROW ({'%s, ' * 6}%s) WHERE id = %s"


@dataclass(slots=True, eq=False)
class Append:
    """Events to write, in the form the group takes them."""

    lease: Lease
    first_seq: int
    events: Sequence[Event]
    bodies: Sequence[bytes]
    seal: Seal = OPEN
    hold: Hold | None = None
    """What the model call can use that the last event starts."""
    unsure: bool = False
    """It was sent before, and the connection broke before the server said whether it was committed."""

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return sum(map(len, self.bodies))

    def __call__(self, connection: Connection) -> Refusal | None:
        (answer,) = append(connection, [self])
        if isinstance(answer, StoreError):
            raise answer
        return answer


@dataclass(slots=True)
class _Log:
    """A run's row while a group is looked through."""

    id: int
    epoch: int
    owner: str
    progress: Progress
    started: Sequence[str | None] = ()
    grown: bool = False


def append(connection: Connection, group: Sequence[Append]) -> list[StoreError | Refusal | None]:
    """Write the group, and do to the accounts what follows; for each append None, or what was refused and why."""
    logs = _logs(connection, group)
    answers: list[StoreError | Refusal | None] = []
    taken: list[tuple[int, Append]] = []
    entries: list[Entry] = []
    for one in group:
        log = logs.get(one.lease.run)
        try:
            if log is None:
                raise never_claimed(one.lease.run)
            if one.unsure and _was_written(connection, log, one):
                # Only the answer was lost. A call that was refused then is not under way, and may be asked for again.
                again = None if one.hold is None or is_held(connection, one.hold) else one.hold
                entries.append(Entry(one.lease.run, (), again))
            else:
                check_fence(one.lease, one.first_seq, log.epoch, log.owner, log.progress.events)
                _grow(log, one)
                taken.append((log.id, one))
                entries.append(Entry(one.lease.run, [event.fact for event in one.events], one.hold))
        except Fenced as refusal:
            answers.append(refusal)
        else:
            answers.append(None)
    _write(connection, taken, logs.values())
    refused = iter(follow(connection, entries))
    return [next(refused) if answer is None else answer for answer in answers]


def _logs(connection: Connection, group: Sequence[Append]) -> dict[str, _Log]:
    names = list({one.lease.run for one in group})
    found = connection.execute(_FENCES, (names,), binary=True)
    return {run: _Log(identity, epoch, owner, progress_of(rest)) for run, identity, epoch, owner, *rest in found}


def _was_written(connection: Connection, log: _Log, one: Append) -> bool:
    """Whether the log already holds just these events under just this lease: then they were committed after all."""
    if log.epoch != one.lease.epoch or log.progress.events < one.first_seq + len(one.events):
        return False
    kept = connection.execute(
        "SELECT body FROM event WHERE run = %s AND seq >= %s ORDER BY seq LIMIT %s",
        (log.id, one.first_seq, len(one.events)),
        binary=True,
    )
    return [body for (body,) in kept] == list(one.bodies)


def rewrite(connection: Connection, told: Append) -> None:
    """The record of another runtime's run told anew. What a log of our own holds is never touched."""
    lease = told.lease
    with connection.transaction():
        log = _logs(connection, [told]).get(lease.run)
        if log is None:
            raise never_claimed(lease.run)
        check_fence(lease, 0, log.epoch, log.owner, 0)
        refuse_over_own(lease.run, first(PostgresDatabase(connection), lease.run, log.id, told.seal))
        connection.execute("DELETE FROM event WHERE run = %s", (log.id,))
        log.progress = Progress()
        _grow(log, told)
        _write(connection, [(log.id, told)], [log])


def _grow(log: _Log, one: Append) -> None:
    log.grown = True
    for event in one.events:
        log.progress.fold(event)
        if isinstance(event.fact, RunStarted):
            log.started = started_columns(one.lease.run, event.fact, one.seal)


def _write(connection: Connection, taken: Sequence[tuple[int, Append]], logs: Any) -> None:
    rows = [
        (identity, event.seq, event.at, body)
        for identity, one in taken
        for event, body in zip(one.events, one.bodies, strict=True)
    ]
    if not rows:
        return
    connection.execute(_INSERT, [list(column) for column in zip(*rows, strict=True)])
    grown: list[_Log] = [log for log in logs if log.grown]
    with connection.cursor() as cursor:
        cursor.executemany(_ADVANCE, [(*_cleaned(progress_columns(log.progress)), log.id) for log in grown])
        names = [(*_cleaned(log.started), log.id) for log in grown if log.started]
        if names:
            cursor.executemany(_NAME, names)


def _cleaned(columns: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(clean(value) if isinstance(value, str) else value for value in columns)


def clean(text: str | None) -> str | None:
    """The text without what PostgreSQL cannot keep in one: zero characters, unpaired surrogates."""
    return None if text is None else text.replace("\0", "\ufffd").encode(errors="replace").decode()
