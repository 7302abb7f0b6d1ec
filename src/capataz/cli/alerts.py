"""`capataz alerts`: hold the runs of a store against rules, tell who has to be told, and try the way there."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
import orjson

from capataz.cli.finding import open_existing
from capataz.cli.options import OUTPUT, as_json as json_option, store as store_option
from capataz.cli.render import console, print_json, styled
from capataz.events.facts import JSON
from capataz.lens.alerts.evaluate import Reading
from capataz.lens.alerts.points import METRICS, Metric
from capataz.lens.alerts.rules import Rule, default_rules, read
from capataz.lens.alerts.state import AlertState, Notice, advance, states_from, states_json
from capataz.lens.words import Tone
from capataz.mistakes import Misuse
from capataz.runtime.webhook import Webhook
from capataz.runtime.world import RealClock
from capataz.telemetry.watching import deliver, points_for, read_all, try_all

FIRING = 1
"""Exit status of a check that found a rule firing."""
DEFAULT_RULES = Path("capataz-alerts.toml")

rules_option = click.option(
    "--rules",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Rules in TOML. Without it capataz-alerts.toml in this folder, else the built-in ones.",
)
webhook_option = click.option(
    "--webhook", metavar="URL", help="Also POST each notice here, signed with the secret in CAPATAZ_WEBHOOK_SECRET."
)
mail_option = click.option("--mail", type=OUTPUT, help="Also add each notice, ready to mail, to this file.")
link_option = click.option("--link", metavar="URL", default="", help="What the id of a run is added to, to look at it.")


@click.group(invoke_without_command=True)
@store_option
@rules_option
@json_option
@click.pass_context
def alerts(context: click.Context, store: str | None, rules: Path | None, as_json: bool) -> None:
    """Hold the runs in a store against rules: loops, errors, cost, time, silence. Says how sure it is.

    \b
      capataz alerts check --rules alerts.toml --webhook https://ops.example.com/hook
      capataz alerts list
      capataz alerts test

    Without a command it lists what each rule reads now, and tells nobody.
    """
    if context.invoked_subcommand is None:
        _list(store, rules, as_json)


@alerts.command(name="list")
@store_option
@rules_option
@json_option
def list_(store: str | None, rules: Path | None, as_json: bool) -> None:
    """What each rule reads now. Tells nobody and changes nothing."""
    _list(store, rules, as_json)


@alerts.command()
@store_option
@rules_option
@webhook_option
@mail_option
@link_option
@click.option("--state", type=OUTPUT, help="Where it is kept who was told; else beside RULES.")
@json_option
def check(
    store: str | None,
    rules: Path | None,
    webhook: str | None,
    mail: Path | None,
    link: str,
    state: Path | None,
    as_json: bool,
) -> None:
    """Evaluate every rule and tell of those that begin to fire, go on firing, or are over. For cron.

    Status 1 says that something fires. What was told is kept in a file, so that nobody is told twice.
    """
    watched, kept = rules_of(rules), state or (rules or DEFAULT_RULES).with_suffix(".state.json")
    readings = asyncio.run(_readings(store, watched))
    states, notices = advance(_load(kept), readings, RealClock().now())
    _tell(notices, webhook, mail, link)
    # Only now: who was not told because this process died is told by the next.
    _save(kept, states)
    _report(readings, as_json, notices)
    sys.exit(FIRING if any(each.firing for each in states.values()) else 0)


@alerts.command()
@rules_option
@webhook_option
@mail_option
@link_option
@json_option
def test(rules: Path | None, webhook: str | None, mail: Path | None, link: str, as_json: bool) -> None:
    """Fire every rule once with made-up data, through the real way out, marked as a test."""
    notices = try_all(rules_of(rules), RealClock().now())
    _tell(notices, webhook, mail, link)
    _report([notice.reading for notice in notices], as_json, notices)
    silent = [notice.reading.rule.name for notice in notices if notice.reading.standing != "firing"]
    if silent:
        raise Misuse(f"no made-up run could set these rules off, so no real one can: {', '.join(silent)}")


@alerts.command()
@json_option
def metrics(as_json: bool) -> None:
    """The metrics that a rule may name."""
    if as_json:
        print_json({name: {"judged": found.judged, "unit": found.unit, "help": found.help} for name, found in _known()})
        return
    for name, found in _known():
        click.echo(f"{name:22} {found.help} ({found.judged})")


def _known() -> Sequence[tuple[str, Metric]]:
    return sorted(METRICS.items())


def rules_of(path: Path | None) -> tuple[Rule, ...]:
    """The rules of this file; without one those in `capataz-alerts.toml` of this folder, else the built-in ones."""
    if path is None and not DEFAULT_RULES.exists():
        return default_rules()
    found = path or DEFAULT_RULES
    try:
        return read(found.read_text(encoding="utf-8"), str(found))
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"the rules in {found} cannot be read: {error}") from error


async def _readings(url: str | None, rules: Sequence[Rule]) -> list[Reading]:
    store, now = open_existing(url), RealClock().now()
    try:
        return read_all(rules, await points_for(store, rules, now), now)
    finally:
        await store.close()


def _list(store: str | None, rules: Path | None, as_json: bool) -> None:
    _report(asyncio.run(_readings(store, rules_of(rules))), as_json)


# ── the way out ──────────────────────────────────────────────────────────────────────────────────────────


def _tell(notices: Sequence[Notice], webhook: str | None, mail: Path | None, link: str) -> None:
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    if mail is not None and notices:
        with mail.open("a", encoding="utf-8") as box:
            box.writelines(f"Subject: {notice.text(link)}\n" for notice in notices)
    failed = asyncio.run(_deliver(notices, webhook, link))
    if failed:
        raise Misuse(f"the webhook did not take {failed} of {len(notices)} notices: nobody there was told")


async def _deliver(notices: Sequence[Notice], webhook: str | None, link: str) -> int:
    """Tell everyone; how many messages the webhook did not take."""
    hook = Webhook(webhook, os.environ.get("CAPATAZ_WEBHOOK_SECRET", ""), RealClock()) if webhook else None
    ways: list[Callable[[Mapping[str, JSON]], None]] = [hook.tell] if hook is not None else []
    deliver(notices, ways, link)
    if hook is None:
        return 0
    await hook.drain()
    return hook.failed


def _load(path: Path) -> dict[str, AlertState]:
    try:
        return states_from(orjson.loads(path.read_bytes()))
    except FileNotFoundError:
        return {}
    except (OSError, orjson.JSONDecodeError) as error:
        raise Misuse(
            f"{path} is not a state of alerts ({error}): move it away, and all that fires is told anew"
        ) from error


def _save(path: Path, states: Mapping[str, AlertState]) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(orjson.dumps(states_json(states), option=orjson.OPT_INDENT_2))
    fresh.replace(path)


# ── what a person reads ──────────────────────────────────────────────────────────────────────────────────

_TONES: Mapping[str, Tone] = {"ok": "good", "firing": "bad", "not enough data": "warn", "no data": "warn"}


def _report(readings: Sequence[Reading], as_json: bool, notices: Sequence[Notice] = ()) -> None:
    told = {notice.reading.rule.name: notice.kind for notice in notices}
    if as_json:
        print_json([{**reading.json(), "told": told.get(reading.rule.name)} for reading in readings])
        return
    out = console()
    for reading in readings:
        mark = " [test]" if told.get(reading.rule.name) == "test" else ""
        head = styled(f"{reading.standing:16}", _TONES[reading.standing], bold=True)
        out.print(head + styled(f"{reading.rule.name}{mark}: ", bold=True) + styled(reading.words))
        for run in reading.runs:
            out.print(styled(f"{'':16}capataz show {run}", "quiet"))
