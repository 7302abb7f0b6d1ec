"""`capataz run MODULE:AGENT "task"`: one task, live progress for a person, one JSON value for a program."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import click

from capataz.agent import Agent, Budget
from capataz.app import App
from capataz.cli.exits import EXITS, INTERRUPTED
from capataz.cli.finding import find_agent
from capataz.cli.masking import answers, shower
from capataz.cli.options import OUTPUT, as_json, log_json, otel, policy as policy_option, store
from capataz.cli.progress import Progress, Seen
from capataz.cli.render import console, print_json, styled
from capataz.cli.show import writable, write_page
from capataz.cli.streams import aside, telling
from capataz.cli.telemetry import watched
from capataz.events.facts import JSON, Event
from capataz.lens.trace.as_json import evidence_json, spend_json
from capataz.mistakes import Misuse
from capataz.outcome import Completed, Outcome


@click.command()
@click.argument("agent", metavar="MODULE:AGENT")
@click.argument("task")
@store
@click.option("--model", help='Another model than the agent\'s own, as "openai:NAME" or "anthropic:NAME".')
@click.option("--base-url", help="Address of a compatible server.")
@click.option("--turns", type=click.IntRange(1), help="Ceiling of turns.")
@click.option("--calls", type=click.IntRange(1), help="Ceiling of tool calls.")
@click.option("--tokens", type=click.IntRange(1), help="Ceiling of tokens.")
@click.option("--money", type=click.FloatRange(0, min_open=True), help="Ceiling of US dollars.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Ceiling of seconds.")
@policy_option
@click.option("--task-type", help="A word to group runs by.")
@click.option("--conversation", help="The conversation the task belongs to: the agent is told what was said before.")
@click.option("--tenant", default="", help="On whose behalf it is run; their accounts pay.")
@click.option("--user", default="", help="The same, for a user (of the tenant).")
@click.option("--html", type=OUTPUT, help="Also write the run's page to this file.")
@click.option("--quiet", is_flag=True, help="No live progress.")
@otel
@log_json
@as_json
def run(
    agent: str,
    task: str,
    store: str | None,
    model: str | None,
    base_url: str | None,
    policy: Path | None,
    task_type: str | None,
    conversation: str | None,
    tenant: str,
    user: str,
    html: Path | None,
    quiet: bool,
    otel: bool,
    log_json: bool,
    as_json: bool,
    **ceilings: float | None,
) -> None:
    """Run TASK with the agent that MODULE holds under the name AGENT, imported from the current folder.

    The answer is shown with the data of the person who asked, without secrets; everything about it is masked.
    The exit status says how it ended: 0 completed or answered, 3 partial, 4 escalated, 5 aborted, 2 misuse.

    \b
      capataz run shop:support "Order 81 arrived broken, refund it"
      capataz run shop:support "..." --model openai:qwen --base-url http://127.0.0.1:8080/v1 --json
    """
    if html is not None:
        writable(html)
    worker = changed(find_agent(agent), model, base_url, ceilings)
    given = Given(task, task_type, conversation, tenant, user)
    seen = Seen(progress() if not (as_json or quiet or log_json) and sys.stderr.isatty() else None)
    with watched(App(store, policy=policy), otel, log_json) as app, interruptible(seen, agent, store, app), aside():
        outcome = asyncio.run(perform(worker, given, app, seen, html))
    finish(outcome, as_json, html, store, app)


@contextmanager
def interruptible(seen: Seen, agent: str, store: str | None, app: App) -> Generator[None]:
    """Ctrl-C is no outcome: the run stays open in its log, and it is said how to go on with it."""
    try:
        yield
    except KeyboardInterrupt:
        with suppress(OSError):
            click.echo(_interrupted(seen.run, agent, store, app), err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _interrupted(run: str, agent: str, store: str | None, app: App) -> str:
    if not run:
        return "interrupted before the run began"
    if app.store_url == "memory:":
        return f"interrupted: run {run} ends here, for its log was only in memory"
    return f"interrupted: run {run} is open. Go on with it: capataz resume {run} --agent {agent}{_kept(store, app)}"


def _kept(store: str | None, app: App) -> str:
    """What has to be added to a command to find the same store."""
    return "" if store is None else f" --store {app.store_url}"


def finish(outcome: Outcome, as_json: bool, html: Path | None, store: str | None, app: App) -> NoReturn:
    """Say how the run ended, and end with its status, also where nobody can be told."""
    with telling(f"capataz show {outcome.run}{_kept(store, app)}"):
        if as_json:
            print_json(outcome_json(outcome))
        else:
            print_outcome(outcome, html if html is not None and html.exists() else None)
    sys.exit(EXITS[outcome.name])


def changed(agent: Agent, model: str | None, base_url: str | None, ceilings: dict[str, float | None]) -> Agent:
    """The agent with what the command line overrides; what it does not name stays as it is."""
    if base_url is not None and model is None and not isinstance(agent.model, str):
        raise Misuse(
            f"--base-url: the model of agent {agent.name!r} is an object ({type(agent.model).__name__}) that has an "
            "address of its own: leave --base-url out, or name a model with --model openai:NAME"
        )
    given = {name: value for name, value in ceilings.items() if value is not None}
    own = agent.budget
    budget = Budget(
        turns=_whole(given.get("turns"), own.turns),
        calls=_whole(given.get("calls"), own.calls),
        tokens=_whole(given.get("tokens"), own.tokens),
        money=given.get("money", own.money),
        seconds=given.get("seconds", own.seconds),
    )
    return replace(agent, model=model or agent.model, base_url=base_url or agent.base_url, budget=budget)


def _whole(given: float | None, own: int | None) -> int | None:
    return own if given is None else int(given)


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says of the task."""

    task: str
    task_type: str | None = None
    conversation: str | None = None
    tenant: str = ""
    user: str = ""


