"""The statements: what claiming, appending, reading and listing mean in the tables of a PostgreSQL log.

Appends come in groups: one look at all their fences, one insert for all their events. What is refused (`Fenced`) has
changed nothing, so that the others of the group are not troubled. The transaction is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, LiteralString

from capataz.events.facts import Event, RunStarted
from capataz.mistakes import Fenced, NotFound, StoreError
from capataz.money.accounts import Refusal
from capataz.ports import Lease, RunRow
from capataz.stores.account_tables import Hold
from capataz.stores.fence import check_fence, refuse_over_own
from capataz.stores.index import Progress, shown
from capataz.stores.postgres_accounts import Entry, follow, is_held
from capataz.stores.postgres_server import Connection
from capataz.stores.sealing import OPEN, Seal
from capataz.stores.sqlite_tables import opened, place_of_run

_PROGRESS = (
    "events, status, outcome, reason, started_at, ended_at, turns, calls, input_tokens, output_tokens, money, seconds"
)
_STARTED = "agent, task, model, root, parent, conversation, task_type"
_CLAIM = (
    "INSERT INTO run (run, epoch, owner) VALUES (%s, 1, %s) "
    "ON CONFLICT (run) DO UPDATE SET epoch = run.epoch + 1, owner = excluded.owner RETURNING epoch"
)
_FENCES: LiteralString = (
    f"SELECT run, id, epoch, owner, {_PROGRESS} FROM run WHERE run = ANY (%s) ORDER BY id FOR UPDATE"
)
_INSERT = (
    "INSERT INTO event (run, seq, at, body) "
    "SELECT * FROM unnest(%b::bigint[], %b::integer[], %b::double precision[], %b::bytea[])"
)
_ADVANCE: LiteralString = f"UPDATE run SET ({_PROGRESS}) = ROW ({'%s, ' * 11}%s) WHERE id = %s"
_NAME: LiteralString = f"UPDATE run SET ({_STARTED}) = ROW ({'%s, ' * 6}%s) WHERE id = %s"
_READ: LiteralString = "SELECT seq, at, body FROM event WHERE run = %s AND seq > %s ORDER BY seq"
_ROWS: LiteralString = f"SELECT run, {_STARTED}, {_PROGRESS} FROM run"


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
    started: RunStarted | None = None
    grown: bool = False


def claim(connection: Connection, run: str, owner: str) -> Lease:
    row = connection.execute(_CLAIM, (run, owner)).fetchone()
    assert row is not None
    return Lease(run, owner, row[0])


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
                raise Fenced(f"run {one.lease.run} was never claimed in this store: claim it there first")
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
    return {run: _Log(identity, epoch, owner, _progress(rest)) for run, identity, epoch, owner, *rest in found}


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
            raise Fenced(f"run {lease.run} was never claimed in this store: claim it there first")
        check_fence(lease, 0, log.epoch, log.owner, 0)
        first = connection.execute(f"{_READ} LIMIT 1", (log.id, -1), binary=True).fetchone()
        refuse_over_own(lease.run, None if first is None else opened(lease.run, first, told.seal))
        connection.execute("DELETE FROM event WHERE run = %s", (log.id,))
        log.progress = Progress()
        _grow(log, told)
        _write(connection, [(log.id, told)], [log])


def _grow(log: _Log, one: Append) -> None:
    log.grown = True
    for event in one.events:
        log.progress.fold(event)
        if isinstance(event.fact, RunStarted):
            started = shown(one.lease.run, event.fact)
            task = one.seal.close_text(started.task, place_of_run(one.lease.run))
            log.started = replace(started, task=task)


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
        cursor.executemany(_ADVANCE, [(*_columns(log.progress), log.id) for log in grown])
        names = [(*_started(log.started), log.id) for log in grown if log.started is not None]
        if names:
            cursor.executemany(_NAME, names)


def read(connection: Connection, run: str, after: int, seal: Seal) -> list[Event]:
    found = connection.execute("SELECT id, events FROM run WHERE run = %s", (run,)).fetchone()
    if found is None or found[1] == 0:
        raise NotFound(f"there is no run {run} in this store")
    kept = connection.execute(_READ, (found[0], after), binary=True)
    return [opened(run, row, seal) for row in kept]


def rows(
    connection: Connection,
    limit: int,
    agent: str | None,
    outcome: str | None,
    root: str | None,
    before: float | None,
    seal: Seal,
) -> list[RunRow]:
    filters: dict[LiteralString, str | float | None] = {
        "agent = %s": agent,
        "outcome = %s": outcome,
        "root = %s": root,
        "started_at < %s": before,
    }
    asked: dict[LiteralString, str | float] = {text: value for text, value in filters.items() if value is not None}
    where: LiteralString = "events > 0"
    for text in asked:
        where += f" AND {text}"
    found = connection.execute(
        f"{_ROWS} WHERE {where} ORDER BY started_at DESC, id DESC LIMIT %s", (*asked.values(), limit), binary=True
    )
    return [_row(columns, seal) for columns in found]


def _row(columns: Sequence[Any], seal: Seal) -> RunRow:
    run, agent, task, model, root, parent, conversation, task_type, *rest = columns
    task = seal.shown(task, place_of_run(run))
    started = RunStarted(
        run, agent, task, model=model, root=root, parent=parent, conversation=conversation, task_type=task_type
    )
    return _progress(rest).row(run, started)


def _started(fact: RunStarted) -> tuple[Any, ...]:
    texts = fact.agent, fact.task, fact.model, fact.root, fact.parent, fact.conversation, fact.task_type
    return tuple(map(clean, texts))


def _progress(columns: Sequence[Any]) -> Progress:
    progress = Progress(*columns)
    progress.money = None if columns[10] is None else Decimal(columns[10])
    return progress


def _columns(progress: Progress) -> tuple[Any, ...]:
    p = progress
    money = None if p.money is None else str(p.money)
    return (
        *(p.events, p.status, p.outcome, clean(p.reason), p.started_at, p.ended_at),
        *(p.turns, p.calls, p.input_tokens, p.output_tokens, money, p.seconds),
    )


def clean(text: str | None) -> str | None:
    """The text without what PostgreSQL cannot keep in one: zero characters, unpaired surrogates."""
    return None if text is None else text.replace("\0", "\ufffd").encode(errors="replace").decode()
