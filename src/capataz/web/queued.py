"""Runs that were submitted and that no worker has begun: without a log yet, they have no row in the list of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from capataz.events.facts import JSON
from capataz.mistakes import NotFound
from capataz.ports import JobRow
from capataz.stores.index import TASK_SHOWN
from capataz.web.shown import masked_job
from capataz.web.site import Site
from capataz.web.tokens import Caller

MOST = 50
"""Shown, at most: the newest."""
_BEHIND_ALL = 2**53
"""No event of a log stands behind it."""


async def queued(site: Site, caller: Caller, asked: Mapping[str, str], most: int = MOST) -> list[JobRow]:
    """Those the caller may see that fit what is asked for, newest first and masked; none where an outcome is."""
    if site.queue is None or asked.get("outcome"):
        return []
    rows = await site.queue.jobs(("queued", "parked"), MOST, tenant=caller.tenant, untaken=True)
    fitting = [row for row in rows if _fits(row, asked)][:most]
    begun = await asyncio.gather(*(_begun(site, row.job.run) for row in fitting))
    return [masked_job(site.shower, row) for row, already in zip(fitting, begun, strict=True) if not already]


async def _begun(site: Site, run: str) -> bool:
    """Whether it has a log all the same: a fork has one before any worker takes it."""
    try:
        await site.store.read(run, _BEHIND_ALL)
    except NotFound:
        return False
    return True


def _fits(row: JobRow, asked: Mapping[str, str]) -> bool:
    job, words = row.job, asked.get("q", "").lower()
    if asked.get("agent", job.agent) not in ("", job.agent):
        return False
    if asked.get("type", "") not in ("", job.task_type):
        return False
    return words in f"{job.run} {job.task}".lower()


def job_json(row: JobRow) -> dict[str, JSON]:
    """A run in the queue, as the API lists it: of a long task the beginning, as of a run's, and how many characters it
    has in all. Times in seconds since the epoch; `due` is null where it may begin."""
    job = row.job
    told: dict[str, JSON] = {"run": job.run, "agent": job.agent, "task": job.task[:TASK_SHOWN]}
    told |= {"task_length": len(job.task), "task_type": job.task_type}
    return {**told, "status": "queued", "queued_at": row.enqueued_at, "due": job.due or None, "priority": job.priority}
