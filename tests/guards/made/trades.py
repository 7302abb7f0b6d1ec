"""Five trades at work, for long histories: what an agent does there when nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable

from tests.guards.made.making import Tale, Tool, tool

NOTE = "You are repeating yourself; nothing has changed. Try another way, or say what blocks you."

Trade = Callable[[Tale, int], None]

TRADES: dict[str, tuple[dict[str, Tool], Trade]] = {}


def _library(t: Tale, n: int) -> None:
    title = f"{('Canigó', 'Tirant', 'Solitud', 'Laura')[n % 4]} {n}"
    t.call("catalogue", {"query": title}, [{"id": n, "title": title}] if n % 5 else [])
    t.call("copy", {"id": n}, {"shelf": f"{t.hex(3)}", "on_loan": bool(n % 3)})
    if n % 3 == 0:
        t.call("reserve", {"copy": n, "reader": f"R{n}"}, {"ok": True, "id": t.hex()}, True)
    if n % 7 == 3:
        t.say(f"{title} is on loan until {t.stamp()[:10]}; I go on with the next.")


def _warehouse(t: Tale, n: int) -> None:
    t.call("bin", {"bin": f"A-{n}"}, {"sku": f"S{n * 3}", "qty": t.draw.randint(0, 40)})
    t.call("count", {"bin": f"A-{n}", "qty": n % 9}, {"ok": True}, True)
    if n % 4 == 1:
        t.call("alert", {"to": "floor", "text": f"bin A-{n} differs by {n % 9}"}, {"sent": True}, True)


def _code(t: Tale, n: int) -> None:
    t.call(
        "read", {"path": f"src/m{n % 11}.py", "offset": 40 * (n // 11), "limit": 40}, f"def f{n}(): ...\n# {t.hex(12)}"
    )
    if n % 2:
        t.call("edit", {"path": f"src/m{n % 11}.py", "old": f"f{n}", "new": f"g{n}"}, {"ok": True}, True)
        t.call("test", {}, f"{n % 4} failed, {60 + n % 3} passed", error=bool(n % 4))
    if n % 6 == 0:
        t.call("grep", {"pattern": f"f{n}\\b"}, "" if n % 12 else f"src/m{n % 11}.py:{n}: f{n}()")


def _clinic(t: Tale, n: int) -> None:
    t.call("paciente", {"id": 1000 + n}, {"nombre": f"P{n}", "alergias": [] if n % 3 else ["polen"]})
    t.call(
        "huecos", {"dia": f"2026-04-{n % 28 + 1:02}", "medico": f"M{n % 5}"}, [] if n % 4 == 0 else [f"{9 + n % 8}:30"]
    )
    if n % 4:
        t.call("cita", {"paciente": 1000 + n, "hora": f"{9 + n % 8}:30"}, {"confirmada": True, "ref": t.hex()}, True)


def _ops(t: Tale, n: int) -> None:
    t.call(
        "metrics",
        {"host": f"h{n % 17}", "name": ("cpu", "mem", "disk")[n % 3], "hour": n},
        {"avg": t.draw.randint(1, 90)},
    )
    if n % 3 == 0:
        t.call(
            "ssh",
            {"host": f"h{n % 17}", "command": f"journalctl -u svc{n} -n 5"},
            f"svc{n}: started\nsvc{n}: ok {t.hex(6)}",
        )
    if n % 5 == 2:
        t.call("restart", {"service": f"svc{n}"}, {"restarted": True}, True)


TRADES["library"] = (
    {"catalogue": tool("search", "query"), "copy": tool("read", "id"), "reserve": tool("write", "copy")},
    _library,
)
TRADES["warehouse"] = (
    {"bin": tool("read", "bin"), "count": tool("write", "bin"), "alert": tool("message", "to")},
    _warehouse,
)
TRADES["code"] = (
    {
        "read": tool("read", "path"),
        "edit": tool("write", "path"),
        "test": tool("exec"),
        "grep": tool("search", "pattern"),
    },
    _code,
)
TRADES["clinic"] = (
    {"paciente": tool("read", "id"), "huecos": tool("search", "dia"), "cita": tool("write", "paciente")},
    _clinic,
)
TRADES["ops"] = (
    {"metrics": tool("read", "host"), "ssh": tool("exec", "host"), "restart": tool("write", "service")},
    _ops,
)


def begin(name: str, kind: str, trade: str, group: str, why: str, rounds: int, **more: Tool) -> Tale:
    tools, work = TRADES[trade]
    t = Tale(name, kind, why, {**tools, **more}, more={"group": group, "trade": trade})
    t.say("Please see to the whole list.", "user")
    for n in range(rounds):
        work(t, n)
    return t


def go_on(t: Tale, trade: str, start: int, rounds: int) -> None:
    for n in range(start, start + rounds):
        TRADES[trade][1](t, n)
