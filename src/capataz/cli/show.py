"""`capataz show RUN`: the trace of a run as a readable tree, as JSON, or as a page to send to someone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

import click

from capataz.cli.finding import find_run, open_existing
from capataz.cli.masking import reveal, shower
from capataz.cli.options import OUTPUT, as_json, store
from capataz.cli.render import console, print_json, run_tree
from capataz.events.facts import Event
from capataz.lens.trace.as_json import trace_json
from capataz.lens.trace.fold import trace
from capataz.mistakes import Misuse


@click.command()
@click.argument("run", default="last")
@store
@click.option("--html", type=OUTPUT, help="Write a self-contained page instead.")
@click.option("--follow", "-f", is_flag=True, help="Go on showing what happens, until it is over. With --json: lines.")
@reveal
@as_json
def show(run: str, store: str | None, html: Path | None, follow: bool, reveal: bool, as_json: bool) -> None:
    """Show RUN: each turn, each call with its class and result, each verdict with its evidence, and what was spent.

    RUN is an id or the beginning of one; without it, the newest run is shown. A run still going on is shown so far.
    Personal data and secrets are masked; --reveal shows them.

    \b
      capataz show
      capataz show 0195f --html run.html
      capataz show --follow
    """
    if html is not None:
        writable(html)
    if follow:
        from capataz.cli.follow import follow as go_on

        asyncio.run(go_on(run, store, as_json, reveal))
        return
    events = shower(reveal).events(asyncio.run(_read(run, store)))
    if html is not None:
        write_page(events, html)
        if not as_json:
            click.echo(f"wrote {html}")
    if as_json:
        print_json(trace_json(trace(events)))
    elif html is None:
        out = console()
        out.print(run_tree(trace(events), out.width))


async def _read(run: str, url: str | None) -> list[Event]:
    store = open_existing(url)
    try:
        return await find_run(store, run)
    finally:
        await store.close()


def write_page(events: Iterable[Event], path: Path) -> None:
    """Write the page of a run. Text that UTF-8 cannot say is replaced."""
    from capataz.lens.trace.page import page

    path.write_text(page(trace(events)), encoding="utf-8", errors="replace")


def writable(path: Path) -> None:
    """Raises `Misuse` where a page could not be written: before the work, not after it."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise Misuse(f"--html {path}: there is no folder {folder}: make it, or name another")
    if path.is_dir():
        raise Misuse(f"--html {path} is a folder: name a file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise Misuse(f"--html {path} may not be written: name another file")