async def perform(
    agent: Agent,
    given: Given,
    app: App,
    watch: Callable[[str, Event], None] | None,
    html: Path | None = None,
) -> Outcome:
    """Run to the end; write the page while the store is still open."""
    async with app:
        outcome = await app.arun(
            agent,
            given.task,
            task_type=given.task_type,
            conversation=given.conversation,
            tenant=given.tenant,
            user=given.user,
            on_event=watch,
        )
        await keep_page(app, outcome, html)
        return outcome


async def keep_page(app: App, outcome: Outcome, html: Path | None) -> None:
    """Write the page, where one was asked for. One that cannot be written takes nothing from the outcome."""
    if html is None:
        return
    try:
        write_page(shower().events(await app.store.read(outcome.run)), html)
    except OSError as error:
        with suppress(OSError):
            click.echo(f"the page {html} could not be written: {error.strerror}", err=True)


def progress() -> Callable[[str, Event], None]:
    """Prints each fact as it happens, on stderr, a line each; the runs of sub-agents are set in."""
    return Progress(console(stderr=True)).watch


def outcome_json(outcome: Outcome) -> dict[str, JSON]:
    """What a program needs to know of an outcome."""
    spend = spend_json(outcome.spend)
    return {
        "outcome": outcome.name,
        "reason": outcome.reason,
        "detail": shower().text(outcome.detail),
        "run_id": outcome.run,
        "answer": answers().text(outcome.answer),
        "evidence": shower().value(evidence_json(outcome.evidence)),
        "missing": [shower().text(item) for item in getattr(outcome, "missing", ())],
        "turns": spend["turns"],
        "calls": spend["calls"],
        "usage": {name: spend[name] for name in ("tokens", "input_tokens", "output_tokens", "money", "seconds")},
        "warnings": list(outcome.warnings),
    }


def print_outcome(outcome: Outcome, html: Path | None = None) -> None:
    """The answer on stdout, everything about it on stderr: so that an answer can be piped on."""
    from capataz.lens.words import spent, tone_of

    err = console(stderr=True)
    head = f"{outcome.name.upper()} · {outcome.reason}"
    err.print(styled(head, tone_of(outcome.name, outcome.reason), bold=True), end=" ")
    err.print(styled(shower().text(outcome.detail)))
    for proof in outcome.evidence:
        err.print(styled("  ✓ ", "good") + styled(shower().text(f"{proof.name}: {proof.detail}")))
    if not isinstance(outcome, Completed):
        for item in getattr(outcome, "missing", ()):
            err.print(styled("  ✗ ", "bad") + styled(shower().text(str(item))))
    err.print(styled(f"  {spent(outcome.spend)}", "quiet"))
    err.print(styled(f"  capataz show {outcome.run}", "quiet"))
    if outcome.name == "escalated":
        err.print(styled(f"  capataz inbox show {outcome.run}", "quiet"))
    if html is not None:
        err.print(styled(f"  page: {html}", "quiet"))
    if outcome.answer:
        click.echo(styled(answers().text(outcome.answer)).plain)
