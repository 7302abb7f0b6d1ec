"""`capataz policy`: whether a policy file makes sense, and what it comes down to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click

from capataz.app import read_policy
from capataz.cli.options import as_json as json_option
from capataz.cli.render import console, print_json, styled
from capataz.guards.catalogue import GUARDS
from capataz.lens.words import Tone
from capataz.policy.effective import DEFAULT, NAMES, Given, Line, Source, lines, settings
from capataz.policy.file import parse
from capataz.policy.policy import Policy

FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def policy() -> None:
    """Check a policy file, or show what holds: retries, waits, terminal actions, breakers, guards."""


@policy.command()
@click.argument("file", type=FILE)
@json_option
def check(file: Path, as_json: bool) -> None:
    """Say whether FILE is a policy. What is wrong is named with its place, and the exit status is 2.

    \b
      capataz policy check policy.toml
    """
    read = read_policy(file)
    own = sorted(set(read.modes) - set(GUARDS))
    if as_json:
        print_json({"file": str(file), "digest": read.digest, "own_guards": list(own)})
        return
    click.echo(f"{file}: a policy, digest {read.digest}")
    for name in own:
        click.echo(f"guard {name} is none of the built-in ones: an agent has to bring it")


@policy.command()
@click.argument("file", type=FILE, required=False)
@click.option("--toml", is_flag=True, help="The whole policy as a file, every number written out: to begin one.")
@json_option
def show(file: Path | None, toml: bool, as_json: bool) -> None:
    """Show the policy in FILE as it works out, or the default one: each number, and where it comes from.

    \b
      capataz policy show
      capataz policy show policy.toml
      capataz policy show --toml > policy.toml
    """
    read = Policy() if file is None else read_policy(file)
    if toml:
        click.echo(read.to_toml(), nl=False)
        return
    where = str(file) if file is not None else ""
    given: Given = {} if file is None else parse(file.read_text(encoding="utf-8"), where)
    rows, numbers = list(lines(read, given, where)), settings(read, given, where)
    if as_json:
        print_json(_json(read, rows, numbers))
    else:
        _print(read, rows, numbers)


def _json(read: Policy, rows: list[Line], numbers: dict[str, Source]) -> dict[str, Any]:
    return {
        "digest": read.digest,
        "faults": [
            {
                "for": row.subject,
                "row": row.row,
                **{name: {"value": found.value, "from": found.origin} for name, found in row.values.items()},
            }
            for row in rows
        ],
        "settings": {name: {"value": found.value, "from": found.origin} for name, found in numbers.items()},
    }


def _print(read: Policy, rows: list[Line], numbers: dict[str, Source]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    out = console()
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("for", "row", *NAMES):
        table.add_column(name, justify="right" if name not in ("for", "row", "terminal") else "left")
    table.add_column("from")
    for row in rows:
        origins = dict.fromkeys(found.origin for found in row.values.values() if found.origin != DEFAULT)
        idle = () if row.values["retries"].value else ("first", "factor", "cap", "jitter")
        cells = [
            styled("" if name in idle else _said(row.values[name].value), _tone(row.values[name])) for name in NAMES
        ]
        subject = row.subject or "models"
        table.add_row(styled(subject), styled(row.row), *cells, styled(", ".join(origins) or DEFAULT, "quiet"))
    out.print(table)
    others = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("setting", "value", "from"):
        others.add_column(name)
    for name, found in numbers.items():
        others.add_row(styled(name), styled(_said(found.value), _tone(found)), styled(found.origin, "quiet"))
    out.print(others)
    out.print(styled(f"digest {read.digest}", "quiet"))


def _said(value: Any) -> str:
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        deep = any(isinstance(inner, dict) for inner in table.values())
        return ("; " if deep else ", ").join(f"{name} {_said(inner)}" for name, inner in table.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _tone(found: Source) -> Tone:
    return "plain" if found.origin == DEFAULT else "good"
