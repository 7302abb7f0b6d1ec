"""Short histories that look like loops and are work."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.made.making import Tale, Telling, Tool, tool


def _tale(name: str, why: str, **tools: Tool) -> Tale:
    return Tale(name, "healthy", why, tools)


def ok_backoff_503() -> Iterator[Tale]:
    t = _tale("ok-backoff-503", "three refusals, then it works, twice over", post=tool("exec", "url"))
    for order in (1, 2):
        for n in range(3):
            t.call("post", {"url": f"/orders/{order}"}, {"status": 503, "retry_after": 2**n}, error=True)
        t.call("post", {"url": f"/orders/{order}"}, {"status": 201, "order": order}, True)
    yield t


def ok_backoff_429() -> Iterator[Tale]:
    t = _tale("ok-backoff-429", "five rate limits with growing waits, then the answer", llm=tool("exec"))
    for n in range(5):
        t.call("llm", {"prompt": "sum"}, {"status": 429, "retry_after": 2**n, "error": "too many requests"}, error=True)
    t.call("llm", {"prompt": "sum"}, {"text": "42"})
    yield t


def ok_two_typos() -> Iterator[Tale]:
    t = _tale("ok-two-typos", "two wrong commands, then the right one, three times", bash=tool("exec"))
    for what in ("tar", "zip", "rsync"):
        t.call("bash", {"command": f"{what} --hlep"}, f"{what}: unrecognized option '--hlep'", error=True)
        t.call("bash", {"command": f"{what} -help"}, f"{what}: invalid option -- 'e'", error=True)
        t.call("bash", {"command": f"{what} --help"}, f"Usage: {what} [OPTION]... FILE")
    yield t


def ok_dead_links() -> Iterator[Tale]:
    t = _tale("ok-dead-links", "a link check; ten pages of fifteen are gone, each another", head=tool("read", "url"))
    for n in range(15):
        dead = n % 3 != 2
        t.call("head", {"url": f"https://shop.example/p/{n}"}, "404 Not Found" if dead else "200 OK", error=dead)
    yield t


def ok_compile() -> Iterator[Tale]:
    t = _tale(
        "ok-compile", "a build that fails otherwise each time, repaired", edit=tool("write", "file"), make=tool("exec")
    )
    for n in range(7):
        t.call("edit", {"file": "main.c", "line": 10 + n, "text": f"int v{n};"}, {"ok": True}, True)
        t.call("make", {}, f"main.c:{11 + n}: error: 'w{n}' undeclared", error=True)
    t.call("make", {}, "ok")
    yield t


def ok_poll_untimed() -> Iterator[Tale]:
    t = _tale("ok-poll-untimed", "ten looks, then it is done", start=tool("exec"), state=tool("poll", "id"))
    t.call("start", {}, {"id": 4}, True)
    for _ in range(10):
        t.call("state", {"id": 4}, {"state": "queued"})
    t.call("state", {"id": 4}, {"state": "done", "url": "/out/4"})
    yield t


def ok_poll_long() -> Iterator[Tale]:
    t = _tale(
        "ok-poll-long", "thirty looks within the time the task gives", restore=tool("poll", "id", poll_budget_s=5400)
    )
    t.clock = 0
    for n in range(30):
        t.call("restore", {"id": 1}, {"phase": "copy", "elapsed_s": 120 * n}, took=119)
    t.call("restore", {"id": 1}, {"phase": "done"})
    yield t


def ok_poll_and_sleep() -> Iterator[Tale]:
    t = _tale(
        "ok-poll-and-sleep",
        "looks and waits in turn, within the time",
        sleep=tool("exec"),
        job=tool("poll", "id", poll_budget_s=3600),
    )
    t.clock = 0
    for _ in range(22):
        t.call("job", {"id": 9}, {"state": "RUNNING", "now": t.stamp()}, took=1)
        t.call("sleep", {"seconds": 90}, "", False, took=90)
    t.call("job", {"id": 9}, {"state": "SUCCEEDED"})
    yield t


def ok_poll_percent() -> Iterator[Tale]:
    t = _tale("ok-poll-percent", "a poll whose share rises slowly, often the same twice", render=tool("poll", "id"))
    for n in range(60):
        t.call("render", {"id": 2}, {"percent": n // 3, "elapsed_s": 9 * n})
    yield t


def ok_boot() -> Iterator[Tale]:
    t = _tale("ok-boot", "refused until the service is up", curl=tool("poll", "url", poll_budget_s=600))
    t.clock = 0
    for _ in range(14):
        t.call("curl", {"url": "http://localhost:8080"}, "connection refused", error=True, took=10)
    t.call("curl", {"url": "http://localhost:8080"}, "ready", took=1)
    yield t


def ok_sleep_log() -> Iterator[Tale]:
    t = _tale("ok-sleep-log", "a wait and a growing log", sleep=tool("exec"), tail=tool("read", "file"))
    for n in range(15):
        t.call("sleep", {"seconds": 30}, "", False)
        t.call("tail", {"file": "t.log"}, f"epoch {n // 2}: loss {3 - n / 10:.2f}")
    yield t


def ok_cursor() -> Iterator[Tale]:
    t = _tale("ok-cursor", "pages until there are none", items=tool("search"))
    cursor = None
    for n in range(18):
        nxt = t.hex(10)
        t.call("items", {"limit": 20, "cursor": cursor}, {"items": [{"id": 20 * n + k} for k in range(3)], "next": nxt})
        cursor = nxt
    t.call("items", {"limit": 20, "cursor": cursor}, {"items": [], "next": None})
    yield t


def ok_pages_empty() -> Iterator[Tale]:
    t = _tale("ok-pages-empty", "page numbers, the last two empty", liste=tool("search", "seite"))
    for n in range(12):
        t.call("liste", {"seite": n}, {"treffer": [f"A{n}"] if n < 10 else []})
    yield t


def ok_tags() -> Iterator[Tale]:
    t = _tale(
        "ok-tags",
        "thirty pictures, nearly all with one label",
        look=tool("read", "image"),
        label=tool("write", "image"),
    )
    for n in range(30):
        t.call("look", {"image": f"{n}.jpg"}, "a bird on a branch")
        t.call("label", {"image": f"{n}.jpg", "label": "bird"}, {"ok": True}, True)
    yield t


def ok_letters() -> Iterator[Tale]:
    t = _tale("ok-letters", "one letter to twenty tenants", carta=tool("message", "a"))
    for n in range(20):
        t.call("carta", {"a": f"pis {n}", "text": "Tall d'aigua dilluns a les 9."}, {"enviat": True}, True)
    yield t


def ok_unknown_customers() -> Iterator[Tale]:
    t = _tale("ok-unknown-customers", "twenty customers looked up, none of them known", find=tool("search", "email"))
    for n, name in enumerate(
        (
            "ana",
            "bo",
            "cem",
            "dan",
            "eva",
            "fin",
            "gus",
            "hal",
            "ida",
            "jan",
            "kai",
            "lea",
            "max",
            "noa",
            "ole",
            "pia",
            "rui",
            "sol",
            "tom",
            "uwe",
        )
    ):
        t.call("find", {"email": f"{name}{n}@mail.example"}, {"count": 0, "customers": []})
    yield t


def ok_queue() -> Iterator[Tale]:
    t = _tale("ok-queue", "a queue, its jobs alike", take=tool("exec"), done=tool("write", "job"))
    for n in range(15):
        t.call("take", {}, {"job": 300 + n, "type": "resize"}, True)
        t.call("done", {"job": 300 + n}, {"ok": True}, True)
    yield t


def ok_wizard() -> Iterator[Tale]:
    t = _tale("ok-wizard", "the same button on twelve pages", click=tool("ui", "button"))
    for n in range(12):
        t.call("click", {"button": "Next"}, {"page": n + 2, "of": 13}, True)
    yield t


def ok_log_windows() -> Iterator[Tale]:
    t = _tale("ok-log-windows", "the same calm answer for every hour", logs=tool("read", "service"))
    for hour in range(20):
        t.call(
            "logs",
            {"service": "web", "from": f"2026-03-01T{hour:02}:00", "to": f"2026-03-01T{hour + 1:02}:00"},
            "no errors",
        )
    yield t


def ok_bisect() -> Iterator[Tale]:
    t = _tale("ok-bisect", "good or bad, sixteen times", bisect=tool("exec"))
    for n in range(16):
        t.call("bisect", {"commit": t.hex(10)}, "bad" if n % 3 else "good", False)
    yield t


def ok_counter() -> Iterator[Tale]:
    t = _tale("ok-counter", "one call, counting up as asked", add=tool("write", "counter"))
    for n in range(9):
        t.call("add", {"counter": "visits", "by": 1}, {"value": n + 1}, True)
    yield t


def ok_samples() -> Iterator[Tale]:
    t = _tale("ok-samples", "a die thrown forty times", throw=tool("sample"))
    for _ in range(40):
        t.call("throw", {}, {"face": t.draw.randint(1, 3)})
    yield t


def ok_empty_dirs() -> Iterator[Tale]:
    t = _tale("ok-empty-dirs", "folders looked into, most of them empty", ls=tool("read", "path"))
    for n in range(14):
        t.call("ls", {"path": f"/data/{n}"}, "" if n % 4 else f"{n}.csv")
    yield t


def ok_archive() -> Iterator[Tale]:
    t = _tale("ok-archive", "year after year, nothing until the last", register=tool("search", "year"))
    for year in range(1880, 1902):
        t.call("register", {"name": "Ferrer", "year": year}, [])
    t.call("register", {"name": "Ferrer", "year": 1902}, [{"folio": 88}])
    yield t


def ok_read_after_write() -> Iterator[Tale]:
    t = _tale(
        "ok-read-after-write",
        "the same file read after every edit",
        read=tool("read", "file"),
        edit=tool("write", "file"),
    )
    for n in range(10):
        t.call("read", {"file": "a.py"}, "\n".join(f"line {k}" for k in range(n + 1)))
        t.call("edit", {"file": "a.py", "add": f"line {n + 1}"}, {"ok": True}, True)
    yield t


def ok_idempotent() -> Iterator[Tale]:
    t = _tale(
        "ok-idempotent",
        "a setting written once more, read back between other work",
        put=tool("write", "key"),
        get=tool("read", "key"),
    )
    for n in range(8):
        t.call("put", {"key": f"k{n}", "value": 1}, {"ok": True}, True)
        t.call("get", {"key": f"k{n}"}, {"value": 1})
    t.call("get", {"key": "k0"}, {"value": 1})
    t.call("get", {"key": "k1"}, {"value": 1})
    yield t


def ok_red_tests() -> Iterator[Tale]:
    t = _tale(
        "ok-red-tests", "the test stays red through eight real edits", edit=tool("write", "file"), test=tool("exec")
    )
    for n in range(8):
        t.call("edit", {"file": f"m{n % 3}.py", "to": f"try {n}"}, {"ok": True}, True)
        t.call("test", {}, "2 failed, 40 passed", error=True)
    yield t


def ok_asked_again() -> Iterator[Tale]:
    t = _tale("ok-asked-again", "a person asks the same every hour", get=tool("read", "stock"))
    for n in range(8):
        t.say("How many are left now?", "user")
        t.call("get", {"stock": "bolts"}, {"left": 120})
        t.say(f"There are 120 left, as of look {n}.")
    yield t


def ok_compressed() -> Iterator[Tale]:
    t = _tale("ok-compressed", "read again once what was read is gone", read=tool("read", "file"))
    for _ in range(2):
        for n in range(8):
            t.call("read", {"file": f"chapter{n}.md"}, f"text of chapter {n}")
        t.say("The conversation was compressed; earlier results are no longer visible.", "runtime")
    t.call("read", {"file": "chapter2.md"}, "text of chapter 2")
    yield t


def ok_second_wording() -> Iterator[Tale]:
    t = _tale("ok-second-wording", "two empty searches, found in the third, again and again", search=tool("search"))
    for name in ("Serra", "Lind", "Okafor", "Tanaka"):
        t.call("search", {"q": f"contract {name}"}, [])
        t.call("search", {"q": f"agreement {name}"}, [])
        t.call("search", {"q": name}, [{"id": name, "title": f"Lease {name}"}])
    yield t


def ok_undo_once() -> Iterator[Tale]:
    t = _tale("ok-undo-once", "a change, its undo, and another way", edit=tool("write", "file"), test=tool("exec"))
    for n in range(4):
        t.call("edit", {"file": "c.ini", "set": f"opt{n}=1"}, {"ok": True}, True)
        t.call("test", {}, f"opt{n}: slower by {n + 3} %", False)
        t.call("edit", {"file": "c.ini", "unset": f"opt{n}"}, {"ok": True}, True)
    yield t


def ok_lease() -> Iterator[Tale]:
    t = _tale("ok-lease", "a lease renewed between items", renew=tool("exec"), work=tool("write", "item"))
    for n in range(10):
        t.call("renew", {}, {"ok": True, "until": t.stamp()}, True)
        t.call("work", {"item": n}, "done", True)
    yield t


def ok_compare() -> Iterator[Tale]:
    t = _tale(
        "ok-compare",
        "two lists compared row by row, the answers alike",
        left=tool("read", "row"),
        right=tool("read", "row"),
    )
    for n in range(12):
        t.call("left", {"row": n}, "equal")
        t.call("right", {"row": n}, "equal")
    yield t


def ok_git() -> Iterator[Tale]:
    t = _tale("ok-git", "status and diff after each commit", bash=tool("exec"))
    for n in range(6):
        t.call("bash", {"command": f"git commit -am 'part {n}'"}, f"[main {t.hex(7)}] part {n}", True)
        t.call("bash", {"command": "git status --short"}, "", False)
        t.call("bash", {"command": f"sed -i s/a{n}/b{n}/ f.txt"}, "", True)
    yield t


HEALTHY: tuple[Telling, ...] = (
    ok_backoff_503,
    ok_backoff_429,
    ok_two_typos,
    ok_dead_links,
    ok_compile,
    ok_poll_untimed,
    ok_poll_long,
    ok_poll_and_sleep,
    ok_poll_percent,
    ok_boot,
    ok_sleep_log,
    ok_cursor,
    ok_pages_empty,
    ok_tags,
    ok_letters,
    ok_unknown_customers,
    ok_queue,
    ok_wizard,
    ok_log_windows,
    ok_bisect,
    ok_counter,
    ok_samples,
    ok_empty_dirs,
    ok_archive,
    ok_read_after_write,
    ok_idempotent,
    ok_red_tests,
    ok_asked_again,
    ok_compressed,
    ok_second_wording,
    ok_undo_once,
    ok_lease,
    ok_compare,
    ok_git,
)
