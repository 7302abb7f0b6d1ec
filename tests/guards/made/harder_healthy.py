"""Work that is easily taken for a loop: lists between their items, keys pressed often, rounds of calm looks."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.made.making import Tale, Telling, Tool, tool


def _tale(name: str, kind: str, why: str, **tools: Tool) -> Tale:
    return Tale(name, kind, why, tools)


def xok_hub_read() -> Iterator[Tale]:
    t = _tale("xok-hub-read", "healthy", "a list, an item, the list, the next item", open=tool("read", "url"))
    for n in range(9):
        t.call("open", {"url": "/orders"}, "\n".join(f"order {k}" for k in range(9)))
        t.call("open", {"url": f"/orders/{n}"}, f"order {n}: {t.hex(6)} EUR {n * 13}")
    yield t


def xok_hub_ui() -> Iterator[Tale]:
    t = _tale(
        "xok-hub-ui",
        "healthy",
        "back to the same menu after each setting",
        open=tool("ui", "page"),
        toggle=tool("ui", "id"),
    )
    for n in range(9):
        t.call("open", {"page": "settings"}, {"title": "Settings"})
        t.call("toggle", {"id": f"opt{n}"}, {"on": True}, True)
    yield t


def xok_hub_search() -> Iterator[Tale]:
    t = _tale(
        "xok-hub-search",
        "healthy",
        "one search, its hits opened one after the other, the list looked up between",
        search=tool("search"),
        fetch=tool("read", "url"),
    )
    for n in range(7):
        t.call("search", {"q": "pump manual"}, [f"https://a.example/{k}" for k in range(7)])
        t.call("fetch", {"url": f"https://a.example/{n}"}, f"manual part {n}: {t.hex(20)}")
    yield t


def xok_mkdir() -> Iterator[Tale]:
    t = _tale(
        "xok-mkdir",
        "healthy",
        "the same folder made sure of before each file",
        bash=tool("exec"),
        put=tool("write", "path"),
    )
    for n in range(8):
        t.call("bash", {"command": "mkdir -p out"}, "", False)
        t.call("put", {"path": f"out/{n}.txt", "text": f"part {n}"}, "ok", True)
    yield t


def xok_three_at_once() -> Iterator[Tale]:
    t = _tale(
        "xok-three-at-once",
        "healthy",
        "one test three times in a reply, for flakiness, then an edit, three rounds",
        test=tool("exec"),
        edit=tool("write", "f"),
    )
    for n in range(3):
        for k in range(3):
            t.call("test", {"only": "net"}, "1 failed", error=True, batch=k > 0)
        t.call("edit", {"f": "net.py", "to": f"v{n}"}, {"ok": True}, True)
    yield t


def xok_deletes() -> Iterator[Tale]:
    t = _tale("xok-deletes", "healthy", "many things removed, each answer alike", rm=tool("write", "id"))
    for n in range(16):
        t.call("rm", {"id": f"tmp-{n}"}, "deleted", True)
    yield t


def xok_volume() -> Iterator[Tale]:
    t = _tale("xok-volume", "healthy", "one key pressed until it is loud enough", key=tool("ui", "key"))
    for n in range(8):
        t.call("key", {"key": "VolumeUp"}, {"volume": 30 + 5 * n}, True)
    yield t


def xok_scroll_end() -> Iterator[Tale]:
    t = _tale("xok-scroll-end", "healthy", "scrolled to the end and a little beyond", scroll=tool("ui"))
    for n in range(10):
        t.call("scroll", {"by": 800}, {"top": 800 * min(n, 7)}, n < 8)
    yield t


def xok_monitor() -> Iterator[Tale]:
    t = _tale(
        "xok-monitor",
        "healthy",
        "a slow build looked at ten times, with waits between, then done",
        sleep=tool("exec"),
        state=tool("read", "id"),
    )
    for _ in range(10):
        t.call("state", {"id": 3}, "building")
        t.call("sleep", {"seconds": 60}, "", False)
    t.call("state", {"id": 3}, "done")
    yield t


def xok_calibrate() -> Iterator[Tale]:
    t = _tale(
        "xok-calibrate", "healthy", "one screw turned until it fits, the answer one of two", turn=tool("write", "screw")
    )
    for n, angle in enumerate((90, 45, 67, 56, 61, 64, 62, 63)):
        t.call("turn", {"screw": "S1", "angle": angle}, "too far" if n % 2 == 0 else "not enough", True)
    yield t


def xok_optional() -> Iterator[Tale]:
    t = _tale(
        "xok-optional",
        "healthy",
        "an optional part each customer may lack",
        prefs=tool("search", "customer"),
        mail=tool("message", "to"),
    )
    for n in range(14):
        t.call("prefs", {"customer": f"C{n}"}, {"preferences": []} if n % 4 else {"preferences": ["sms"]})
        t.call("mail", {"to": f"C{n}", "text": "Open house on Friday"}, {"ok": True}, True)
    yield t


def xok_remind() -> Iterator[Tale]:
    t = _tale("xok-remind", "healthy", "a reminder each time the person asks for one", remind=tool("message", "to"))
    for _ in range(6):
        t.say("Remind Ana again, please.", "user")
        t.call("remind", {"to": "ana", "text": "Please sign the form."}, {"sent": True}, True)
    yield t


def xok_sql_explore() -> Iterator[Tale]:
    t = _tale(
        "xok-sql-explore", "healthy", "a database explored, many questions, some empty, some wrong", sql=tool("read")
    )
    for n in range(24):
        wrong = n % 7 == 3
        t.call(
            "sql",
            {"q": f"select c{n} from t{n % 5} where x > {n}"},
            f"no such column: c{n}" if wrong else [] if n % 3 == 0 else [[n, n * 2]],
            error=wrong,
        )
    yield t


def xok_matrix() -> Iterator[Tale]:
    t = _tale("xok-matrix", "healthy", "a test for each version, all of them red in the same way", test=tool("exec"))
    for version in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13"):
        t.call("test", {"python": version, "os": "linux"}, f"{version}: 1 failed: test_tz", False)
    yield t


def xok_denied_then_asks() -> Iterator[Tale]:
    t = _tale(
        "xok-denied-then-asks",
        "healthy",
        "three folders that may not be read, then a person is asked",
        ls=tool("read", "path"),
        ask=tool("message"),
    )
    for p in ("/root", "/etc/ssl/private", "/var/lib/private"):
        t.call("ls", {"path": p}, f"ls: cannot open directory '{p}': Permission denied", error=True)
    t.call("ask", {"text": "May I read /root?"}, {"answer": "no"})
    t.call("ls", {"path": "/srv"}, "data")
    yield t


def xok_same_edit() -> Iterator[Tale]:
    t = _tale("xok-same-edit", "healthy", "the same header put into forty files", edit=tool("write", "path"))
    for n in range(40):
        t.call("edit", {"path": f"src/{n}.py", "insert": "# licence: MIT"}, {"ok": True}, True)
    yield t


def xok_rounds() -> Iterator[Tale]:
    t = _tale(
        "xok-rounds",
        "healthy",
        "three hosts checked every hour, all calm, each hour told",
        check=tool("read", "host"),
        report=tool("message", "to"),
    )
    for n in range(8):
        for h in "abc":
            t.call("check", {"host": h}, "ok")
        t.call("report", {"to": "ops", "text": f"{n}:00 all calm"}, {"sent": True}, True)
    yield t


def xok_two_files() -> Iterator[Tale]:
    t = _tale(
        "xok-two-files", "healthy", "two files changed in turn, the content new each time", edit=tool("write", "f")
    )
    for n in range(14):
        t.call("edit", {"f": ("a.c", "a.h")[n % 2], "line": n, "to": f"int f{n};"}, {"ok": True}, True)
    yield t


def xok_lookup_missing() -> Iterator[Tale]:
    t = _tale(
        "xok-lookup-missing",
        "healthy",
        "twelve names looked for in one register, half of them not there",
        find=tool("search", "name"),
    )
    for n, name in enumerate(
        ("Puig", "Lind", "Serra", "Moreau", "Kaya", "Novak", "Rossi", "Silva", "Weber", "Okafor", "Tanaka", "Berg")
    ):
        t.call("find", {"name": name}, {"found": False} if n % 2 or n < 5 else {"found": True, "id": n})
    yield t


def xok_seeds() -> Iterator[Tale]:
    t = _tale("xok-seeds", "healthy", "one test with twenty seeds, all of them fine", fuzz=tool("exec", "test"))
    for seed in range(20):
        t.call("fuzz", {"test": "parser", "seed": seed}, "10000 inputs tried, no crash found", False)
    yield t


def xok_grid() -> Iterator[Tale]:
    t = _tale("xok-grid", "healthy", "a robot that takes the same step as often as needed", step=tool("write", "robot"))
    for n in range(9):
        t.call("step", {"robot": "r1", "to": "north"}, {"x": 4, "y": n}, True)
    yield t


def xok_slots() -> Iterator[Tale]:
    t = _tale("xok-slots", "healthy", "the next free hour of one room, six times as asked", book=tool("write", "room"))
    for n in range(6):
        t.call("book", {"room": "A", "for": "interviews"}, {"slot": f"{9 + n}:30", "ok": True}, True)
    yield t


def xok_three_orders() -> Iterator[Tale]:
    t = _tale(
        "xok-three-orders", "healthy", "three of the same, as asked, each with a number", buy=tool("write", "sku")
    )
    for n in range(3):
        t.call("buy", {"sku": "T-1", "qty": 1}, {"order": f"O-{5120 + n}", "total": 19.5}, True)
    t.say("Three single orders are placed, as you asked.")
    yield t


def xok_next_in_line() -> Iterator[Tale]:
    t = _tale(
        "xok-next-in-line", "healthy", "a queue worked off by one call without arguments", approve_next=tool("write")
    )
    for n in range(12):
        t.call("approve_next", {}, {"approved": f"INV-{1007 + n}", "left": 11 - n}, True)
    yield t


def xok_domain_names() -> Iterator[Tale]:
    t = _tale("xok-domain-names", "healthy", "names tried until a free one is found", whois=tool("read", "domain"))
    for name in ("pou", "font", "riu", "llac", "mar", "bosc", "prat", "cim", "vall", "coll"):
        t.call("whois", {"domain": f"{name}.example"}, "registered, expires next year")
    t.call("whois", {"domain": "sorra.example"}, "No match for domain")
    yield t


def xok_health_checks() -> Iterator[Tale]:
    t = _tale(
        "xok-health-checks", "healthy", "each of nine parts checked after one deploy", health=tool("exec", "part")
    )
    for part in ("db", "cache", "queue", "web", "api", "cron", "mail", "search", "files"):
        t.call("health", {"cluster": "eu", "part": part}, "status: healthy, restarts: none", False)
    yield t


HARDER_HEALTHY: tuple[Telling, ...] = (
    xok_seeds,
    xok_grid,
    xok_slots,
    xok_three_orders,
    xok_next_in_line,
    xok_domain_names,
    xok_health_checks,
    xok_hub_read,
    xok_hub_ui,
    xok_hub_search,
    xok_mkdir,
    xok_three_at_once,
    xok_deletes,
    xok_volume,
    xok_scroll_end,
    xok_monitor,
    xok_calibrate,
    xok_optional,
    xok_remind,
    xok_sql_explore,
    xok_matrix,
    xok_denied_then_asks,
    xok_same_edit,
    xok_rounds,
    xok_two_files,
    xok_lookup_missing,
)
