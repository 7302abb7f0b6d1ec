"""`capataz run MODULE:AGENT "task"`: one task, live progress for a person, one JSON value for a program."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import click

from capataz.agent import Agent, Budget
from capataz.app import App
from capataz.cli.exits import EXITS
from capataz.cli.finding import find_agent
from capataz.cli.masking import answers, shower
from capataz.cli.options import as_json, log_json, otel, policy as policy_option, store
from capataz.cli.render import console, print_json, styled
from capataz.cli.telemetry import watched
from capataz.events.facts import JSON, Event
from capataz.lens.trace_json import evidence_json, spend_json
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
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write the run's page to this file.")
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
    worker = _changed(find_agent(agent), model, base_url, ceilings)
    live = not as_json and not quiet and not log_json and sys.stderr.isatty()
    with watched(App(store, policy=policy), otel, log_json) as app:
        given = Given(task, task_type, conversation, tenant, user)
        outcome = asyncio.run(perform(worker, given, app, progress() if live else None, html))
    if as_json:
        print_json(outcome_json(outcome))
    else:
        print_outcome(outcome, html)
    sys.exit(EXITS[outcome.name])


def _changed(agent: Agent, model: str | None, base_url: str | None, ceilings: dict[str, float | None]) -> Agent:
    """The agent with what the command line overrides; what it does not name stays as it is."""
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
        if html is not None:
            from capataz.cli.show import write_page

            write_page(shower().events(await app.store.read(outcome.run)), html)
        return outcome


def progress() -> Callable[[str, Event], None]:
    """Prints each fact as it happens, on stderr, a line each; the runs of sub-agents are set in."""
    from capataz.cli.progress import Progress

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
    err.print(styled(f"{outcome.name.upper()} · {outcome.reason}", tone_of(outcome.name), bold=True), end=" ")
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
