"""`capataz spend`: what was spent, by whom and on what. A price not known is shown as unknown, never as zero."""

from __future__ import annotations

import asyncio

import click

from capataz.cli.finding import open_existing
from capataz.cli.masking import reveal, shower
from capataz.cli.options import as_json, store
from capataz.cli.render import console, print_json, styled
from capataz.events.facts import JSON
from capataz.lens.words import money
from capataz.mistakes import Misuse
from capataz.money.accounts import Spent
from capataz.ports import Accounts, Store
from capataz.runtime.journal import accounts_of

WAYS = ("tenant", "user", "agent", "source", "run")


@click.command()
@store
@click.option("--by", type=click.Choice(WAYS), default="agent", show_default=True, help="Whose spending to add up.")
@click.option("--period", default="total", show_default=True, help='"total", a month (2026-11) or a day (2026-11-30).')
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True, help="How many lines.")
@reveal
@as_json
def spend(store: str | None, by: str, period: str, limit: int, reveal: bool, as_json: bool) -> None:
    """Add up what model calls have cost, by agent, tenant, user, run or source (loop, compressor, supervisor, judge).

    Tokens are as the providers reported them. A "?" says that the price of some calls is not known: the sum is of the
    others. Guessed calls were charged as reserved, since their end is not known.

    \b
      capataz spend
      capataz spend --by tenant --period 2026-11 --json
    """
    rows = asyncio.run(_read(store, by, period, limit))
    show = shower(reveal).text if by in ("tenant", "user") else str
    if as_json:
        print_json([spent_json(row, show(row.name)) for row in rows])
    elif not rows:
        click.echo("nothing was spent")
    else:
        _print(by, [(show(row.name), row) for row in rows])


def kept_accounts(store: Store) -> Accounts:
    """The accounts of a store. Raises `Misuse` for one that keeps none."""
    accounts = accounts_of(store)
    if accounts is None:
        raise Misuse("this store keeps no accounts")
    return accounts


async def _read(url: str | None, by: str, period: str, limit: int) -> list[Spent]:
    store = open_existing(url)
    try:
        return await kept_accounts(store).spent(by, period, limit)
    finally:
        await store.close()


def spent_json(row: Spent, name: str) -> dict[str, JSON]:
    """A line for programs. `money` is null where no call had a known price."""
    return {
        "name": name,
        "calls": row.calls,
        "input_tokens": row.input,
        "output_tokens": row.output,
        "cache_read_tokens": row.cache_read,
        "cache_write_tokens": row.cache_write,
        "reasoning_tokens": row.reasoning,
        "money": None if row.unpriced == row.calls else str(row.money),
        "calls_without_price": row.unpriced,
        "calls_guessed": row.guessed,
        "calls_over_reservation": row.over,
    }


def _cost(row: Spent) -> str:
    if row.unpriced == row.calls:
        return "?"
    return f"{money(row.money)} + ?" if row.unpriced else money(row.money)


def _print(by: str, rows: list[tuple[str, Spent]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(by)
    for name in ("calls", "input", "cached", "output", "reasoning", "money", "notes"):
        table.add_column(name, justify="left" if name == "notes" else "right", no_wrap=name != "notes")
    for name, row in rows:
        notes = [
            f"{count} {word}"
            for count, word in (
                (row.unpriced, "without a known price"),
                (row.guessed, "charged as reserved"),
                (row.over, "over their reservation"),
            )
            if count
        ]
        figures = (row.calls, row.input, row.cache_read, row.output, row.reasoning)
        table.add_row(
            styled(name or "(none)"),
            *(styled(f"{figure:,}") for figure in figures),
            styled(_cost(row)),
            styled(", ".join(notes), "warn"),
        )
    console().print(table)
