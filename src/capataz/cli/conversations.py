"""`capataz conversations`: the threads people have with agents, and their erasure."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import click

from capataz.cli.finding import open_existing
from capataz.cli.masking import reveal as reveal_option, shower
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import console, print_json, styled
from capataz.events.facts import JSON, Said
from capataz.lens.words import short
from capataz.memory.conversation import Conversations, Thread
from capataz.ports import Store
from capataz.runtime.conversing import conversations_of


@click.group(invoke_without_command=True)
@store_option
@click.option("--limit", "-n", type=click.IntRange(1), default=20, show_default=True, help="How many.")
@json_option
@click.pass_context
def conversations(context: click.Context, store: str | None, limit: int, as_json: bool) -> None:
    """List the conversations in a store, those that changed last first; show one; erase one.

    \b
      capataz conversations
      capataz conversations show ana-7
      capataz conversations erase ana-7 --yes
    """
    if context.invoked_subcommand is None:
        _list(store, limit, as_json)


@conversations.command(name="list")
@store_option
@click.option("--limit", "-n", type=click.IntRange(1), default=20, show_default=True, help="How many.")
@json_option
def list_(store: str | None, limit: int, as_json: bool) -> None:
    """List the conversations in a store, those that changed last first."""
    _list(store, limit, as_json)


@conversations.command()
@click.argument("conversation")
@store_option
@reveal_option
@json_option
def show(conversation: str, store: str | None, reveal: bool, as_json: bool) -> None:
    """Show what was said in CONVERSATION, and the summary the agent has of its older part. Masked without --reveal."""
    thread, said = asyncio.run(_read(store, conversation))
    mask = shower(reveal).text
    if as_json:
        items: list[JSON] = [{"role": item.role, "text": mask(item.text), "run": item.run} for item in said]
        print_json({**thread_json(thread), "summary": mask(thread.summary), "said": items})
        return
    out = console()
    out.print(styled(_line(thread), bold=True))
    if thread.summary:
        out.print(styled(f"summary of the first {thread.summarised}: {mask(thread.summary)}", "quiet"))
    for place, item in enumerate(said):
        tail = " (waits for its run)" if place >= thread.messages else ""
        out.print(styled(f"{item.role}: ", "quiet") + styled(mask(item.text)) + styled(tail, "warn"))


@conversations.command()
@click.argument("conversation")
@store_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def erase(conversation: str, store: str | None, yes: bool, as_json: bool) -> None:
    """Take CONVERSATION out of the store, with its runs and those of their sub-agents. It cannot be undone.

    What was spent stays in the accounts. Copies outside the store (exported spans, logs, backups) are not reached.
    """
    if not yes:
        click.confirm(f"Erase {conversation!r} and its runs for good?", abort=True)
    runs = asyncio.run(_erase(store, conversation))
    if as_json:
        print_json({"conversation": conversation, "runs": runs})
    else:
        click.echo(f"erased, with {runs} {'run' if runs == 1 else 'runs'}")


def thread_json(thread: Thread) -> dict[str, JSON]:
    """A conversation for programs, without what was said."""
    return {
        "conversation": thread.conversation,
        "agent": thread.agent,
        "tenant": thread.tenant,
        "user": thread.user,
        "created_at": thread.created_at,
        "changed_at": thread.changed_at,
        "messages": thread.messages,
        "waiting": thread.waiting,
        "run": thread.run,
        "summarised": thread.summarised,
    }


def _line(thread: Thread) -> str:
    who = " of ".join(name for name in (thread.user, thread.tenant) if name)
    return f"{thread.conversation} · {thread.agent}" + (f" with {who}" if who else "")


def _list(url: str | None, limit: int, as_json: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    found = asyncio.run(_threads(url, limit))
    if as_json:
        print_json([thread_json(thread) for thread in found])
        return
    if not found:
        click.echo("no conversations")
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("conversation", "changed", "agent", "user", "tenant", "messages", "waiting", "at work"):
        table.add_column(name, justify="right" if name in ("messages", "waiting") else "left", no_wrap=True)
    for thread in found:
        table.add_row(
            styled(short(thread.conversation, 40)),
            styled(datetime.fromtimestamp(thread.changed_at, UTC).strftime("%m-%d %H:%M"), "quiet"),
            styled(short(thread.agent, 16)),
            styled(short(thread.user, 24)),
            styled(short(thread.tenant, 16)),
            styled(f"{thread.messages:,}"),
            styled(f"{thread.waiting:,}"),
            styled(thread.run or "", "quiet"),
        )
    console().print(table)


def _kept(store: Store) -> Conversations:
    return conversations_of(store)


async def _threads(url: str | None, limit: int) -> list[Thread]:
    store = open_existing(url)
    try:
        return await _kept(store).threads(limit)
    finally:
        await store.close()


async def _read(url: str | None, conversation: str) -> tuple[Thread, list[Said]]:
    store = open_existing(url)
    try:
        return await _kept(store).thread(conversation)
    finally:
        await store.close()


async def _erase(url: str | None, conversation: str) -> int:
    store = open_existing(url)
    try:
        return await _kept(store).erase(conversation)
    finally:
        await store.close()
