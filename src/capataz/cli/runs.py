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
from capataz.cli.render import console, print_json, styled
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

    out = console()
    lines = [_cells(row) for row in rows]
    names = _fitting(lines, out.width)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in names:
        right = name in ("turns", "calls", "tokens", "money", "took")
        room = max(len(name), out.width - _wide(names, lines)) if name == "task" else None
        table.add_column(name, justify="right" if right else "left", no_wrap=True, max_width=room)
    for cells in lines:
        table.add_row(*(cells[name] for name in names))
    out.print(table)


_ALL = ("run", "started", "agent", "ended", "turns", "calls", "tokens", "money", "took", "task")
_DISPENSABLE = ("money", "calls", "agent", "started", "task", "tokens", "took")
"""What is left out first where there is little room. Nothing but the task is ever cut: half an id is of no use."""
_GAP = 3
_LEAST_TASK = 20


def _fitting(lines: list[dict[str, Text]], width: int) -> list[str]:
    """The columns there is room for."""
    names: list[str] = list(_ALL)
    for name in _DISPENSABLE:
        if _wide(names, lines) + (_LEAST_TASK if "task" in names else 0) <= width:
            break
        names.remove(name)
    return names


def _wide(names: list[str], lines: list[dict[str, Text]]) -> int:
    """Columns the terminal needs for these, but for what the task takes."""
    return sum(_GAP + (0 if name == "task" else max(len(name), *(len(c[name]) for c in lines))) for name in names)


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
