"""`capataz inbox`: what waits for a person, and the answer that lets it go on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import click
import orjson
from rich.text import Text

from capataz.app import App
from capataz.cli.exits import EXITS
from capataz.cli.finding import find_agent, find_run, open_existing
from capataz.cli.masking import reveal as reveal_option, shower
from capataz.cli.options import as_json as json_option, policy as policy_option, store as store_option
from capataz.cli.render import console, print_json, styled
from capataz.cli.table import print_table
from capataz.events.facts import JSON
from capataz.lens.words import short
from capataz.mistakes import Misuse
from capataz.outcome import Outcome
from capataz.runtime.inbox import Waiting, answer as write_answer, as_json as waiting_json, read_waiting, waiting
from capataz.runtime.supervise import Decision
from capataz.runtime.world import RealClock


@click.group(invoke_without_command=True)
@store_option
@reveal_option
@json_option
@click.pass_context
def inbox(context: click.Context, store: str | None, reveal: bool, as_json: bool) -> None:
    """List the runs that wait for a person, newest first; show one; answer it.

    \b
      capataz inbox
      capataz inbox show 01K6Z
      capataz inbox answer 01K6Z --approve --agent shop:support
    """
    if context.invoked_subcommand is None:
        _list(store, as_json, reveal)


@inbox.command(name="list")
@store_option
@reveal_option
@json_option
def list_(store: str | None, reveal: bool, as_json: bool) -> None:
    """List the runs that wait for a person, newest first."""
    _list(store, as_json, reveal)


@inbox.command()
@click.argument("run")
@store_option
@reveal_option
@json_option
def show(run: str, store: str | None, reveal: bool, as_json: bool) -> None:
    """Show what RUN waits for, all of it, and how to answer. RUN is an id or the beginning of one.

    Personal data and secrets are masked; --reveal shows them. What is approved is always the exact call.
    """
    item = asyncio.run(_find(store, run, reveal))
    if as_json:
        print_json(waiting_json(item))
    else:
        _show(item)


@inbox.command(name="answer")
@click.argument("run")
@store_option
@click.option("--retry", is_flag=True, help="Try again what failed.")
@click.option("--approve", is_flag=True, help="Run the call that was asked about, exactly as it is shown.")
@click.option("--reject", metavar="TEXT", help="Do not run it, and do not ask again; the model reads why.")
@click.option("--correct", metavar="JSON", help="Run it with these arguments instead: all of them, as a JSON object.")
@click.option("--say", metavar="TEXT", help="Tell the model something and let it go on.")
@click.option("--happened", is_flag=True, help="The act in doubt has taken effect.")
@click.option("--not-happened", is_flag=True, help="The act in doubt has not taken effect.")
@click.option("--abort", metavar="[TEXT]", is_flag=False, flag_value="", help="End the run here.")
@click.option("--digest", default="", help="Only if this is still the approval that is waited for (see `show`).")
@click.option("--by", metavar="NAME", help="Who decides; without it, the user of this machine.")
@click.option("--agent", metavar="MODULE:AGENT", help="Go on with the run at once, with this agent.")
@policy_option
@json_option
def answer(
    run: str,
    store: str | None,
    digest: str,
    by: str | None,
    agent: str | None,
    policy: Path | None,
    as_json: bool,
    **given: object,
) -> None:
    """Answer RUN. Exactly one decision; it is a fact in the run's log, and the run goes on when it is next driven.

    \b
      capataz inbox answer 01K6Z --retry
      capataz inbox answer 01K6Z --correct '{"order_id": "81", "cents": 1250}' --by ana
      capataz inbox answer 01K6Z --approve --agent shop:support

    An approval counts under the policy it was asked under: give --agent the --policy that the run was driven with.
    With --agent the exit status says how the run ended, as for `capataz run`.
    """
    decision = decided(given)
    who = by or os.environ.get("USER") or os.environ.get("USERNAME") or "someone"
    worker = find_agent(agent) if agent is not None else None
    item = asyncio.run(_answer(store, run, decision, who, digest))
    if worker is None:
        if as_json:
            print_json({"run": item.run, "decision": decision.action, "by": who})
        else:
            click.echo(f"{item.run}: {decision.action}, by {who}; it goes on when it is resumed (--agent does it now)")
        return
    from capataz.cli.run import outcome_json, print_outcome

    outcome = asyncio.run(_resume(App(store, policy=policy), worker, item.run))
    if as_json:
        print_json(outcome_json(outcome))
    else:
        print_outcome(outcome)
    sys.exit(EXITS[outcome.name])


def decided(given: Mapping[str, object]) -> Decision:
    """The one decision of the options; `Misuse` when there is none or more than one."""
    chosen = [name for name, value in given.items() if value is not None and value is not False]
    if len(chosen) != 1:
        said = " and ".join(f"--{name.replace('_', '-')}" for name in chosen) or "none"
        raise Misuse(f"give exactly one decision (--retry, --approve, --reject, --correct, --say, ...), not {said}")
    name, value = chosen[0], given[chosen[0]]
    match name:
        case "correct":
            return Decision("correct", arguments=_arguments(str(value)))
        case "say":
            return Decision("answer", str(value))
        case "not_happened":
            return Decision("not-happened")
        case _:
            return Decision(cast("Any", name), value if isinstance(value, str) else "")


def _arguments(text: str) -> Mapping[str, JSON]:
    try:
        found: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Misuse(f"--correct takes a JSON object with all arguments of the call: {error}") from error
    if not isinstance(found, dict):
        raise Misuse("--correct takes a JSON object with all arguments of the call")
    return cast("Mapping[str, JSON]", found)


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────


def _list(url: str | None, as_json: bool, reveal: bool) -> None:
    items = asyncio.run(_waiting(url, reveal))
    if as_json:
        print_json([waiting_json(item) for item in items])
        return
    if not items:
        click.echo("nothing waits for a person")
        return
    print_table([_cells(item) for item in items], elastic=("waits for", "task"), dispensable=("task", "since", "agent"))


async def _waiting(url: str | None, reveal: bool) -> list[Waiting]:
    store = open_existing(url)
    try:
        return await waiting(store, shown=shower(reveal).events)
    finally:
        await store.close()


async def _find(url: str | None, run: str, reveal: bool = False) -> Waiting:
    store = open_existing(url)
    try:
        events = await find_run(store, run)
    finally:
        await store.close()
    item = read_waiting(shower(reveal).events(events))
    if item is None:
        raise Misuse(f"run {run} does not wait for anyone: `capataz inbox` lists those that do")
    return item


async def _answer(url: str | None, run: str, decision: Decision, by: str, digest: str) -> Waiting:
    item = await _find(url, run)
    store = open_existing(url)
    try:
        await write_answer(store, RealClock(), item.run, decision, by, digest)
    finally:
        await store.close()
    return item


async def _resume(app: App, agent: Any, run: str) -> Outcome:
    async with app:
        return await app.aresume(agent, run)


# ── what a person reads ──────────────────────────────────────────────────────────────────────────────────


def _cells(item: Waiting) -> dict[str, Text]:
    what = item.approval.shown if item.approval is not None else item.escalation.detail or item.escalation.reason
    return {
        "run": styled(item.run, "quiet"),
        "since": styled(_moment(item.since), "quiet"),
        "agent": styled(short(item.agent, 20)),
        "waits for": styled(f"{item.escalation.reason}: {short(what, 80)}", "warn"),
        "task": styled(short(item.task, 60)),
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%m-%d %H:%M")


def _show(item: Waiting) -> None:
    out, escalation = console(), item.escalation
    out.print(styled(f"{item.agent}: {item.task}", bold=True))
    out.print(styled(f"{item.run} · waits since {_moment(item.since)} UTC", "quiet"))
    out.print(styled(f"{escalation.reason}: {escalation.detail}", "warn"))
    if item.approval is not None:
        out.print(styled(f"asks to run: {item.approval.shown}", bold=True))
        out.print(styled(f"because {item.approval.reason}; digest {item.approval.digest}", "quiet"))
    for lacking in escalation.missing:
        out.print(styled(f"✗ {lacking}", "bad"))
    for proof in escalation.evidence:
        out.print(styled(f"✓ {proof.name}: {proof.detail}", "good"))
    if escalation.answer:
        out.print(styled(f"“{escalation.answer}”"))
    for learned in item.learned:
        out.print(styled(f"{learned.model} refused {learned.parameter}; for the capability table:", "quiet"))
        out.print(styled(learned.advice))
    for word in item.answers:
        out.print(styled(f"  capataz inbox answer {item.run} {_OPTIONS[word]}", "quiet"))


_OPTIONS: Mapping[str, str] = {
    "retry": "--retry",
    "approve": "--approve",
    "reject": "--reject TEXT",
    "correct": "--correct JSON",
    "answer": "--say TEXT",
    "happened": "--happened",
    "not-happened": "--not-happened",
    "abort": "--abort",
}
