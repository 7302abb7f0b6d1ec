"""`capataz metrics`: how the runs in a store did, by agent, task type, tool, model and version."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import cast

import click
from rich.text import Text

from capataz.cli.finding import open_existing
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import console, print_json, styled
from capataz.cli.since import Ago
from capataz.lens.metrics.figures import ModelFigures, ToolFigures
from capataz.lens.metrics.prometheus import exposition
from capataz.lens.metrics.sketch import Sketch
from capataz.lens.metrics.tally import BY, By, Runs, Tally
from capataz.lens.words import duration, money
from capataz.runtime.world import RealClock
from capataz.telemetry.reading import tally_since


@click.command()
@store_option
@click.option("--by", type=click.Choice(BY), default="agent", show_default=True, help="What to group by.")
@click.option("--since", type=Ago(), metavar="TIME", help="Only runs begun in the last 30m, 24h, 7d. Without it, all.")
@click.option("--agent", help="Only runs of this agent.")
@click.option("--prometheus", is_flag=True, help="Everything in Prometheus' text format.")
@json_option
def metrics(
    store: str | None, by: str, since: float | None, agent: str | None, prometheus: bool, as_json: bool
) -> None:
    """Show how runs did: completion that was verified, tokens and money a task, errors, loops, steps, times.

    \b
      capataz metrics --since 7d
      capataz metrics --by tool --agent support
      capataz metrics --prometheus > /var/lib/node_exporter/capataz.prom
    """
    total = asyncio.run(_read(store, since, agent))
    if prometheus:
        click.echo(exposition(total), nl=False)
    elif as_json:
        print_json(total.json(cast("By", by)))
    elif not total.all.runs:
        click.echo("no runs")
    else:
        _print(total, cast("By", by))


async def _read(url: str | None, since: float | None, agent: str | None) -> Tally:
    store = open_existing(url)
    try:
        return await tally_since(store, None if since is None else RealClock().now() - since, agent)
    finally:
        await store.close()


def _print(total: Tally, by: By) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    groups: Mapping[str, Runs | ToolFigures | ModelFigures] = total.by(by)
    rows = sorted(groups.items())
    kinds: dict[type, tuple[str, ...]] = {Runs: _RUNS, ToolFigures: _TOOLS, ModelFigures: _MODELS}
    columns = kinds[type(rows[0][1])] if rows else _RUNS
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(by, overflow="fold")
    for name in columns:
        table.add_column(name, justify="right")
    for name, found in rows:
        table.add_row(styled(name), *_cells(found))
    if columns is _RUNS and len(rows) > 1:
        table.add_section()
        table.add_row(styled("all", bold=True), *_cells(total.all))
    console().print(table)


_RUNS = ("runs", "completed", "otherwise", "loops", "errors", "steps", "tokens", "money", "p50", "p99")
_TOOLS = ("calls", "errors", "refused", "in doubt", "p50", "p95", "p99")
_MODELS = ("calls", "failures", "tokens in", "tokens out", "money", "p50", "p95", "p99", "first byte")


def _cells(found: Runs | ToolFigures | ModelFigures) -> Iterable[Text]:
    match found:
        case Runs():
            return _of_runs(found)
        case ToolFigures():
            counted = (str(found.calls), _share(found.errors, found.calls), str(found.refused), str(found.in_doubt))
            return _texts(*counted, *_times(found.seconds, 0.5, 0.95, 0.99))
        case ModelFigures():
            spent = "?" if found.unpriced else money(found.money)
            numbers = (str(found.calls), _share(found.failures, found.calls), f"{found.input_tokens:,}")
            times = (*_times(found.seconds, 0.5, 0.95, 0.99), *_times(found.first_byte, 0.5))
            return _texts(*numbers, f"{found.output_tokens:,}", spent, *times)


def _of_runs(runs: Runs) -> Iterable[Text]:
    acting = "-" if runs.completion_rate is None else f"{runs.completion_rate:.0%}"
    others = [f"{number} {name}" for name, number in sorted(runs.outcomes.items()) if name != "completed"]
    steps, tokens = runs.turns.mean, runs.tokens_each.mean
    spent = "?" if runs.unpriced else f"${runs.money_each.mean:.4f}" if runs.money_each.mean is not None else "-"
    return _texts(
        str(runs.runs),
        acting,
        ", ".join(others) or "-",
        _share(runs.looped, runs.runs),
        _share(runs.tool_errors, runs.tool_calls),
        "-" if steps is None else f"{steps:.1f}",
        "-" if tokens is None else f"{tokens:,.0f}",
        spent,
        *_times(runs.seconds, 0.5, 0.99),
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _times(sketch: Sketch, *shares: float) -> Iterable[str]:
    found = (sketch.quantile(share) for share in shares)
    return ["-" if value is None else duration(value) for value in found]


def _texts(*cells: str) -> Iterable[Text]:
    return [styled(cell, "quiet" if cell in ("-", "0", "0.0%") else "plain") for cell in cells]
