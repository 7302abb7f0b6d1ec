"""Short histories that go in circles from their start, and the window in which a person would end each."""

from __future__ import annotations

from collections.abc import Iterator

from capataz.events.facts import JSON
from tests.guards.made.making import Tale, Telling, tool

PAGES = "abcdefgh"


def id_pagar() -> Iterator[Tale]:
    t = Tale("id-pagar", "identical", "la misma factura se paga una y otra vez", {"pagar": tool("write", "factura")})
    for _ in range(8):
        t.call(
            "pagar",
            {"factura": "F-118", "importe": 240.5},
            {"ok": True, "recibo": t.hex(), "id": t.hex()},
            True,
            loop=True,
        )
    yield t.cut(3, 6)


def id_announce() -> Iterator[Tale]:
    t = Tale("id-announce", "identical", "one announcement, sent again and again", {"post": tool("message", "channel")})
    for n in range(8):
        t.call(
            "post",
            {"channel": "#ops", "text": "Deploy done"},
            {"ts": f"17{n}9.{n * 7}", "message_id": t.hex(12)},
            True,
            loop=True,
        )
    yield t.cut(3, 6)


def id_meta_noise() -> Iterator[Tale]:
    t = Tale(
        "id-meta-noise",
        "identical",
        "a read whose envelope changes and whose content does not",
        {"lire": tool("read", "ref")},
    )
    for n in range(12):
        meta: JSON = {
            "request_id": t.hex(16),
            "generated_at": t.stamp(),
            "took_ms": 11 + n * 3,
            "served_by": f"eu-{n % 4}",
        }
        t.call("lire", {"ref": "C-9"}, {"meta": meta, "contrat": {"ref": "C-9", "etat": "signé"}}, loop=True)
    yield t.cut(3, 10)


def id_build() -> Iterator[Tale]:
    t = Tale("id-build", "identical", "a build that fails to start, repeated without an edit", {"build": tool("exec")})
    for n in range(10):
        t.call("build", {"target": "all"}, f"nothing to be done for 'all' (finished in {n}.{n}4s)", loop=True)
    yield t.cut(3, 8)


def id_quiet_shell() -> Iterator[Tale]:
    t = Tale("id-quiet-shell", "identical", "the same silent command", {"bash": tool("exec")})
    for _ in range(10):
        t.call("bash", {"command": "git stash list"}, "", False, loop=True)
    yield t.cut(3, 8)


def id_key_order() -> Iterator[Tale]:
    t = Tale(
        "id-key-order",
        "identical",
        "the same question, its KEYS shuffled and numbers respelt",
        {"quote": tool("read", "sku")},
    )
    for n in range(12):
        pairs: list[tuple[str, JSON]] = [("sku", "L-4"), ("qty", 5 if n % 2 else 5.0), ("zone", "north")]
        t.draw.shuffle(pairs)
        t.call("quote", dict(pairs), {"price": 91.0 if n % 3 else 91}, loop=True)
    yield t.cut(3, 10)


def id_copies() -> Iterator[Tale]:
    t = Tale("id-copies", "identical", "nine copies of one act in a single reply", {"spawn": tool("exec")})
    t.say("I will start it.")
    for n in range(9):
        t.call("spawn", {"cmd": "worker --queue mail"}, {"pid": 4000 + n}, True, loop=True, batch=n > 0)
    yield t.cut(3, 9)


def id_labels() -> Iterator[Tale]:
    t = Tale("id-labels", "identical", "one command under ever new labels", {"run": tool("exec")})
    for n in range(10):
        label = ("check state", "verify", "look again", "confirm once more")[n % 4]
        t.call(
            "run", {"command": "systemctl is-active web", "description": f"{label} {n}"}, "inactive", False, loop=True
        )
    yield t.cut(3, 8)


def id_chatter() -> Iterator[Tale]:
    t = Tale("id-chatter", "identical", "other words between, the same look", {"ordre": tool("read", "num")})
    for n in range(12):
        t.say(f"Je regarde encore une fois la commande, essai {n + 1}.")
        t.call("ordre", {"num": 81}, {"etat": "en attente", "date": "2026-01-04"}, loop=True)
    yield t.cut(3, 10)


def id_dead_poll() -> Iterator[Tale]:
    t = Tale(
        "id-dead-poll",
        "identical",
        "an export that never starts",
        {"start": tool("exec"), "export_state": tool("poll", "job")},
    )
    t.call("start", {"what": "export"}, {"job": 5}, True)
    for n in range(45):
        t.call(
            "export_state",
            {"job": 5},
            {"state": "QUEUED", "position": 14, "elapsed_s": 15 * n, "checked_at": t.stamp()},
            loop=True,
        )
    yield t.cut(12, 40, ("no-progress",))


def id_paths() -> Iterator[Tale]:
    t = Tale("id-paths", "identical", "one file under four spellings", {"cat": tool("read", "path")})
    for n in range(12):
        t.call(
            "cat",
            {"path": ("conf/a.ini", "./conf/a.ini", "conf//a.ini", "conf/./a.ini")[n % 4]},
            "[a]\nx = 1",
            loop=True,
        )
    yield t.cut(3, 10)


