"""`capataz trace VALUE RUN`: who said a value first, and everything that took it over."""

from __future__ import annotations

import asyncio

import click

from capataz.cli.finding import find_run, open_existing
from capataz.cli.masking import reveal as reveal_option, shower as shown
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import console, print_json, styled
from capataz.events.facts import JSON, Event
from capataz.lens.masked import Shower
from capataz.lens.provenance import Provenance, excerpt, provenance

UNSOURCED = 1
"""Exit status where nothing outside the model said the value first."""


@click.command(name="trace")
@click.argument("value")
@click.argument("run", default="last")
@store_option
@reveal_option
@json_option
@click.pass_context
def trace(context: click.Context, value: str, run: str, store: str | None, reveal: bool, as_json: bool) -> None:
    """Follow VALUE (a number, date, id or address) through RUN: its first source, then everything downstream.

    Exact after normalising: 1,250.00 is 1250. Exit status 0: something outside said it first; 1: it has no source,
    which says unsupported, never false; also 1 where it stands nowhere.

    \b
      capataz trace 39.50 01K6Z
    """
    found = provenance(asyncio.run(_read(store, run)), value)
    shower = shown(reveal)
    if as_json:
        print_json(_json(found, shower))
    else:
        _print(found, shower)
    context.exit(0 if found.source is not None else UNSOURCED)


async def _read(url: str | None, run: str) -> list[Event]:
    store = open_existing(url)
    try:
        return await find_run(store, run)
    finally:
        await store.close()


def _json(found: Provenance, shower: Shower) -> JSON:
    return {
        "value": shower.text(found.value),
        "source": None if found.source is None else found.source.seq,
        "first": None if found.first is None else found.first.seq,
        "mentions": [
            {
                "seq": each.seq,
                "what": each.what,
                "where": shower.text(each.where),
                "from_outside": each.outside,
                "text": excerpt(shower.text(each.text), shower.text(found.value)),
            }
            for each in found.mentions
        ],
        "cut": found.cut,
    }


def _print(found: Provenance, shower: Shower) -> None:
    out = console()
    if found.first is None:
        out.print(styled("it stands nowhere in this run", "warn"))
        return
    if found.source is None:
        out.print(styled("no source: the model was the first to say it", "bad", bold=True))
    for place, each in enumerate(found.mentions):
        tone = "good" if each is found.source else "bad" if place == 0 else "plain" if each.outside else "quiet"
        where = f" {each.where}" if each.where else ""
        out.print(styled(f"{each.seq:>6}  {each.what}{shower.text(where)}", tone))  # type: ignore[arg-type]
        out.print(styled(f"{'':8}{excerpt(shower.text(each.text), shower.text(found.value))}", "quiet"))
