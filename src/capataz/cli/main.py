"""The command `capataz`. Each command is a module of its own and is imported only when it is used.

A developer's mistake is one clear line on stderr and exit status 2, never a traceback.
"""

from __future__ import annotations

import errno
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import cast

import click

from capataz.cli.exits import INTERRUPTED, MISUSE
from capataz.cli.streams import harden, let_go
from capataz.mistakes import Misuse, NotFound, StoreError


@dataclass(frozen=True, slots=True)
class Home:
    """Where a command lives ("module:name"), and the line `--help` shows for it without importing it."""

    place: str
    help: str


COMMANDS: Mapping[str, Home] = {
    "run": Home("capataz.cli.run:run", "Run an agent's task to its end, and say honestly how it ended."),
    "runs": Home("capataz.cli.runs:runs", "List the runs in a store, newest first."),
    "resume": Home("capataz.cli.resume:resume", "Take up a run that was interrupted or waits, from its log."),
    "worker": Home("capataz.cli.worker:worker", "Drive submitted runs until told to stop. For a process manager."),
    "jobs": Home("capataz.cli.jobs:jobs", "List what was submitted and is not over, and who has it."),
    "cancel": Home("capataz.cli.cancel:cancel", "Call a submitted run off."),
    "show": Home("capataz.cli.show:show", "Show a run as a tree: turns, calls, verdicts, spend."),
    "diff": Home("capataz.cli.diff:diff", "Lay two runs side by side; where they part first."),
    "fork": Home("capataz.cli.fork:fork", "Go on from the middle of a run, with something edited."),
    "trace": Home("capataz.cli.trace_value:trace", "Where a value comes from, and what took it over."),
    "diagnose": Home("capataz.cli.diagnose:diagnose", "Find what went wrong in recorded runs of any framework."),
    "tune": Home("capataz.cli.tune:tune", "Choose the limits of the guards from past runs."),
    "inbox": Home("capataz.cli.inbox:inbox", "List what waits for a person, show it, answer it."),
    "metrics": Home("capataz.cli.metrics:metrics", "Show how runs did: by agent, task type, tool, model, version."),
    "alerts": Home("capataz.cli.alerts:alerts", "Hold the runs in a store against rules, and tell who has to be told."),
    "conversations": Home("capataz.cli.conversations:conversations", "The threads people have with agents; erase one."),
    "spend": Home("capataz.cli.spend:spend", "What was spent, by agent, tenant, user, run or source."),
    "accounts": Home("capataz.cli.accounts:accounts", "What tenants, users and agents may spend."),
    "rekey": Home("capataz.cli.rekey:rekey", "Write what a store keeps anew under another key."),
    "erase": Home("capataz.cli.erase:erase", "Take what was said out of runs that are over; digests stay."),
    "policy": Home("capataz.cli.policy:policy", "Check a policy file; show each number and where it comes from."),
    "models": Home("capataz.cli.models:models", "What models have refused, as lines for the capability table."),
    "guards": Home("capataz.cli.guards:guards", "Try the guards on labelled histories."),
    "serve": Home("capataz.cli.serve:serve", "Show runs in the browser; answer the HTTP API; take spans."),
    "demo": Home("capataz.cli.demo:demo", "Watch an unreliable worker and its foreman. No key, no network."),
}


class Mistake(click.ClickException):
    """A mistake of the caller's, as one line."""

    exit_code = MISUSE


class Foreman(click.Group):
    """A group whose commands are loaded when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = COMMANDS.get(cmd_name)
        if home is None:
            return None
        module, _, name = home.place.partition(":")
        return cast(click.Command, getattr(import_module(module), name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, home.help) for name, home in COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        harden()
        with _told():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        with _told():
            return super().invoke(ctx)


_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF))


@contextmanager
def _told() -> Generator[None]:
    """A mistake, an interruption or a stream that takes nothing more: a line at most, and a status."""
    try:
        yield
    except (Misuse, NotFound, StoreError) as error:
        raise Mistake(_masked(str(error))) from None
    except KeyboardInterrupt:
        _say("interrupted")
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        let_go()
        raise click.exceptions.Exit(1) from None
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        let_go()
        _say(f"Error: this could not be written: {error.strerror}")
        raise click.exceptions.Exit(1) from None


def _say(line: str) -> None:
    with suppress(OSError):
        click.echo(line, err=True)


def _masked(words: str) -> str:
    """What went wrong, as it may be shown: an address of a store holds a password."""
    from capataz.cli.masking import shower

    return shower().text(words)


@click.group(cls=Foreman, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("capataz"), prog_name="capataz")
def main() -> None:
    """The foreman of AI agents: it decides when to stop, what is alive, what is done and what an error means.

    Begin with `capataz demo`; it needs no key and no network.
    """
