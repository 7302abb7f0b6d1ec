"""The streams of a command. Its stdout holds its own value and nothing else, and no stream can change how a run ended.

What a tool or the user's module prints goes to stderr. A character the terminal cannot show is written as an escape. A
reader that went away and a full disk are said in one line at most.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress

import click


def harden() -> None:
    """Never fail for want of a character: what an encoding cannot say is written as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def aside() -> Generator[None]:
    """While it lasts, whatever is printed goes to stderr, also what other programs print that are started meanwhile."""
    with redirect_stdout(sys.stderr), _descriptor_aside():
        yield


@contextmanager
def telling(instead: str) -> Generator[None]:
    """What is printed here may get lost without harm. `instead` says, where it did, how to see it again."""
    try:
        yield
    except BrokenPipeError:
        let_go()
    except OSError as error:
        let_go()
        with suppress(OSError):
            click.echo(f"this could not be written ({error.strerror}): {instead}", err=True)


def let_go() -> None:
    """Give up streams that take nothing more, so that what they still hold does not fail once more at the exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


@contextmanager
def _descriptor_aside() -> Generator[None]:
    try:
        real = sys.__stdout__ is not None and sys.__stdout__.fileno() == 1
        kept = os.dup(1) if real else None
        if kept is not None:
            os.dup2(2, 1)
    except (OSError, ValueError):  # closed, or not a file at all: there is nothing to keep apart
        kept = None
    try:
        yield
    finally:
        if kept is not None:
            if sys.__stdout__ is not None:
                with suppress(OSError):
                    sys.__stdout__.flush()
            os.dup2(kept, 1)
            os.close(kept)