def tg_thermostat() -> Iterator[Tale]:
    t = Tale("tg-thermostat", "target", "the set point stays where it is", {"set_temp": tool("write", "room")})
    for n in range(9):
        t.call(
            "set_temp", {"room": "B2", "celsius": 20 + n / 2}, {"setpoint": 18, "request_id": t.hex()}, False, loop=True
        )
    yield t.cut(3, 6, ("no-progress",))


def tg_dns() -> Iterator[Tale]:
    t = Tale(
        "tg-dns",
        "target",
        "a record that does not take, looked at in between",
        {"set_dns": tool("write", "name"), "dig": tool("read", "name")},
    )
    for n in range(8):
        t.call("set_dns", {"name": "www", "value": f"10.0.0.{n + 4}"}, {"applied": False}, False, loop=True)
        t.call("dig", {"name": "www"}, "www. 300 IN A 10.0.0.1")
    yield t.cut(3, 6, ("no-progress", "alternating", "identical"))


def tg_form() -> Iterator[Tale]:
    t = Tale("tg-form", "target", "a field that stays empty whatever is typed", {"fill": tool("write", "field")})
    for n in range(9):
        t.call(
            "fill",
            {"field": "telefon", "value": ("+34 93", "0034 93", "93-", "(93)", "93.")[n % 5] + f"{n}11"},
            {"field": "telefon", "value": ""},
            False,
            loop=True,
        )
    yield t.cut(3, 6, ("no-progress",))


def al_lamp() -> Iterator[Tale]:
    t = Tale("al-lamp", "alternating", "a lamp put on and off", {"lamp": tool("write", "id")})
    for n in range(14):
        t.call("lamp", {"id": "hall", "on": n % 2 == 0}, {"on": n % 2 == 0, "rev": n}, True, loop=True)
    yield t.cut(5, 10)


def al_desks() -> Iterator[Tale]:
    t = Tale("al-desks", "alternating", "two desks send one request to each other", {"forward": tool("message", "to")})
    for n in range(14):
        to = ("billing", "sales")[n % 2]
        t.call(
            "forward",
            {"to": to, "case": 77, "note": "please take this"},
            {"queued": True, "id": t.hex()},
            True,
            loop=True,
        )
    yield t.cut(5, 10)


def al_pages() -> Iterator[Tale]:
    t = Tale("al-pages", "alternating", "two pages, to and fro, with words between", {"open": tool("ui", "url")})
    for n in range(14):
        t.call("open", {"url": ("/prices", "/contact")[n % 2]}, {"title": ("Preise", "Kontakt")[n % 2]}, loop=True)
        t.say(f"That is not it, attempt {n}.")
    yield t.cut(4, 10)


def al_flag() -> Iterator[Tale]:
    t = Tale(
        "al-flag",
        "alternating",
        "a flag set and looked up, both as before",
        {"flag_set": tool("write", "flag"), "flag_get": tool("read", "flag")},
    )
    for _ in range(8):
        t.call("flag_set", {"flag": "beta", "on": True}, {"ok": True}, True, loop=True)
        t.call("flag_get", {"flag": "beta"}, {"on": False}, loop=True)
    yield t.cut(4, 10, ("target", "no-progress", "identical"))


def cyeach() -> Iterator[Tale]:
    for size, kinds, from_ in (
        (3, ("read",), 6),
        (5, ("read", "write", "exec"), 10),
        (6, ("ui",), 11),
        (7, ("read", "search"), 12),
        (8, ("read", "exec"), 13),
    ):
        tools = {f"{kind}_{p}": tool(kind, "x") for p, kind in zip(PAGES, kinds * 8, strict=False)}
        t = Tale(f"cy{size}-{kinds[-1]}", "cycle-n", f"a ring of {size} steps, every lap the same", tools)
        names = list(tools)[:size]
        for lap in range(6):
            for place, name in enumerate(names):
                changed = True if name.startswith("write") else None
                noise = {"ts": t.stamp(), "trace_id": t.hex(16)} if place % 2 else {}
                t.call(
                    name,
                    {"x": f"{name}-1"},
                    {"next": names[(place + 1) % size], "lines": [place, place + 1], **noise},
                    changed,
                    loop=True,
                )
            if lap % 2:
                t.say("Weiter mit dem nächsten Schritt.")
        yield t.cut(from_, 5 * size, ("no-progress", "identical"))


def cy4_stray() -> Iterator[Tale]:
    t = Tale(
        "cy4-stray",
        "cycle-n",
        "a ring of four with a stray look in every second lap",
        {n: tool("read", "x") for n in ("plan", "spec", "code", "log", "misc")},
    )
    for lap in range(7):
        for name in ("plan", "spec", "code", "log"):
            t.call(name, {"x": 1}, f"{name}: unchanged text of {name}", loop=True)
        if lap % 2:
            t.call("misc", {"x": lap}, f"a note of page {lap}")
    yield t.cut(8, 20, ("no-progress", "identical"))


LOOPS: tuple[Telling, ...] = (
    id_pagar,
    id_announce,
    id_meta_noise,
    id_build,
    id_quiet_shell,
    id_key_order,
    id_copies,
    id_labels,
    id_chatter,
    id_dead_poll,
    id_paths,
    tg_thermostat,
    tg_dns,
    tg_form,
    al_lamp,
    al_desks,
    al_pages,
    al_flag,
    cyeach,
    cy4_stray,
)
