"""`capataz resume RUN --agent MODULE:AGENT`: go on with a run that was interrupted, or waits, from its log."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from capataz.agent import Agent
from capataz.app import App
from capataz.cli.finding import find_agent, find_run, open_existing
from capataz.cli.options import OUTPUT, as_json, log_json, otel, policy as policy_option, store
from capataz.cli.progress import Seen
from capataz.cli.run import changed, finish, interruptible, keep_page, progress
from capataz.cli.show import writable
from capataz.cli.streams import aside
from capataz.cli.telemetry import watched
from capataz.events.facts import RunStarted
from capataz.outcome import Outcome


@click.command()
@click.argument("run", default="last")
@click.option("--agent", metavar="MODULE:AGENT", required=True, help="Who goes on: the agent of the run.")
@store
@click.option("--model", help='Another model than the agent\'s own, as "openai:NAME" or "anthropic:NAME".')
@click.option("--base-url", help="Address of a compatible server.")
@policy_option
@click.option("--html", type=OUTPUT, help="Also write the run's page to this file.")
@click.option("--quiet", is_flag=True, help="No live progress.")
@otel
@log_json
@as_json
def resume(
    run: str,
    agent: str,
    store: str | None,
    model: str | None,
    base_url: str | None,
    policy: Path | None,
    html: Path | None,
    quiet: bool,
    otel: bool,
    log_json: bool,
    as_json: bool,
) -> None:
    """Take RUN up from its log and drive it to its end: one whose process was interrupted or died, or that waits.

    RUN is an id or the beginning of one; without it, the newest run. No act that was finished is done again. A run that
    is over is only told again. The exit status says how it ended, as for `capataz run`.

    \b
      capataz resume 01K6Z --agent shop:support
      capataz resume --agent shop:support --json
    """
    if html is not None:
        writable(html)
    worker = changed(find_agent(agent), model, base_url, {})
    whole = asyncio.run(_find(store, run))
    seen = Seen(progress() if not (as_json or quiet or log_json) and sys.stderr.isatty() else None, whole)
    with watched(App(store, policy=policy), otel, log_json) as app, interruptible(seen, agent, store, app), aside():
        app.observers += (seen,)
        outcome = asyncio.run(_resume(worker, whole, app, html))
    finish(outcome, as_json, html, store, app)


async def _find(url: str | None, run: str) -> str:
    """The whole id of the run."""
    kept = open_existing(url)
    try:
        started = (await find_run(kept, run))[0].fact
    finally:
        await kept.close()
    return started.run if isinstance(started, RunStarted) else run


async def _resume(agent: Agent, run: str, app: App, html: Path | None) -> Outcome:
    async with app:
        outcome = await app.aresume(agent, run)
        await keep_page(app, outcome, html)
        return outcome
