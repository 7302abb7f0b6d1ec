"""The queue's statements, each function a part of one transaction that somebody else begins and commits.

Crashes are counted by whoever finds the broken lease, never by the code that has to survive to count them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, cast

from capataz.ports import Claim, Crashes, Job, JobRow, JobState, Orders, TurnBeat, WorkerBeat, WorkerRow

_JOB = "run, agent, task, task_type, conversation, tenant, priority, due, key, person"
_ROW = f"{_JOB}, state, worker, here, total, enqueued_at, until, orders, reason, token, beat_at, waiting_for, silent"
_CRASHED = "state = 'queued', here = here + 1, total = total + 1, broken = token"
# By itself SQLite would look at every lease there is.
_EXPIRE = f"UPDATE job INDEXED BY job_until SET {_CRASHED} WHERE state = 'claimed' AND until < ?"
_PROMOTE = "UPDATE job SET state = 'queued' WHERE state = 'parked' AND due <= ?"
_WAKE = "UPDATE job SET state = 'queued' WHERE state = 'waiting' AND run = ?"
# A step from name to name along the index: as many lookups as there are tenants, however many jobs they have.
_TENANTS = """
WITH RECURSIVE names (name) AS (
  SELECT min(tenant) FROM job WHERE state = 'queued'
  UNION ALL
  SELECT (SELECT min(tenant) FROM job WHERE state = 'queued' AND tenant > names.name)
  FROM names WHERE names.name IS NOT NULL
)
SELECT (SELECT count(*) FROM job WHERE state = 'claimed' AND tenant = names.name), coalesce(served, 0), names.name
FROM names LEFT JOIN tenant ON tenant.name = names.name
WHERE names.name IS NOT NULL
"""
# A lookup for each agent, whatever else is queued before its jobs.
_FIRST = """
SELECT id FROM job WHERE id IN (
  SELECT (
    SELECT id FROM job WHERE state = 'queued' AND tenant = ? AND agent = value ORDER BY priority DESC, id LIMIT 1
  ) FROM json_each(?)
)
ORDER BY priority DESC, id LIMIT 1
"""
_SERVED = (
    "INSERT INTO tenant (name, served) VALUES (?, (SELECT coalesce(max(served), 0) + 1 FROM tenant)) "
    "ON CONFLICT (name) DO UPDATE SET served = excluded.served RETURNING served"
)
_TAKE = (
    "UPDATE job SET state = 'claimed', worker = ?, token = token + 1, until = ?, beat_at = NULL, waiting_for = NULL, "
    f"silent = NULL WHERE id = ? RETURNING token, orders, {_JOB}"
)
_HELD = "run = ? AND token = ? AND state = 'claimed'"
_BEAT = (
    "INSERT INTO worker (worker, started_at, beat_at, until, slots, busy, lag, health) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (worker) DO UPDATE SET (beat_at, until, slots, busy, lag, health) = "
    "(excluded.beat_at, excluded.until, excluded.slots, excluded.busy, excluded.lag, excluded.health)"
)
_LEAD = (
    "INSERT INTO leader (one, worker, until) VALUES (1, ?, ?) ON CONFLICT (one) DO UPDATE "
    "SET worker = excluded.worker, until = excluded.until WHERE leader.worker = excluded.worker OR leader.until < ?"
)

_CANCEL = (
    "UPDATE job SET orders = ?, "
    "reason = CASE WHEN state = 'claimed' THEN reason WHEN token > 0 THEN '' ELSE ? END, "
    "state = CASE WHEN state = 'claimed' THEN state WHEN token > 0 THEN 'queued' ELSE 'cancelled' END "
    "WHERE run = ? AND orders IS NULL AND state NOT IN ('done', 'dead', 'cancelled') RETURNING state"
)


def enqueue(connection: sqlite3.Connection, now: float, job: Job) -> str:
    found = connection.execute(
        "SELECT run FROM job WHERE run = ? OR (key IS NOT NULL AND key = ?)", (job.run, job.key)
    ).fetchone()
    if found is not None:
        return str(found[0])
    state = "parked" if job.due > now else "queued"
    connection.execute(
        f"INSERT INTO job ({_JOB}, state, enqueued_at) VALUES ({', '.join('?' * 12)})",
        (*_columns(job), state, now),
    )
    return job.run


def claim(
    connection: sqlite3.Connection,
    now: float,
    worker: str,
    agents: Collection[str],
    lease: float,
    per_tenant: int | None,
    most: int,
) -> list[Claim]:
    connection.execute(_EXPIRE, (now,))
    connection.execute(_PROMOTE, (now,))
    claims: list[Claim] = []
    able = json.dumps(tuple(agents))
    # Those who have fewest running first, then who was served longest ago.
    turns: list[tuple[int, int, str]] = connection.execute(_TENANTS).fetchall()
    heapify(turns)
    while turns and len(claims) < most:
        busy, _, tenant = heappop(turns)
        if per_tenant is not None and busy >= per_tenant:
            break
        found = connection.execute(_FIRST, (tenant, able)).fetchone()
        if found is None:
            continue
        until = now + lease
        token, orders, *job = connection.execute(_TAKE, (worker, until, found[0])).fetchone()
        (served,) = connection.execute(_SERVED, (tenant,)).fetchone()
        heappush(turns, (busy + 1, served, tenant))
        claims.append(Claim(Job(*job), worker, token, until, orders))
    return claims


def wake(connection: sqlite3.Connection, runs: Iterable[str]) -> None:
    """Queue again what waits for a person, of these runs. In a file its triggers do it (`schema/sqlite-005.sql`)."""
    connection.executemany(_WAKE, [(run,) for run in runs])


def begin(connection: sqlite3.Connection, claim: Claim, step: str) -> Crashes | None:
    found = connection.execute(
        f"SELECT step, here, total, broken FROM job WHERE {_HELD}", (claim.job.run, claim.token)
    ).fetchone()
    if found is None:
        return None
    before, here, total, broken = found
    if step != before:
        here = 1 if broken and broken == claim.token - 1 else 0
        connection.execute("UPDATE job SET step = ?, here = ? WHERE run = ?", (step, here, claim.job.run))
    return Crashes(here, total)


def release(connection: sqlite3.Connection, now: float, claim: Claim, until: float | None) -> bool:
    state, due = ("parked", until) if until is not None and until > now else ("queued", claim.job.due)
    done = connection.execute(
        f"UPDATE job SET state = iif(orders IS NULL, ?, 'queued'), due = ?, until = NULL WHERE {_HELD}",
        (state, due, claim.job.run, claim.token),
    )
    if done.rowcount == 1:
        return True
    connection.execute(
        "UPDATE job SET here = max(0, here - 1), total = max(0, total - 1), broken = 0 WHERE run = ? AND broken = ?",
        (claim.job.run, claim.token),
    )
    return False


def finish(connection: sqlite3.Connection, claim: Claim, state: str, reason: str) -> bool:
    # An order that came while the run was going to wait must not wait with it.
    after = "iif(orders IS NULL, 'waiting', 'queued')" if state == "waiting" else "?"
    given = () if state == "waiting" else (state,)
    done = connection.execute(
        f"UPDATE job SET state = {after}, reason = ?, until = NULL WHERE {_HELD}",
        (*given, reason, claim.job.run, claim.token),
    )
    return done.rowcount == 1


def cancel(connection: sqlite3.Connection, run: str, reason: str) -> JobState | None:
    found = connection.execute(_CANCEL, (reason, reason, run)).fetchone()
    return None if found is None else cast("JobState", found[0])


def beat(connection: sqlite3.Connection, now: float, given: WorkerBeat, lease: float) -> Orders:
    until = now + lease
    connection.execute(_BEAT, (given.worker, now, now, until, given.slots, given.busy, given.lag, given.health))
    lost: list[str] = []
    breaks: dict[str, str] = {}
    for turn in given.turns:
        found = connection.execute(
            f"UPDATE job SET until = ?, beat_at = ?, waiting_for = ?, silent = ? WHERE {_HELD} AND worker = ? "
            "RETURNING orders",
            (until, turn.at, turn.waiting_for, turn.silent, turn.run, turn.token, given.worker),
        ).fetchone()
        if found is None:
            lost.append(turn.run)
        elif found[0] is not None:
            breaks[turn.run] = found[0]
    return Orders(until, tuple(lost), breaks)


def leave(connection: sqlite3.Connection, worker: str, crashed: bool) -> int:
    change = _CRASHED if crashed else "state = 'queued', until = NULL"
    done = connection.execute(f"UPDATE job SET {change} WHERE state = 'claimed' AND worker = ?", (worker,))
    connection.execute("DELETE FROM worker WHERE worker = ?", (worker,))
    connection.execute("DELETE FROM leader WHERE worker = ?", (worker,))
    return done.rowcount


def lead(connection: sqlite3.Connection, now: float, worker: str, lease: float) -> bool:
    return connection.execute(_LEAD, (worker, now + lease, now)).rowcount == 1


def look(connection: sqlite3.Connection, run: str) -> JobRow | None:
    found = connection.execute(f"SELECT {_ROW} FROM job WHERE run = ?", (run,)).fetchone()
    return None if found is None else _row(found)


def jobs(
    connection: sqlite3.Connection, states: Collection[str], limit: int, tenant: str | None, untaken: bool
) -> list[JobRow]:
    among = [f"state IN ({', '.join('?' * len(states))})"] if states else []
    whose = ["tenant = ?"] if tenant is not None else []
    where = " AND ".join((*among, *whose, "token = 0" if untaken else "TRUE"))
    given = (*states, *(() if tenant is None else (tenant,)), limit)
    found = connection.execute(f"SELECT {_ROW} FROM job WHERE {where} ORDER BY id DESC LIMIT ?", given)
    return [_row(columns) for columns in found]


def workers(connection: sqlite3.Connection) -> list[WorkerRow]:
    found = connection.execute(
        "SELECT worker, slots, busy, lag, health, started_at, beat_at, until FROM worker ORDER BY started_at, worker"
    )
    return [WorkerRow(WorkerBeat(*columns[:5]), *columns[5:]) for columns in found]


def _columns(job: Job) -> tuple[Any, ...]:
    return (
        *(job.run, job.agent, job.task, job.task_type, job.conversation),
        *(job.tenant, job.priority, job.due, job.key, job.user),
    )


def _row(columns: Sequence[Any]) -> JobRow:
    job = Job(*columns[:10])
    state, worker, here, total, enqueued_at, until, orders, reason, token, beat_at, waiting_for, silent = columns[10:]
    turn = None if beat_at is None else TurnBeat(job.run, token, beat_at, waiting_for, silent)
    return JobRow(job, state, worker, Crashes(here, total), enqueued_at, until, orders, reason, turn, token)
