"""`capataz worker MODULE:APP`: a process that drives submitted runs until it is told to stop.

It is made for a process manager: SIGTERM drains it, it ends with 0 then, and with a status of its own when it has to
be replaced because something in it will never come back.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Collection

import click
import orjson

from capataz.agent import Agent
from capataz.app import App
from capataz.cli.exits import UNFIT
from capataz.cli.finding import find_app
from capataz.cli.masking import shower
from capataz.cli.options import as_json, log_json as log_json_option, otel as otel_option, store as store_option
from capataz.cli.telemetry import watched
from capataz.runtime.blocking import run_loop
from capataz.runtime.shift import Shift, Terms
from capataz.runtime.watchdog import Pace, Unfit

_log = logging.getLogger("capataz.worker")
_CLEARED = 2.0
"""Seconds in which threads that tools have started may end by themselves."""


@click.command()
@click.argument("target", metavar="MODULE:APP")
@store_option
@click.option("--slots", type=click.IntRange(1), default=10, show_default=True, help="Runs at once.")
@click.option("--per-tenant", type=click.IntRange(1), help="Runs of one tenant at once, in all workers together.")
@click.option("--crashes", type=click.IntRange(1), default=3, show_default=True, help="At one step, before a run ends.")
@click.option("--beat", type=click.FloatRange(0.05), default=2.0, show_default=True, help="Seconds between beats.")
@click.option("--stall", type=click.FloatRange(0.1), default=30.0, show_default=True, help="Seconds a loop may block.")
@click.option("--drain", type=click.FloatRange(0), default=30.0, show_default=True, help="Seconds to stop in.")
@click.option("--until-idle", is_flag=True, help="End when nothing is due and no run is held.")
@otel_option
@log_json_option
@as_json
def worker(
    target: str,
    store: str | None,
    slots: int,
    per_tenant: int | None,
    crashes: int,
    beat: float,
    stall: float,
    drain: float,
    until_idle: bool,
    otel: bool,
    log_json: bool,
    as_json: bool,
) -> None:
    """Drive the submitted runs of the App (or of the one agent) that MODULE holds under this name.

    Several workers may share a store. A worker that dies is noticed after three beats, and the others go on with its
    runs from their logs. SIGTERM lets every run reach its next step, gives it back and ends with status 0; status 70
    says that the worker has to be replaced: its loop is blocked, or too many of its tools do not come back.

    \b
      capataz worker shop:app --slots 50
      capataz worker shop:support --store sqlite:////var/lib/capataz.db
    """
    _log_to_stderr(as_json)
    app, agents = find_app(target, store)
    pace = Pace(beat=beat, stall=stall, drain=drain, poll=min(0.5, beat))
    terms = Terms(slots, per_tenant, crashes, pace)
    before = threading.enumerate()
    with watched(app, otel, log_json):
        run_loop(_work(app, agents, terms, until_idle))
    _leave_behind(before)


def _log_to_stderr(as_json: bool) -> None:
    """A line for each thing worth knowing; with `as_json` each is an object, for whoever collects them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if as_json else _Masked("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _Masked(logging.Formatter):
    """Masked at the very end: whatever is logged, by whoever, with its traces."""

    def format(self, record: logging.LogRecord) -> str:
        return shower().text(super().format(record))


class _Json(_Masked):
    def format(self, record: logging.LogRecord) -> str:
        said = {"at": record.created, "level": record.levelname.lower(), "message": super().format(record)}
        return orjson.dumps(said).decode()


async def _work(app: App, agents: tuple[Agent, ...], terms: Terms, until_idle: bool) -> None:
    shift = app.worker(*agents, terms=terms, on_unfit=_replace)
    _listen(shift)
    names = ", ".join(agent.name for agent in agents)
    _log.info("worker %s: %d slots for %s, from %s", shift.name, terms.slots, names, app.store_url)
    unfit = await shift.work(until_idle)
    if unfit is not None:
        _end(unfit)
    await app.close()


def _leave_behind(before: Collection[threading.Thread]) -> None:
    """All is given back by now: a thread that a tool has started and that does not end must not hold the process up."""
    deadline = time.monotonic() + _CLEARED
    started = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    for thread in started:
        thread.join(max(0.0, deadline - time.monotonic()))
    if left := [thread.name for thread in started if thread.is_alive()]:
        _log.warning("threads that tools have started do not end, and are left behind: %s", ", ".join(left))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _listen(shift: Shift) -> None:
    """The first signal drains, the second ends at once: what was under way is then in doubt, and counted as a crash."""
    loop = asyncio.get_running_loop()
    told: list[int] = []

    def stop(number: int) -> None:
        if told:
            os._exit(128 + number)
        told.append(number)
        _log.info("draining; a second signal ends it at once")
        shift.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)


def _replace(unfit: Unfit) -> None:
    """In the heart's thread. A loop that is blocked cannot end the process by itself."""
    if unfit.at_once:
        _end(unfit)


def _end(unfit: Unfit) -> None:
    # Threads and tasks that do not come back would hold up any other way out.
    _log.error("this worker has to be replaced: %s", unfit.reason)
    sys.stderr.flush()
    os._exit(UNFIT)
