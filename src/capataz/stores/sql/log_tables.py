"""The statements of the logs that all stores share: claiming, reading and listing, and what a run's row is made of.

Writing is each database's own: it is where they differ, and where time is spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from capataz.events.codec import decode
from capataz.events.facts import Event, RunStarted
from capataz.mistakes import Fenced, NotFound
from capataz.ports import Lease, RunRow
from capataz.stores.index import Progress, shown
from capataz.stores.sealing import Seal
from capataz.stores.sql.database import Database

PROGRESS = (
    "events, status, outcome, reason, started_at, ended_at, turns, calls, input_tokens, output_tokens, money, seconds"
)
"""How far a run is, in the columns of its row."""
STARTED = "agent, task, model, root, parent, conversation, task_type"
"""What its first fact says."""
_CLAIM = (
    "INSERT INTO run (run, epoch, owner) VALUES (?, 1, ?) "
    "ON CONFLICT (run) DO UPDATE SET epoch = run.epoch + 1, owner = excluded.owner RETURNING epoch"
)
_READ = "SELECT seq, at, body FROM event WHERE run = ? AND seq > ? ORDER BY seq"


def claim(connection: Database, run: str, owner: str) -> Lease:
    (epoch,) = connection.execute(_CLAIM, (run, owner)).fetchone()
    return Lease(run, owner, epoch)


def never_claimed(run: str) -> Fenced:
    return Fenced(f"run {run} was never claimed in this store: claim it there first")


def read(connection: Database, run: str, after: int, seal: Seal) -> list[Event]:
    found = connection.execute("SELECT id, events FROM run WHERE run = ?", (run,)).fetchone()
    if found is None or found[1] == 0:
        raise NotFound(f"there is no run {run} in this store")
    return [_opened(run, row, seal) for row in connection.execute(_READ, (found[0], after))]


def first(connection: Database, run: str, identity: int, seal: Seal) -> Event | None:
    """The first event of a run's row, where it has one."""
    row = connection.execute(f"{_READ} LIMIT 1", (identity, -1)).fetchone()
    return None if row is None else _opened(run, row, seal)


def _opened(run: str, row: Sequence[Any], seal: Seal) -> Event:
    seq, at, body = row
    return decode(seq, at, seal.open(body, place_of_event(run, seq)))


def place_of_event(run: str, seq: int) -> str:
    """What a sealed body is bound to."""
    return f"event {seq} of run {run}"


def place_of_run(run: str) -> str:
    """What the sealed task of a run's row is bound to."""
    return f"run {run}, its task"


def rows(
    connection: Database,
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
    statement = f"SELECT run, {STARTED}, {PROGRESS} FROM run WHERE {where} ORDER BY started_at DESC, id DESC LIMIT ?"
    return [_row(columns, seal) for columns in connection.execute(statement, (*asked.values(), limit))]


def _row(columns: Sequence[Any], seal: Seal) -> RunRow:
    run, agent, task, model, root, parent, conversation, task_type, *rest = columns
    task = seal.shown(task, place_of_run(run))
    started = RunStarted(
        run, agent, task, model=model, root=root, parent=parent, conversation=conversation, task_type=task_type
    )
    return progress_of(rest).row(run, started)


def started_columns(run: str, fact: RunStarted, seal: Seal) -> tuple[str | None, ...]:
    """What a run's row says of its first fact."""
    fact = shown(run, fact)
    task = seal.close_text(fact.task, place_of_run(run))
    return fact.agent, task, fact.model, fact.root, fact.parent, fact.conversation, fact.task_type


def progress_of(columns: Sequence[Any]) -> Progress:
    progress = Progress(*columns)
    progress.money = None if columns[10] is None else Decimal(columns[10])
    return progress


def progress_columns(progress: Progress) -> tuple[Any, ...]:
    p = progress
    money = None if p.money is None else str(p.money)
    return (
        *(p.events, p.status, p.outcome, p.reason, p.started_at, p.ended_at),
        *(p.turns, p.calls, p.input_tokens, p.output_tokens, money, p.seconds),
    )
