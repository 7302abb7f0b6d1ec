"""`capataz jobs`: what was submitted and is not over: what runs and who has it, what waits and for what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import click
from rich.text import Text

from capataz.cli.finding import check_named, open_existing
from capataz.cli.masking import reveal as reveal_option, shower
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import print_json, styled
from capataz.cli.table import print_table
from capataz.events.facts import JSON
from capataz.lens.words import Tone, duration, short
from capataz.mistakes import Misuse
from capataz.ports import JobRow, JobState, Queue
from capataz.runtime.handle import queue_of
from capataz.stores.index import TASK_SHOWN

NAMES: Mapping[JobState, str] = {
    "queued": "queued",
    "parked": "delayed",
    "claimed": "running",
    "waiting": "waiting",
    "done": "done",
    "dead": "dead",
    "cancelled": "cancelled",
}
"""What the command line calls them. Waiting is for a person: see `capataz inbox`."""
OPEN: tuple[JobState, ...] = ("queued", "parked", "claimed", "waiting")
ALL_OF_THEM = 1_000_000
_STATES: Mapping[str, JobState] = {name: state for state, name in NAMES.items()}
_TONES: Mapping[JobState, Tone] = {"claimed": "good", "waiting": "warn", "dead": "bad", "cancelled": "quiet"}


@click.command()
@click.option("--state", "states", type=click.Choice(list(_STATES)), multiple=True, help="Only these; may be repeated.")
@click.option("--agent", help="Only jobs of this agent.")
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True, help="How many.")
@store_option
@reveal_option
@json_option
def jobs(
    states: tuple[str, ...], agent: str | None, limit: int, store: str | None, reveal: bool, as_json: bool
) -> None:
    """List submitted runs that are not over, newest first: queued, delayed, running, or waiting for a person.

    "held by" is the worker that drives the run, and when it last gave a sign of life. "tries" is how often a worker
    took the run, "crashes" how many of these it did not survive.

    \b
      capataz jobs
      capataz jobs --state running --json
    """
    wanted: Sequence[JobState] = [_STATES[name] for name in states] or OPEN
    mask = shower(reveal)
    rows = [
        replace(row, reason=mask.text(row.reason), job=replace(row.job, task=mask.text(row.job.task)))
        for row in asyncio.run(_read(store, wanted, agent, limit))
    ]
    if as_json:
        print_json([job_json(row) for row in rows])
    elif not rows:
        click.echo("no jobs" if states or agent else "nothing is queued, running or waiting")
    else:
        now = time.time()
        print_table([_cells(row, now) for row in rows], elastic=("task",), dispensable=_DISPENSABLE, right=_RIGHT)


async def _read(url: str | None, states: Sequence[JobState], agent: str | None, limit: int) -> list[JobRow]:
    store = open_existing(url)
    try:
        found = await queue_of(store).jobs(states, limit if agent is None else ALL_OF_THEM)
    finally:
        await store.close()
    return [row for row in found if agent is None or row.job.agent == agent][:limit]


async def find_job(queue: Queue, named: str) -> JobRow | None:
    """The job of the run with this id, or with the only id of an open one that begins like this."""
    check_named(named)
    row = await queue.look(named)
    if row is not None:
        return row
    found = [row for row in await queue.jobs(OPEN, ALL_OF_THEM) if row.job.run.startswith(named)]
    if len(found) > 1:
        some = ", ".join(row.job.run for row in found[:3])
        raise Misuse(f"{named!r} is not clear: {len(found)} jobs begin so, among them {some}")
    return found[0] if found else None


def job_json(row: JobRow) -> JSON:
    """Everything the queue knows of a job; of a long task the beginning, and how many characters it has in all. Times
    are seconds since the epoch."""
    job, held = row.job, row.state == "claimed"
    return {
        "run_id": job.run,
        "agent": job.agent,
        "task": job.task[:TASK_SHOWN],
        "task_length": len(job.task),
        "state": NAMES[row.state],
        "tenant": job.tenant,
        "user": job.user,
        "priority": job.priority,
        "key": job.key,
        "conversation": job.conversation,
        "submitted_at": row.enqueued_at,
        "due_at": job.due if row.state == "parked" else None,
        "worker": row.worker if held else None,
        "lease_until": row.until if held else None,
        "alive_at": row.beat.at if held and row.beat is not None else None,
        "busy_with": row.beat.waiting_for if held and row.beat is not None else None,
        "tries": row.tries,
        "crashes": row.crashes.total,
        "order": row.order,
        "reason": row.reason,
    }


_RIGHT = ("age", "tries", "crashes")
_DISPENSABLE = ("tries", "crashes", "tenant", "task", "agent", "age", "held by")


def _cells(row: JobRow, now: float) -> dict[str, Text]:
    return {
        "run": styled(row.job.run, "quiet"),
        "state": styled(_state(row, now), _TONES.get(row.state, "plain")),
        "age": styled(duration(max(0.0, now - row.enqueued_at))),
        "agent": styled(short(row.job.agent, 20)),
        "tenant": styled(short(row.job.tenant, 20)),
        "held by": _holder(row, now),
        "tries": styled(str(row.tries)),
        "crashes": styled(str(row.crashes.total), "bad" if row.crashes.total else "plain"),
        "task": styled(short(row.job.task, 60)),
    }


def _state(row: JobRow, now: float) -> str:
    name = NAMES[row.state]
    if row.order is not None and row.state in OPEN:
        return f"{name}, to be cancelled"
    return f"{name} for {duration(row.job.due - now)}" if row.state == "parked" and row.job.due > now else name


def _holder(row: JobRow, now: float) -> Text:
    if row.state != "claimed":
        return styled("")
    worker = short(row.worker or "", 24)
    if row.until is not None and row.until < now:
        return styled(f"{worker}, silent", "bad")
    ago = "" if row.beat is None else f", alive {duration(max(0.0, now - row.beat.at))} ago"
    return styled(f"{worker}{ago}")
