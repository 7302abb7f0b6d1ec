"""`capataz show RUN --follow`: a run as it goes on, one line for each thing worth a look."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import click
import orjson

from capataz.cli.finding import find_run, open_existing
from capataz.cli.masking import shower
from capataz.cli.progress import Progress
from capataz.cli.render import console
from capataz.events.codec import to_line
from capataz.events.facts import EscalationAnswered, Event, RunEnded, RunEscalated, RunStarted
from capataz.lens.words import line

PAUSE = 0.3
"""Seconds between two looks."""


async def follow(run: str, url: str | None, as_json: bool, reveal: bool = False, pause: float = PAUSE) -> None:
    """Print what is there and then what comes, until the run has ended or waits for a person."""
    mask, tell = shower(reveal), _teller(as_json)
    store = open_existing(url)
    try:
        events = await find_run(store, run)
        first = events[0].fact
        whole = first.run if isinstance(first, RunStarted) else run
        over, last = False, -1
        while True:
            for event in events:
                tell(whole, mask.event(event))
                over, last = _over(event), event.seq
            if over:
                return
            await asyncio.sleep(pause)
            events = await store.read(whole, last)
    finally:
        await store.close()


def _over(event: Event) -> bool:
    return isinstance(event.fact, RunEnded) or (isinstance(event.fact, RunEscalated) and event.fact.to == "human")


def _teller(as_json: bool) -> Callable[[str, Event], None]:
    if as_json:
        return lambda run, event: click.echo(json.dumps({"run": run, **orjson.loads(to_line(event))}))
    out = console()
    progress = Progress(out)

    def tell(run: str, event: Event) -> None:
        progress.watch(run, event)
        if isinstance(event.fact, RunEnded | RunEscalated | EscalationAnswered):
            told = line(event.fact)
            out.print(f"{told.head} · {told.text}" if told.text else told.head, markup=False, soft_wrap=True)

    return tell
