"""`capataz demo`: an unreliable worker, scene by scene, in the naive loop and under the foreman."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from capataz.app import App
from capataz.cli.demo_text import print_closing, print_opening, print_scene
from capataz.cli.exits import EXITS
from capataz.cli.options import OUTPUT, as_json
from capataz.cli.render import console, print_json
from capataz.demo.real import RealRun, World, play_real
from capataz.demo.scenes import SCENES, Scene
from capataz.demo.shop import Rows
from capataz.demo.stage import Played, Side, play
from capataz.events.facts import JSON
from capataz.lens.words import counted
from capataz.mistakes import Misuse

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = "It repeats a refund"
"""The scene whose run becomes the page."""


@click.command()
@click.option("--scene", "wanted", multiple=True, metavar="WORDS", help="Only scenes whose title has these words.")
@click.option("--model", help='Run the shop task on a real model instead: "openai:NAME" or "anthropic:NAME".')
@click.option("--base-url", help="Address of a compatible server, with --model.")
@click.option("--world", type=click.Choice(get_args(World)), default="works", help="With --model: what the shop does.")
@click.option("--store", default="sqlite:///capataz-demo.db", show_default=True, help="Where the runs are kept.")
@click.option(
    "--html",
    type=OUTPUT,
    default=Path("capataz-demo.html"),
    show_default=True,
    help="Where the page of one run is written.",
)
@as_json
def demo(
    wanted: tuple[str, ...],
    model: str | None,
    base_url: str | None,
    world: World,
    store: str,
    html: Path,
    as_json: bool,
) -> None:
    """A small shop, and a model that goes wrong in each known way: what the worker did, what the foreman did, how it
    ended and what it cost, beside the same scene in a naive loop with the same ceiling. No key, no network, no GPU.

    With --model the same shop task runs on a real model:

    \b
      capataz demo --model openai:NAME --base-url http://127.0.0.1:8080/v1
      ANTHROPIC_API_KEY=... capataz demo --model anthropic:NAME
    """
    if model is not None:
        sys.exit(_real(model, base_url, world, store, html, as_json))
    scenes = [scene for scene in SCENES if not wanted or any(w.lower() in scene.title.lower() for w in wanted)]
    if not scenes:
        raise Misuse(f"no scene is called so; they are: {', '.join(scene.title for scene in SCENES)}")
    sys.exit(_scenes(scenes, store, html, as_json))


# ── the scenes ───────────────────────────────────────────────────────────────────────────────────────────


def _scenes(scenes: Sequence[Scene], store: str, html: Path, as_json: bool) -> int:
    out, begun = console(), time.monotonic()
    if not as_json:
        print_opening(out, len(scenes))
    played = asyncio.run(_play(scenes, store, html, None if as_json else out))
    broken = [one for one in played if not one.foreman.honest or one.violations]
    if as_json:
        print_json({"scenes": [_json(one) for one in played], "page": str(html), "store": store})
    else:
        print_closing(out, played, time.monotonic() - begun, store, html)
    return 1 if broken else 0


async def _play(scenes: Sequence[Scene], store: str, html: Path, out: Console | None) -> list[Played]:
    from capataz.cli.show import write_page

    def show(one: Played) -> None:
        if out is not None:
            print_scene(out, one)

    with tempfile.TemporaryDirectory(prefix="capataz-demo-") as folder:
        async with App(store) as app:
            kept = app.store  # a name that is no store is said before anything begins
            played = await play(scenes, app, Path(folder), show)
            shown = next((one for one in played if one.scene.title == _SHOWN), played[0])
            write_page(await kept.read(shown.run), html)
    return played


def _json(one: Played) -> JSON:
    return {
        "scene": one.scene.title,
        "worker": one.scene.worker,
        "does": one.scene.does,
        "dialect": one.scene.dialect,
        "naive": _side_json(one.naive),
        "foreman": {**_side_json(one.foreman), "run_id": one.run, "outcome": one.outcome, "did": list(one.deeds)},
        "violations": list(one.violations),
    }


def _side_json(side: Side) -> dict[str, JSON]:
    return {
        "ended": side.ended,
        "said": side.said,
        "honest": side.honest,
        "turns": side.turns,
        "calls": side.calls,
        "tokens": side.tokens,
        "seconds": round(side.seconds, 2),
        "rows": _rows_json(side.rows),
    }


def _rows_json(rows: Rows) -> dict[str, JSON]:
    return {"refunds": rows.refunds, "refunded_cents": rows.refunded_cents, "messages": rows.messages}


# ── a real model ─────────────────────────────────────────────────────────────────────────────────────────


def _real(model: str, base_url: str | None, world: World, store: str, html: Path, as_json: bool) -> int:
    from capataz.cli.run import outcome_json, print_outcome

    found = asyncio.run(_play_real(model, base_url, world, store, html, not as_json))
    rows = found.rows
    if as_json:
        print_json({**outcome_json(found.outcome), "rows": _rows_json(rows), "page": str(html)})
    else:
        print_outcome(found.outcome, html.resolve())
        refunds, messages = counted(rows.refunds, "refund"), counted(rows.messages, "message")
        click.echo(f"in the shop: {refunds} ({rows.refunded_cents / 100:.2f}), {messages}")
    return EXITS[found.outcome.name]


async def _play_real(model: str, base_url: str | None, world: World, store: str, html: Path, live: bool) -> RealRun:
    from capataz.cli.run import progress
    from capataz.cli.show import write_page

    with tempfile.TemporaryDirectory(prefix="capataz-demo-") as folder:
        async with App(store) as app:
            watch = progress() if live else None
            found = await play_real(app, Path(folder), model, base_url=base_url, world=world, watch=watch)
            write_page(await app.store.read(found.outcome.run), html)
            return found
