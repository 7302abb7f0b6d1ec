"""`capataz accounts`: what tenants, users and agents may spend."""

from __future__ import annotations

import asyncio
from typing import get_args

import click

from capataz.cli.finding import open_existing
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import console, print_json, styled
from capataz.cli.spend import kept_accounts
from capataz.events.facts import JSON
from capataz.lens.words import money
from capataz.money.accounts import EVERYONE, Limit, Period, Whose

_WHOSE = click.Choice(get_args(Whose))
_PERIOD = click.Choice(get_args(Period))


@click.group(invoke_without_command=True)
@store_option
@json_option
@click.pass_context
def accounts(context: click.Context, store: str | None, as_json: bool) -> None:
    """List the limits set in a store; set one; take one away. Runs that are under way see it within seconds.

    \b
      capataz accounts set tenant acme --period month --money 200
      capataz accounts set user "*" --period day --tokens 100000
      capataz accounts list
    """
    if context.invoked_subcommand is None:
        _list(store, as_json)


@accounts.command(name="list")
@store_option
@json_option
def list_(store: str | None, as_json: bool) -> None:
    """List the limits set in a store. Those an App has in its code are not among them."""
    _list(store, as_json)


@accounts.command(name="set")
@click.argument("whose", type=_WHOSE)
@click.argument("name")
@store_option
@click.option("--period", type=_PERIOD, default="total", show_default=True, help="Days and months are those of UTC.")
@click.option("--tokens", type=click.IntRange(0), help="Tokens in the period.")
@click.option("--money", type=click.FloatRange(0), help="US dollars in the period.")
@json_option
def set_(
    whose: Whose, name: str, store: str | None, period: Period, tokens: int | None, money: float | None, as_json: bool
) -> None:
    """Set what the account of WHOSE called NAME may spend; "*" is each one that has no limit of its own.

    A user of a tenant is called TENANT/USER. The period "run" limits each run.
    """
    limit = Limit(whose, name, period, tokens, money)
    asyncio.run(_set(store, limit))
    print_json(limit_json(limit)) if as_json else click.echo(f"{whose} {name}, {period}: {_amounts(limit)}")


@accounts.command()
@click.argument("whose", type=_WHOSE)
@click.argument("name")
@store_option
@click.option("--period", type=_PERIOD, default="total", show_default=True, help="The period of the limit.")
@json_option
@click.pass_context
def unset(context: click.Context, whose: str, name: str, store: str | None, period: str, as_json: bool) -> None:
    """Take a limit away. Exit status 1 where there was none."""
    done = asyncio.run(_unset(store, whose, name, period))
    print_json({"taken_away": done}) if as_json else click.echo("taken away" if done else "there was no such limit")
    context.exit(0 if done else 1)


def _list(url: str | None, as_json: bool) -> None:
    found = asyncio.run(_read(url))
    if as_json:
        print_json([limit_json(limit) for limit in found])
        return
    if not found:
        click.echo("no limits are set in this store")
        return
    for limit in found:
        name = "each one" if limit.name == EVERYONE else limit.name
        console().print(styled(f"{limit.whose} {name}, {limit.period}: {_amounts(limit)}"))


def limit_json(limit: Limit) -> dict[str, JSON]:
    """A limit for programs."""
    return {
        "whose": limit.whose,
        "name": limit.name,
        "period": limit.period,
        "tokens": limit.tokens,
        "money": None if limit.money is None else str(limit.money),
    }


def _amounts(limit: Limit) -> str:
    from decimal import Decimal

    said = [] if limit.tokens is None else [f"{limit.tokens:,} tokens"]
    return " and ".join(said + ([] if limit.money is None else [money(Decimal(limit.money))]))


async def _read(url: str | None) -> list[Limit]:
    store = open_existing(url)
    try:
        return await kept_accounts(store).limits()
    finally:
        await store.close()


async def _set(url: str | None, limit: Limit) -> None:
    from capataz.app import App

    async with App(url) as app:  # a limit may be set before the first run
        await app.accounts.allow(limit)


async def _unset(url: str | None, whose: str, name: str, period: str) -> bool:
    store = open_existing(url)
    try:
        return await kept_accounts(store).disallow(whose, name, period)
    finally:
        await store.close()
