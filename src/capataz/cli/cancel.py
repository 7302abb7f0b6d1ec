"""`capataz cancel`: call submitted runs off, one or all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import click

from capataz.cli.finding import find_run, open_existing
from capataz.cli.jobs import ALL_OF_THEM, NAMES, OPEN, find_job
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import print_json
from capataz.mistakes import Misuse, NotFound
from capataz.ports import JobRow, JobState, Queue, Store
from capataz.runtime.handle import queue_of

_WORDS: Mapping[JobState, str] = {
    "claimed": "its worker was told; it breaks off within a beat",
    "queued": "it breaks off as soon as a worker takes it",
    "cancelled": "cancelled; it had not begun",
}


@click.command()
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="All that is not over, instead of one run.")
@click.option("--agent", help="With --all: only runs of this agent.")
@click.option("--reason", default="cancelled", show_default=True, help="Words for the run's log, and for its outcome.")
@store_option
@json_option
def cancel(run: str | None, everything: bool, agent: str | None, reason: str, store: str | None, as_json: bool) -> None:
    """Call RUN off: a submitted run that is queued, delayed, running or waiting. RUN is an id or the beginning of one.

    One that nobody has begun is over at once. Any other is broken off by its worker, and ends as aborted, with the
    reason "cancelled"; an act that is under way cannot be called back, and is in doubt. Where a run was called off
    before, the first order stands.

    \b
      capataz cancel 01K6Z --reason "the customer has withdrawn"
      capataz cancel --all --reason "restored from a backup"
    """
    if (run is None) != everything:
        raise Misuse("name a run, or say --all")
    if agent is not None and not everything:
        raise Misuse("--agent goes with --all: leave it out, the run is enough")
    words = reason.encode(errors="replace").decode()  # half a character, from a terminal of another encoding
    told = asyncio.run(_cancel(store, run, agent, words))
    if as_json:
        print_json([{"run_id": name, "state": NAMES[state]} for name, state in told])
        return
    for name, state in told:
        click.echo(f"{name}: {_WORDS[state]}")
    if not told:
        click.echo("there is nothing left to cancel")


async def _cancel(url: str | None, run: str | None, agent: str | None, reason: str) -> list[tuple[str, JobState]]:
    store = open_existing(url)
    try:
        queue = queue_of(store)
        if run is not None:
            row = await _open(store, queue, run)
            state = await queue.cancel(row.job.run, reason)
            if state is None:
                raise Misuse(
                    f"run {row.job.run} was over, or called off by somebody else, before it could be cancelled: see "
                    f"`capataz show {row.job.run}`"
                )
            return [(row.job.run, state)]
        told: list[tuple[str, JobState]] = []
        for row in await queue.jobs(OPEN, ALL_OF_THEM):
            if agent is not None and row.job.agent != agent:
                continue
            state = await queue.cancel(row.job.run, reason)
            if state is not None:
                told.append((row.job.run, state))
        return told
    finally:
        await store.close()


async def _open(store: Store, queue: Queue, named: str) -> JobRow:
    """The job of a run that can be called off. Raises `NotFound` or `Misuse`, with what is the matter."""
    row = await find_job(queue, named)
    if row is None:
        try:
            await find_run(store, named)
        except NotFound:
            raise NotFound(
                f"there is no run {named!r} in this store: `capataz jobs` lists what can be cancelled"
            ) from None
        raise Misuse(
            f"run {named} was not submitted, so no worker has it: end the process that drives it (Ctrl-C), or see "
            f"`capataz show {named}` for how it ended"
        )
    if row.state not in OPEN:
        raise Misuse(f"run {row.job.run} is over ({NAMES[row.state]}): see `capataz show {row.job.run}`")
    if row.order is not None:
        raise Misuse(f"run {row.job.run} was called off before; {_WORDS[row.state]}")
    return row
