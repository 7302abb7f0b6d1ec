"""`capataz erase`: take what people and models said out of runs that are over, one or all of a certain age."""

from __future__ import annotations

import asyncio
import re
import time

import click

from capataz.cli.finding import find_run, open_existing
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import print_json
from capataz.events.facts import RunStarted
from capataz.mistakes import Misuse
from capataz.runtime.erasing import Erased, erase as erase_run, sweep

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


@click.command()
@click.argument("run", required=False)
@click.option("--older-than", metavar="AGE", help="All runs that ended so long ago: 90d, 12h, 2w.")
@store_option
@json_option
def erase(run: str | None, older_than: str | None, store: str | None, as_json: bool) -> None:
    """Erase what was said in RUN and its sub-agents' runs: texts, arguments and results become digests.

    What was done, when, at what price and how it ended stays. RUN is an id or the beginning of one, and it has to be
    over. This cannot be undone. With --json the key of the digests is printed, once: who keeps it can prove later what
    a text was. With --older-than the same for all runs of that age; run it daily to keep what is said no longer.

    \b
      capataz erase 01K6Z
      capataz erase --older-than 90d
    """
    if (run is None) == (older_than is None):
        raise Misuse("name a run, or say --older-than 90d")
    if older_than is not None:
        before = time.time() - seconds(older_than)
        count = asyncio.run(_sweep(store, before))
        if as_json:
            print_json({"runs": count, "before": before})
        else:
            click.echo(f"{count} runs erased")
        return
    root, done = asyncio.run(_erase(store, run or ""))
    if as_json:
        print_json({"run": root, "runs": done.runs, "key": done.key.hex()})
    else:
        click.echo(f"{root}: erased" + (f", with {done.runs - 1} runs of sub-agents" if done.runs > 1 else ""))


def seconds(age: str) -> float:
    """The seconds of "90d", "12h", "30m", "2w".

    >>> seconds("2h")
    7200.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", age.strip())
    if found is None:
        raise Misuse(f"--older-than {age!r}: write a number and m, h, d or w, for instance 90d")
    return float(found[1]) * _UNITS[found[2]]


async def _erase(url: str | None, named: str) -> tuple[str, Erased]:
    store = open_existing(url)
    try:
        first = (await find_run(store, named))[0].fact
        if not isinstance(first, RunStarted):
            raise Misuse(f"the log of run {named} has no beginning: it cannot be erased")
        if first.parent is not None:
            raise Misuse(f"run {first.run} was started by another: erase {first.root}, which holds what it was told")
        return first.run, await erase_run(store, first.run)
    finally:
        await store.close()


async def _sweep(url: str | None, before: float) -> int:
    store = open_existing(url)
    try:
        return await sweep(store, before)
    finally:
        await store.close()
