"""`capataz runs`: what ran, how it ended, what it cost."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import click

from capataz.cli.finding import open_existing
from capataz.cli.options import as_json, store
from capataz.cli.render import console, print_json, styled
from capataz.events.facts import JSON
from capataz.lens.trace_json import spend_json
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
@as_json
def runs(store: str | None, limit: int, agent: str | None, outcome: str | None, as_json: bool) -> None:
    """List the runs in a store, newest first."""
    rows = asyncio.run(_read(store, limit, agent, outcome))
    if as_json:
        print_json([_json(row) for row in rows])
        return
    if not rows:
        click.echo("no runs")
        return
    _print(rows)


async def _read(url: str | None, limit: int, agent: str | None, outcome: str | None) -> list[RunRow]:
    store = open_existing(url)
    try:
        return await store.runs(limit, agent=agent, outcome=outcome)
    finally:
        await store.close()


def _print(rows: list[RunRow]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("run", "started", "agent", "ended", "turns", "calls", "tokens", "money", "took", "task"):
        right = name in ("turns", "calls", "tokens", "money", "took")
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "task")
    for row in rows:
        ended = f"{row.outcome}: {row.reason}" if row.outcome else row.status
        table.add_row(
            styled(row.run, "quiet"),
            styled(datetime.fromtimestamp(row.started_at, UTC).strftime("%m-%d %H:%M"), "quiet"),
            styled(short(row.agent, 20)),
            styled(short(ended, 32), tone_of(row.outcome)),
            str(row.spend.turns),
            str(row.spend.calls),
            f"{row.spend.tokens:,}",
            money(row.spend.money) if row.spend.money is not None else "?",
            duration(row.spend.seconds),
            styled(short(row.task, 60)),
        )
    console().print(table)


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
