"""`capataz models`: what the models of past runs have refused, as lines for the capability table."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import click

from capataz.cli.finding import open_existing
from capataz.cli.masking import shower
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import print_json
from capataz.events.facts import CapabilityLearned


@click.group()
def models() -> None:
    """What is known of models, and what runs have found out."""


@models.command()
@store_option
@click.option("--limit", "-n", type=click.IntRange(1), default=1000, show_default=True, help="How many runs to read.")
@json_option
def learned(store: str | None, limit: int, as_json: bool) -> None:
    """Print what models have refused by name, as TOML for the capability table. Nothing is applied by itself.

    Give an entry to a profile of yours (`Profile(models=...)`), or offer it to the project.
    """
    found = [replace(line, advice=shower().text(line.advice)) for line in asyncio.run(_read(store, limit))]
    if as_json:
        print_json([{"model": f.model, "parameter": f.parameter, "advice": f.advice} for f in found])
    elif not found:
        click.echo("no run in this store was refused a parameter", err=True)
    else:
        click.echo("\n\n".join(f.advice for f in found))


async def _read(url: str | None, limit: int) -> list[CapabilityLearned]:
    """Each advice once, the newest run first."""
    store = open_existing(url)
    found: dict[str, CapabilityLearned] = {}
    try:
        for row in await store.runs(limit):
            for event in await store.read(row.run):
                if isinstance(event.fact, CapabilityLearned):
                    found.setdefault(event.fact.advice, event.fact)
    finally:
        await store.close()
    return list(found.values())
