"""`capataz runs`: what ran, how it ended, what it cost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import click
from rich.text import Text

from capataz.cli.finding import open_existing
from capataz.cli.masking import reveal, shower
from capataz.cli.options import as_json, store
from capataz.cli.render import print_json, styled
from capataz.cli.table import print_table
from capataz.events.facts import JSON
from capataz.lens.trace.as_json import spend_json
from capataz.lens.words import duration, money, short, tone_of
from capataz.ports import RunRow


@click.command()
@store
@click.option("--limit", "-n", type=click.IntRange(1), default=20, show_default=True, help="How many.")
@click.option("--agent", help="Only runs of this agent.")
@click.option(
    "--outcome",
    type=click.Choice(["completed", "answered", "partial", "escalated", "aborted"]),
    help="Only runs that ended so.",
)
@reveal
@as_json
def runs(store: str | None, limit: int, agent: str | None, outcome: str | None, reveal: bool, as_json: bool) -> None:
    """List the runs in a store, newest first."""
    mask = shower(reveal)
    rows = [
        replace(row, task=mask.text(row.task), reason=mask.text(row.reason))
        for row in asyncio.run(_read(store, limit, agent, outcome))
    ]
    if as_json:
        print_json([_json(row) for row in rows])
        return
    if not rows:
        click.echo("no runs")
        return
    print_table([_cells(row) for row in rows], elastic=("task",), dispensable=_DISPENSABLE, right=_RIGHT)


async def _read(url: str | None, limit: int, agent: str | None, outcome: str | None) -> list[RunRow]:
    store = open_existing(url)
    try:
        return await store.runs(limit, agent=agent, outcome=outcome)
    finally:
        await store.close()


_RIGHT = ("turns", "calls", "tokens", "money", "took")
_DISPENSABLE = ("money", "calls", "agent", "started", "task", "tokens", "took")


def _cells(row: RunRow) -> dict[str, Text]:
    ended = f"{row.outcome}: {row.reason}" if row.outcome else row.status
    return {
        "run": styled(row.run, "quiet"),
        "started": styled(datetime.fromtimestamp(row.started_at, UTC).strftime("%m-%d %H:%M"), "quiet"),
        "agent": styled(short(row.agent, 12)),
        "ended": styled(short(ended, 28), tone_of(row.outcome, row.reason)),
        "turns": styled(str(row.spend.turns)),
        "calls": styled(str(row.spend.calls)),
        "tokens": styled(f"{row.spend.tokens:,}"),
        "money": styled("?" if row.spend.money is None else money(row.spend.money)),
        "took": styled(duration(row.spend.seconds)),
        "task": styled(short(row.task, 60)),
    }


def _json(row: RunRow) -> JSON:
    return {
        "run_id": row.run,
        "agent": row.agent,
        "task": row.task,
        "status": row.status,
        "outcome": row.outcome,
        "reason": row.reason,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "usage": spend_json(row.spend),
        "events": row.events,
        "root": row.root,
        "parent": row.parent,
        "task_type": row.task_type,
        "model": row.model,
    }
