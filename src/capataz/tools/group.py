"""A child process with all its descendants, as one thing that can be ended.

Three rules, each from a report of a tool that never came back. The end of the child is its exit, not the end of its
output: a background process that inherited the pipe may hold it for hours. What the child leaves behind ends with it.
And a limit kills the whole group, with whatever has slipped out of it, so that nothing works on unseen.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MARK = "CAPATAZ_GROUP"
"""In the environment of the child and of all that comes from it, whatever session it is in."""
_LOOK = 0.02
"""Seconds between two looks where the system cannot tell of an exit by itself."""
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
    mark = secrets.token_hex(8)
    try:
        child = _start(
            words, writer, {**(os.environ if environment is None else environment), MARK: mark}, folder, inherit
        )
    except BaseException:
        os.close(reader)
        raise
    finally:
        for descriptor in (writer, *inherit):
            os.close(descriptor)
    pipes = {reader: Tail(most)}
    if report is not None:
        pipes[report[0]] = Tail(lines=report[1])
    timed_out = False
    try:
        timed_out = not await _exited(child.pid, pipes, seconds)
    finally:
        held = _end(child, pipes, mark, sweep=timed_out)
        os.close(reader)
    tail = pipes[reader]
    code = -signal.SIGKILL if child.returncode is None else child.returncode
    return Ended(code, timed_out, held, bytes(tail.data), tail.lost)


def _start(
    words: Sequence[str],
    output: int,
    environment: Mapping[str, str],
    folder: str | Path | None,
    inherit: Sequence[int],
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment,
        cwd=folder,
        pass_fds=inherit,
        start_new_session=True,
    )


async def _exited(pid: int, pipes: Mapping[int, Tail], seconds: float) -> bool:
    """Read the pipes until the child has exited; False when it has not within `seconds`. Does not reap it."""
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    for descriptor, tail in pipes.items():
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, _pump, loop, descriptor, tail)
    handle = _handle(pid)
    if handle is not None:
        loop.add_reader(handle, gone.set)
    try:
        async with asyncio.timeout(seconds):
            while handle is None and not _is_gone(pid):  # noqa: ASYNC110 - nobody tells us of its exit
                await asyncio.sleep(_LOOK)
            if handle is not None:
                await gone.wait()
        return True
    except TimeoutError:
        return False
    finally:
        for descriptor in pipes:
            loop.remove_reader(descriptor)
        if handle is not None:
            loop.remove_reader(handle)
            os.close(handle)


def _pump(loop: asyncio.AbstractEventLoop, descriptor: int, tail: Tail) -> None:
    if not tail.read(descriptor) and not tail.open:
        loop.remove_reader(descriptor)


def _handle(pid: int) -> int | None:
    """Becomes readable when the process exits; None where the system has no such thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _is_gone(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: subprocess.Popen[bytes], pipes: Mapping[int, Tail], mark: str, sweep: bool) -> bool:
    """Kill what is left of the group, reap the child, read what it had written. Whether something held its output."""
    for descriptor, tail in pipes.items():
        while tail.open and tail.read(descriptor):
            pass
    held = any(tail.open for tail in pipes.values()) and not sweep
    # Before the child is reaped: until then its number cannot belong to anybody else.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    if held or sweep:
        _kill_marked(mark)
    with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs inside the kernel: nobody can end that
        child.wait(timeout=1)
    return held


def _kill_marked(mark: str) -> None:
    """Kill what has left the group (a session of its own) but still carries its mark. Where there is a /proc."""
    wanted = f"{MARK}={mark}".encode()
    try:
        entries = [entry for entry in os.listdir("/proc") if entry.isdigit()]
    except OSError:
        return
    for entry in entries:
        try:
            environment = Path("/proc", entry, "environ").read_bytes()
        except OSError:  # somebody else's, or gone
            continue
        if wanted in environment.split(b"\0"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(entry), signal.SIGKILL)
