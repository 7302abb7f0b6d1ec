"""A small process between a worker and a program it runs: nothing the program has started outlives the two of them.

It is started as a file, without site packages, for every program: so it must not depend on anything but the standard
library, and of that on little, since what it imports is half of what it costs.
`supervisor.py LIFELINE NEWS DESCRIPTORS PROGRAM...`: on NEWS it writes how the program came to its end.
On LIFELINE it waits for a word: `g` lets go what has made itself independent of the program's group; the end of the
file (the worker wants it so, or is dead) ends everything. On Linux whatever lost its parent becomes its child, so it
also finds what has moved into a session of its own; elsewhere it only knows the group.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import FrameType
    from typing import NoReturn
else:
    import _signal as signal  # without its enumerations

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LOOK = 1000
"""Milliseconds between two looks whether the worker is still there, where something else holds the lifeline open."""


def main() -> None:
    worker = os.getppid()
    alive, news = int(sys.argv[1]), int(sys.argv[2])
    inherited = [int(word) for word in sys.argv[3].split(",") if word]
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is not None:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, _heard)
    signal.set_wakeup_fd(waker)
    for descriptor in (alive, news):
        os.set_inheritable(descriptor, False)
    child = os.fork()
    if child == 0:
        _become(sys.argv[4:], news, libc)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # the end of the program's output has to be seen
        os.dup2(nowhere, descriptor)
    for descriptor in inherited:
        os.close(descriptor)
    word = _watch(child, worker, alive, news, woken)
    _end(child, everything=not word)
    os._exit(0)


def _heard(number: int, frame: FrameType | None) -> None:
    """A child has ended: the descriptor that this wakes is looked at, nothing is done here."""


def _become(words: list[str], news: int, libc: ctypes.CDLL | None) -> NoReturn:
    """In the child: the program, in a session of its own. Where there is none, the news say why."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python's own habit, which a program must not inherit
        signal.signal(ignored, signal.SIG_DFL)
    os.setsid()
    if libc is not None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        os.write(news, b"failed %d\n" % (error.errno or 0))
    os._exit(127)


def _watch(child: int, worker: int, alive: int, news: int, woken: int) -> bytes:
    """Until there is a word of the worker's; empty where there is none any more. Tells the end of the child."""
    poll, told = select.poll(), False
    for descriptor in (alive, woken):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll(_LOOK)]
        if alive in ready:
            return os.read(alive, 1)
        if os.getppid() != worker:
            return b""
        if woken in ready:
            os.read(woken, 4096)
        if not told and (status := _ended(child)) is not None:
            told = True
            try:  # noqa: SIM105 - `contextlib` costs more than all of this
                os.write(news, b"ended %d\n" % status)
            except BrokenPipeError:
                pass


def _ended(child: int) -> int | None:
    """The child's exit status, or minus the signal that killed it. It is not reaped: its number stays its own."""
    while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
        if found.si_pid == child:
            return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        os.waitpid(found.si_pid, 0)
    return None


def _end(child: int, everything: bool) -> None:
    """Kill the child's group; with `everything`, what has left it too. Each death brings us the orphans of the dead."""
    _kill(-child)
    while everything:
        for pid in _children():
            _kill(pid)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _kill(pid: int) -> None:
    """A process, or with a minus a group, if it is there and ours to kill."""
    try:  # noqa: SIM105 - `contextlib` costs more than all of this
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _children() -> list[int]:
    """Our own, where there is a /proc."""
    found: list[int] = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        try:
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    found.append(int(name))
        except (OSError, ValueError):
            pass
    return found


if __name__ == "__main__":
    main()
