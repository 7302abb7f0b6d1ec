"""Long histories that are told of a loop: some recover, some fall back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.guards.made.making import Tale, Telling, Tool, tool
from tests.guards.made.trades import NOTE, begin, go_on


def again(
    name: str,
    kind: str,
    trade: str,
    why: str,
    twice: Callable[[Tale, bool], None],
    first: int,
    last: int,
    also: tuple[str, ...] = (),
) -> Tale:
    t = begin(name, kind, trade, "relapse", why, 14)
    twice(t, False)
    t.say(NOTE, "runtime")
    go_on(t, trade, 40, 3)
    twice(t, True)
    return t.cut(first, last, also)


def mails(t: Tale, loop: bool) -> None:
    for _ in range(7 if loop else 2):
        t.call("alert", {"to": "desk", "text": "where is bin A-4?"}, {"sent": True, "id": t.hex()}, True, loop=loop)


def copies(t: Tale, loop: bool) -> None:
    for _ in range(9 if loop else 3):
        t.call("copy", {"id": 77}, {"shelf": "k3", "on_loan": True}, loop=loop)


def routes(t: Tale, loop: bool) -> None:
    commands = ("uptime", "date", "id", "w", "df", "ps", "ls", "env") if loop else ("hostname", "free", "who")
    for c in commands:
        t.call(
            "ssh",
            {"host": "h50", "command": c},
            "ssh: connect to host h50 port 22: Connection timed out",
            error=True,
            loop=loop,
        )


def ring(t: Tale, loop: bool) -> None:
    for _ in range(5 if loop else 2):
        for name in ("a", "b", "c"):
            t.call("read", {"path": f"docs/{name}.md"}, f"see {chr(ord(name) + 1)}", loop=loop)


def saved(name: str, trade: str, why: str, stuck: Callable[[Tale], None], then: int = 12, **more: Tool) -> Tale:
    t = begin(name, "healthy", trade, "recovered", why, 12, **more)
    stuck(t)
    t.say(NOTE, "runtime")
    go_on(t, trade, 60, then)
    return t


def two_mails(t: Tale) -> None:
    for _ in range(2):
        t.call("alert", {"to": "desk", "text": "bin A-2 is empty"}, {"sent": True, "id": t.hex()}, True)


def looks(t: Tale) -> None:
    for _ in range(3):
        t.call("copy", {"id": 88}, {"shelf": "m1", "on_loan": True})


def hunts(t: Tale) -> None:
    for q in ("solitud català", "solitud víctor", "solitud 1905"):
        t.call("find", {"q": q}, [])


def walls(t: Tale) -> None:
    for c in ("uptime", "date", "id"):
        t.call(
            "ssh",
            {"host": "h60", "command": c},
            "ssh: connect to host h60 port 22: Connection timed out",
            error=True,
        )


def rings(t: Tale) -> None:
    for _ in range(2):
        for name in ("x", "y"):
            t.call("read", {"path": f"docs/{name}.md"}, f"text of {name}")


def tests(t: Tale) -> None:
    for _ in range(3):
        t.call("test", {}, "1 failed: test_slow", error=True)


def rl_alert() -> Iterator[Tale]:
    yield again("rl-alert", "identical", "warehouse", "the message is taken up again after the note", mails, 1, 6)


def rl_copy() -> Iterator[Tale]:
    yield again("rl-copy", "identical", "library", "the same look, again after the note", copies, 1, 7)


def rl_route() -> Iterator[Tale]:
    yield again("rl-route", "error-repeat", "ops", "the same wall after the note", routes, 1, 6)


def rl_ring() -> Iterator[Tale]:
    yield again(
        "rl-ring",
        "cycle-n",
        "code",
        "the ring of three files is walked again",
        ring,
        1,
        12,
        ("no-progress", "identical"),
    )


def rc_alert() -> Iterator[Tale]:
    yield saved("rc-alert", "warehouse", "a message sent twice; stops after the note", two_mails)


def rc_copy() -> Iterator[Tale]:
    yield saved("rc-copy", "library", "three equal looks, then other work", looks)


def rc_hunt() -> Iterator[Tale]:
    yield saved("rc-hunt", "library", "three empty searches, then it goes on", hunts, find=tool("search"))


def rc_wall() -> Iterator[Tale]:
    yield saved("rc-wall", "ops", "three time-outs of one host, then others", walls)


def rc_ring() -> Iterator[Tale]:
    yield saved("rc-ring", "code", "two laps of two files, then edits", rings)


def rc_test() -> Iterator[Tale]:
    yield saved("rc-test", "code", "three runs without an edit, then edits", tests)


AGAIN: tuple[Telling, ...] = (
    rl_alert,
    rl_copy,
    rl_route,
    rl_ring,
    rc_alert,
    rc_copy,
    rc_hunt,
    rc_wall,
    rc_ring,
    rc_test,
)
