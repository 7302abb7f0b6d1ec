"""A child process with all its descendants, as one thing that can be ended.

Four rules, each from a report of a tool that never came back. The end of the child is its exit, not the end of its
output: a background process that inherited the pipe may hold it for hours. What the child leaves behind ends with it.
A limit kills the whole group, with whatever has slipped out of it, so that nothing works on unseen. And none of this
may need us to be alive: a supervisor (`supervisor.py`) stands between us and the child, and does it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
_CLEARED = 2.0
"""Seconds for which the supervisor is waited for once it has the last word."""
_CHUNK = 65536


@dataclass(slots=True)
class Tail:
    """The end of what was read from a pipe, at most so many bytes of it. `lines` is told each whole line instead."""

    most: int = 100_000
    lines: Callable[[bytes], None] | None = None
    data: bytearray = field(default_factory=bytearray)
    lost: int = 0
    open: bool = True

    def read(self, descriptor: int) -> bool:
        """Read what is there; whether there may be more at once."""
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.open = False
            return False
        self.data += chunk
        if self.lines is not None:
            *whole, rest = bytes(self.data).split(b"\n")
            self.data = bytearray(rest)
            for line in whole:
                self.lines(line)
        elif len(self.data) > self.most:
            self.lost += len(self.data) - self.most
            del self.data[: -self.most]
        return True


@dataclass(frozen=True, slots=True)
class Ended:
    """How a group came to its end. `code` is the child's exit status, or minus the signal that killed it."""

    code: int
    timed_out: bool
    held: bool
    """Something the child had started still held its output when it was gone; it was killed."""
    output: bytes
    lost: int
    """Bytes of output before those in `output` that were not kept."""


async def run_group(
    words: Sequence[str],
    seconds: float,
    *,
    environment: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    inherit: Sequence[int] = (),
    report: tuple[int, Callable[[bytes], None]] | None = None,
    most: int = 100_000,
) -> Ended:
    """Run a program in a group of its own and come back when it has exited, or `seconds` after its start.

    When this returns or raises, no process of the group is left, nor any descriptor or thread. `inherit` are
    descriptors the child gets beside its output; `report` is one to read lines from while it runs. Raises `OSError`
    when the program cannot be started.
    """
    reader, writer = os.pipe()
    heard, news = os.pipe()
    alive, lifeline = os.pipe()
    try:
        child = _start((alive, news), inherit, words, writer, environment, folder)
    except BaseException:
        for descriptor in (reader, heard, lifeline):
            os.close(descriptor)
        raise
    finally:
        for descriptor in (writer, news, alive, *inherit):
            os.close(descriptor)
    output, told = Tail(most), Tail()
    pipes = {reader: output, heard: told}
    if report is not None:
        pipes[report[0]] = Tail(lines=report[1])
    ended = held = False
    try:
        ended = await _ended(pipes, heard, seconds)
    finally:
        held = _drained(pipes, heard) and ended
        _leave(child, lifeline, everything=held or not ended)
        os.close(reader)
        os.close(heard)
    what, code = _told(told)
    if what == "failed":
        raise OSError(code, os.strerror(code), words[0])
    return Ended(code, not ended, held, bytes(output.data), output.lost)


def _start(
    ours: tuple[int, int],
    inherit: Sequence[int],
    words: Sequence[str],
    output: int,
    environment: Mapping[str, str] | None,
    folder: str | Path | None,
) -> subprocess.Popen[bytes]:
    """The supervisor, which starts the child."""
    descriptors = (*map(str, ours), ",".join(map(str, inherit)))
    return subprocess.Popen(
        [sys.executable, "-I", "-S", _SUPERVISOR, *descriptors, *words],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment,
        cwd=folder,
        pass_fds=(*ours, *inherit),
        start_new_session=True,
    )


async def _ended(pipes: Mapping[int, Tail], heard: int, seconds: float) -> bool:
    """Read the pipes until there is news of the child's end (or nobody left to tell it); False after `seconds`."""
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()

    def pump(descriptor: int, tail: Tail) -> None:
        if not tail.read(descriptor) and not tail.open:
            loop.remove_reader(descriptor)
        if descriptor == heard:
            gone.set()

    for descriptor, tail in pipes.items():
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, pump, descriptor, tail)
    try:
        async with asyncio.timeout(seconds):
            await gone.wait()
        return True
    except TimeoutError:
        return False
    finally:
        for descriptor in pipes:
            loop.remove_reader(descriptor)


def _drained(pipes: Mapping[int, Tail], heard: int) -> bool:
    """Read what had been written. Whether somebody still holds the output."""
    for descriptor, tail in pipes.items():
        while tail.open and tail.read(descriptor):
            pass
    return any(tail.open for descriptor, tail in pipes.items() if descriptor != heard)


def _leave(child: subprocess.Popen[bytes], lifeline: int, everything: bool) -> None:
    """Give the supervisor its last word, and wait until it has done what it says."""
    if not everything:
        with contextlib.suppress(BrokenPipeError):
            os.write(lifeline, b"g")
    os.close(lifeline)
    with contextlib.suppress(subprocess.TimeoutExpired):  # something hangs inside the kernel: nobody can end that
        child.wait(timeout=_CLEARED)


def _told(news: Tail) -> tuple[str, int]:
    """What became of the child, and its exit status or the system's number of the error."""
    what, _, number = news.data.decode().partition("\n")[0].partition(" ")
    return (what, int(number)) if what else ("ended", -signal.SIGKILL)
