"""The queue in PostgreSQL: the same promises as the embedded one, with the server's clock and many machines.

Claiming is one statement that the server finishes by itself; every other operation is one statement or two on a single
job. Crashes are counted by whoever finds the broken lease, never by the code that has to survive to count them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Literal, LiteralString, Protocol, TypeVar

from capataz.faults.lasting import Lasting
from capataz.mistakes import Sealed
from capataz.ports import Claim, Crashes, Job, JobRow, JobState, Orders, TurnBeat, WorkerBeat, WorkerRow
from capataz.stores.postgres.server import Connection
from capataz.stores.postgres.tables import clean
from capataz.stores.postgres.thread import Once
from capataz.stores.sealing import OPEN, SHOWN, Seal

T = TypeVar("T")
_log = logging.getLogger("capataz.worker")
SEALED_PAUSE = 15.0
"""Seconds a worker takes nothing more once it was given a job it has no key for: those that have the key go on."""
_JOB = "run, agent, task, task_type, conversation, tenant, priority, due, key, person"
_ROW = f"{_JOB}, state, worker, here, total, enqueued_at, until, orders, reason, token, beat_at, waiting_for, silent"
_LOOK: LiteralString = f"SELECT {_ROW} FROM job"
_IS: Mapping[JobState, LiteralString] = {
    "queued": "state = 'queued'",
    "parked": "state = 'parked'",
    "claimed": "state = 'claimed'",
    "waiting": "state = 'waiting'",
    "done": "state = 'done'",
    "dead": "state = 'dead'",
    "cancelled": "state = 'cancelled'",
}
"""Each state spelled out: so an index of the jobs in that state is used."""
_KNOWN = "SELECT run FROM job WHERE run = %s OR (%s::text IS NOT NULL AND key = %s) LIMIT 1"
_ENQUEUE: LiteralString = (
    f"INSERT INTO job ({_JOB}, engine, state, enqueued_at) VALUES ({'%s, ' * 10}%s, "
    "CASE WHEN %s > moment() THEN 'parked' ELSE 'queued' END, moment()) ON CONFLICT DO NOTHING RETURNING run"
)
_CLAIM: LiteralString = f"SELECT token, until, orders, {_JOB} FROM claim_jobs(%s, %s, %s, %s, %s, %s)"
_TAKE: LiteralString = f"SELECT token, until, orders, {_JOB} FROM take_job(%s, %s, %s, %s)"
_HELD = "run = %s AND token = %s AND state = 'claimed'"
_BEGIN: LiteralString = (
    "UPDATE job SET step = %s, here = CASE WHEN step = %s THEN here WHEN broken > 0 AND broken = token - 1 THEN 1 "
    f"ELSE 0 END WHERE {_HELD} RETURNING here, total"
)
_RELEASE: LiteralString = (
    "UPDATE job SET state = CASE WHEN orders IS NULL AND %s::float8 > moment() THEN 'parked' ELSE 'queued' END, "
    f"due = coalesce(%s::float8, due), until = NULL WHERE {_HELD}"
)
_TAKE_BACK = (
    "UPDATE job SET here = greatest(0, here - 1), total = greatest(0, total - 1), broken = 0 "
    "WHERE run = %s AND broken = %s"
)
_FINISH: LiteralString = (
    # An order that came while the run was going to wait must not wait with it.
    "UPDATE job SET state = CASE WHEN %s = 'waiting' AND orders IS NOT NULL THEN 'queued' ELSE %s END, "
    f"reason = %s, until = NULL WHERE {_HELD}"
)
_CANCEL = (
    "UPDATE job SET orders = %s, "
    "reason = CASE WHEN state = 'claimed' THEN reason WHEN token > 0 THEN '' ELSE %s END, "
    "state = CASE WHEN state = 'claimed' THEN state WHEN token > 0 THEN 'queued' ELSE 'cancelled' END "
    "WHERE run = %s AND orders IS NULL AND state NOT IN ('done', 'dead', 'cancelled') RETURNING state"
)
_BEAT = (
    "INSERT INTO worker (worker, started_at, beat_at, until, slots, busy, lag, health) "
    "SELECT %s, now, now, now + %s, %s, %s, %s, %s FROM moment() AS now ON CONFLICT (worker) DO UPDATE "
    "SET (beat_at, until, slots, busy, lag, health) = "
    "ROW (excluded.beat_at, excluded.until, excluded.slots, excluded.busy, excluded.lag, excluded.health) "
    "RETURNING until"
)
_TURNS = (
    "UPDATE job SET until = %s, beat_at = turn.at, waiting_for = turn.what, silent = turn.silent "
    "FROM unnest(%s::text[], %s::integer[], %s::float8[], %s::text[], %s::float8[]) "
    "AS turn (run, token, at, what, silent) "
    "WHERE job.run = turn.run AND job.token = turn.token AND job.state = 'claimed' AND job.worker = %s "
    "RETURNING job.run, job.orders"
)
_LEAVE = "UPDATE job SET state = 'queued', until = NULL WHERE state = 'claimed' AND worker = %s"
_CRASH = (
    "UPDATE job SET state = 'queued', here = here + 1, total = total + 1, broken = token "
    "WHERE state = 'claimed' AND worker = %s"
)
_LEAD = (
    "INSERT INTO leader (one, worker, until) SELECT 1, %s, now + %s FROM moment() AS now "
    "ON CONFLICT (one) DO UPDATE SET worker = excluded.worker, until = excluded.until "
    "WHERE leader.worker = excluded.worker OR leader.until < moment() RETURNING one"
)
_NOT_HANDED = (
    "SELECT run FROM job WHERE engine = %s AND NOT handed AND state IN ('queued', 'parked') "
    "AND enqueued_at < moment() - %s::float8 ORDER BY enqueued_at LIMIT %s"
)
_ANSWERED = (
    "SELECT job.run FROM job JOIN run USING (run) WHERE job.engine = %s AND job.state = 'waiting' "
    "AND run.status <> 'escalated' LIMIT %s"
)


class Perform(Protocol):
    """Does a piece of work with a connection. Each statement commits by itself, unless the work says otherwise."""

    def __call__(self, doing: str, work: Callable[[Connection], T]) -> Awaitable[T]: ...


class PostgresQueue:
    """A `Queue` on the tables of `schema/postgres-00*.sql`, for one engine: "" is the table itself."""

    def __init__(self, perform: Perform, engine: str = "", seal: Seal = OPEN) -> None:
        self._perform, self._engine, self._seal = perform, engine, seal
        self._resting = float("-inf")
        self._troubles = Lasting(_log.warning, time.monotonic)

    async def enqueue(self, job: Job) -> str:
        def work(connection: Connection) -> str:
            known = (job.run, job.key, job.key)
            for _ in range(3):  # whoever enqueues the same at the same moment wins, and is found the next time round
                if (found := connection.execute(_KNOWN, known).fetchone()) is not None:
                    return str(found[0])
                values = (*_columns(job, self._seal), self._engine, job.due)
                if connection.execute(_ENQUEUE, values).fetchone() is not None:
                    return job.run
            return job.run

        return await self._perform(f"enqueue run {job.run} in", work)

    async def claim(
        self, worker: str, agents: Collection[str], lease: float, *, per_tenant: int | None = None, most: int = 1
    ) -> list[Claim]:
        if time.monotonic() < self._resting:
            return []
        given = (worker, list(agents), lease, per_tenant, most, self._engine)
        rows = await self._perform("claim a run from", Once(_fetched(_CLAIM, given)))
        return [claim for claim in [await self._opened(worker, row) for row in rows] if claim is not None]

    async def _opened(self, worker: str, row: Sequence[Any]) -> Claim | None:
        """The claim with its task readable. A worker without the key gives the job back, for one that has it."""
        token, until, orders, *job = row
        try:
            task = _task(job, self._seal)
        except Sealed as error:
            self._troubles.failed("runs are left to a worker that has the key", f"run {job[0]}: {error}")
            self._resting = time.monotonic() + SEALED_PAUSE
            await self.release(Claim(_job(job, ""), worker, token, until))
            return None
        return Claim(_job(job, task), worker, token, until, orders)

    async def begin(self, claim: Claim, step: str) -> Crashes | None:
        given = (step, step, claim.job.run, claim.token)
        rows = await self._all(f"begin run {claim.job.run} in", _BEGIN, given)
        return Crashes(*rows[0]) if rows else None

    async def release(self, claim: Claim, until: float | None = None) -> bool:
        def work(connection: Connection) -> bool:
            held = (claim.job.run, claim.token)
            if connection.execute(_RELEASE, (until, until, *held)).rowcount == 1:
                return True
            connection.execute(_TAKE_BACK, held)
            return False

        return await self._perform(f"release run {claim.job.run} in", work)

    async def finish(self, claim: Claim, state: Literal["done", "waiting", "dead", "cancelled"], reason: str) -> bool:
        given = (state, state, clean(reason), claim.job.run, claim.token)
        return await self._changed(f"finish run {claim.job.run} in", _FINISH, given) == 1

    async def cancel(self, run: str, reason: str) -> JobState | None:
        words = clean(reason)
        rows = await self._all(f"cancel run {run} in", _CANCEL, (words, words, run))
        return rows[0][0] if rows else None

    async def beat(self, beat: WorkerBeat, lease: float) -> Orders:
        def work(connection: Connection) -> Orders:
            values = (beat.worker, lease, beat.slots, beat.busy, beat.lag, clean(beat.health))
            row = connection.execute(_BEAT, values).fetchone()
            assert row is not None
            turns = beat.turns
            columns = (
                *([turn.run for turn in turns], [turn.token for turn in turns], [turn.at for turn in turns]),
                *([turn.waiting_for for turn in turns], [turn.silent for turn in turns]),
            )
            kept: dict[str, str | None] = {}
            if turns:
                kept.update(connection.execute(_TURNS, (row[0], *columns, beat.worker)))
            lost = tuple(turn.run for turn in beat.turns if turn.run not in kept)
            return Orders(row[0], lost, {run: order for run, order in kept.items() if order is not None})

        return await self._perform("write a beat to", work)

    async def leave(self, worker: str, crashed: bool = False) -> int:
        def work(connection: Connection) -> int:
            with connection.transaction():
                count = connection.execute(_CRASH if crashed else _LEAVE, (worker,)).rowcount
                connection.execute("DELETE FROM worker WHERE worker = %s", (worker,))
                connection.execute("DELETE FROM leader WHERE worker = %s", (worker,))
            return count

        return await self._perform(f"sign {worker} off in", work)

    async def lead(self, worker: str, lease: float) -> bool:
        return bool(await self._all("look after the workers of", _LEAD, (worker, lease)))

    async def look(self, run: str) -> JobRow | None:
        rows = await self._all(f"look for run {run} in", f"{_LOOK} WHERE run = %s", (run,))
        return _row(rows[0], self._seal) if rows else None

    async def jobs(
        self, states: Collection[JobState] = (), limit: int = 100, *, tenant: str | None = None, untaken: bool = False
    ) -> list[JobRow]:
        among = " OR ".join(_IS[state] for state in states) or "TRUE"
        whose: LiteralString = "TRUE" if tenant is None else "tenant = %s"
        new: LiteralString = "token = 0" if untaken else "TRUE"
        text: LiteralString = f"{_LOOK} WHERE ({among}) AND {whose} AND {new} ORDER BY id DESC LIMIT %s"
        given = (limit,) if tenant is None else (tenant, limit)
        return [_row(row, self._seal) for row in await self._all("list the jobs of", text, given)]

    async def workers(self) -> list[WorkerRow]:
        text = "SELECT worker, slots, busy, lag, health, started_at, beat_at, until FROM worker ORDER BY 6, 1"
        rows = await self._all("list the workers of", text, ())
        return [WorkerRow(WorkerBeat(*row[:5]), *row[5:]) for row in rows]

    async def _all(self, doing: str, text: LiteralString, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return await self._perform(doing, _fetched(text, values))

    async def _changed(self, doing: str, text: LiteralString, values: Sequence[Any]) -> int:
        return await self._perform(doing, lambda connection: connection.execute(text, values).rowcount)


class PostgresSentQueue(PostgresQueue):
    """The same for jobs that another engine brings to the workers: `take` claims the one it has sent, and the rest
    tells that engine what it has missed."""

    async def take(self, run: str, worker: str, lease: float) -> Claim | None:
        """Claim this job, whoever has it: whoever sent us has given them up. None when it is over, or unknown."""
        given = (run, worker, lease, self._engine)
        rows = await self._perform(f"take run {run} from", Once(_fetched(_TAKE, given)))
        return await self._opened(worker, rows[0]) if rows else None

    async def handed(self, run: str) -> None:
        """The engine has the id of this job."""
        await self._changed(f"hand over run {run} in", "UPDATE job SET handed = true WHERE run = %s", (run,))

    async def not_handed(self, age: float, limit: int = 100) -> list[str]:
        """Jobs enqueued more than `age` seconds ago that the engine was never handed: whoever enqueued them died."""
        return [row[0] for row in await self._all("look through", _NOT_HANDED, (self._engine, age, limit))]

    async def answered(self, limit: int = 100) -> list[str]:
        """Jobs that wait for a person, although the log of their run has gone on."""
        return [row[0] for row in await self._all("look through", _ANSWERED, (self._engine, limit))]


def _fetched(text: LiteralString, values: Sequence[Any]) -> Callable[[Connection], list[tuple[Any, ...]]]:
    return lambda connection: connection.execute(text, values).fetchall()


def _columns(job: Job, seal: Seal) -> tuple[Any, ...]:
    task = seal.close(job.task.encode(errors="surrogatepass"), place_of_job(job.run))
    return (
        *(job.run, job.agent, task, job.task_type, job.conversation),
        *(job.tenant, job.priority, job.due, job.key, job.user),
    )


def place_of_job(run: str) -> str:
    """What a sealed task is bound to."""
    return f"the task of run {run} in the queue"


def _task(columns: Sequence[Any], seal: Seal) -> str:
    return seal.open(bytes(columns[2]), place_of_job(columns[0])).decode(errors="surrogatepass")


def _job(columns: Sequence[Any], task: str) -> Job:
    run, agent, _, *rest = columns
    return Job(run, agent, task, *rest)


def _row(columns: Sequence[Any], seal: Seal) -> JobRow:
    try:
        task = _task(columns, seal)
    except Sealed:
        task = SHOWN
    job = _job(columns[:10], task)
    state, worker, here, total, enqueued_at, until, orders, reason, token, beat_at, waiting_for, silent = columns[10:]
    turn = None if beat_at is None else TurnBeat(job.run, token, beat_at, waiting_for, silent)
    return JobRow(job, state, worker, Crashes(here, total), enqueued_at, until, orders, reason, turn, token)
