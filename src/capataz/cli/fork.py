"""`capataz fork RUN --at STEP`: go on from the middle of a run, with something edited."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
import orjson

from capataz.agent import Agent
from capataz.app import App, read_policy
from capataz.cli.exits import EXITS
from capataz.cli.finding import find_agent, find_run, open_existing
from capataz.cli.masking import shower as shown
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import console, print_json, styled
from capataz.cli.run import outcome_json, print_outcome
from capataz.events.facts import JSON, Event, RunStarted
from capataz.lens.fork import Edit, steps_to_fork
from capataz.mistakes import Misuse
from capataz.outcome import Outcome
from capataz.runtime.fork import fork as go_on

_file = click.Path(dir_okay=False, exists=True, path_type=Path)


@click.command()
@click.argument("run")
@store_option
@click.option("--at", "step", type=click.IntRange(0), help="The last event that is taken over; without it, a list.")
@click.option("--agent", metavar="MODULE:AGENT", help="Who goes on: the agent of the run.")
@click.option("--result", metavar="JSON", help="Another result for the tool call that ended at this step.")
@click.option("--instructions", type=_file, help="Other instructions, from a file.")
@click.option("--policy", type=_file, help="Another policy file.")
@click.option("--allow-acts", is_flag=True, help="Let acting tools run. Without it they are only described.")
@json_option
def fork(
    run: str,
    store: str | None,
    step: int | None,
    agent: str | None,
    result: str | None,
    instructions: Path | None,
    policy: Path | None,
    allow_acts: bool,
    as_json: bool,
) -> None:
    """Fork RUN after a step: a new run whose beginning is the record (it costs nothing), with one edit, driven on.

    Acting tools are only described from then on, unless --allow-acts is given, so such a fork can never end
    `completed` by them. The exit status says how it ended, as for `capataz run`.

    \b
      capataz fork 01K6Z
      capataz fork 01K6Z --at 12 --agent shop:support --result '{"state": "unpaid"}'
      capataz fork 01K6Z --at 12 --agent shop:support --instructions stricter.md
    """
    if step is None:
        _offer(asyncio.run(_read(store, run)), as_json)
        return
    if agent is None:
        raise Misuse("say who goes on, with --agent MODULE:AGENT: the agent that the run was of")
    edit = Edit(
        None if result is None else (_result(result),),
        None if instructions is None else instructions.read_text(encoding="utf-8"),
        None if policy is None else policy.name,
        "" if policy is None else read_policy(policy).to_toml(),
    )
    outcome = asyncio.run(_fork(App(store), find_agent(agent), run, step, edit, allow_acts))
    if as_json:
        print_json(outcome_json(outcome))
    else:
        print_outcome(outcome)
    sys.exit(EXITS[outcome.name])


def _result(text: str) -> JSON:
    try:
        found: JSON = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Misuse(f"--result is not JSON ({error}); a plain text is written in quotes: '\"text\"'") from error
    return found


async def _read(url: str | None, run: str) -> list[Event]:
    store = open_existing(url)
    try:
        return await find_run(store, run)
    finally:
        await store.close()


async def _fork(app: App, agent: Agent, run: str, step: int, edit: Edit, allow_acts: bool) -> Outcome:
    async with app:
        events = await find_run(app.store, run)
        started = events[0].fact
        if isinstance(started, RunStarted) and started.agent != agent.name:
            raise Misuse(f"run {started.run} belongs to agent {started.agent!r}, not to {agent.name!r}")
        whole = started.run if isinstance(started, RunStarted) else run
        return await go_on(agent.prepare(app), app.yard(), whole, step, edit, allow_acts=allow_acts)


def _offer(events: list[Event], as_json: bool) -> None:
    """The steps a run can be forked at."""
    shower = shown()
    steps = [(seq, shower.text(words)) for seq, words in steps_to_fork(events)]
    if as_json:
        print_json([{"step": seq, "what": words} for seq, words in steps])
        return
    out = console()
    for seq, words in steps:
        out.print(styled(f"{seq:>6}  {words}"), soft_wrap=True)
    out.print(styled("fork after one of these with --at STEP --agent MODULE:AGENT", "quiet"))
