"""Long histories of work: some stay healthy, in some a loop starts late."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.made.making import Tale, Telling, tool
from tests.guards.made.trades import begin


def ok_l_each() -> Iterator[Tale]:
    for trade, rounds in (("library", 40), ("warehouse", 45), ("code", 40), ("clinic", 40), ("ops", 50)):
        yield begin(f"ok-l-{trade}", "healthy", trade, "healthy", "nothing but work", rounds)


def ok_l_deploys() -> Iterator[Tale]:
    t = begin(
        "ok-l-deploys",
        "healthy",
        "ops",
        "healthy",
        "twelve services, each deployed, watched and checked",
        8,
        deploy=tool("exec", "service"),
        ready=tool("poll", "service"),
    )
    for n in range(12):
        t.call("deploy", {"service": f"s{n}"}, {"started": True}, True)
        for k in range(4 + n % 3):
            t.call("ready", {"service": f"s{n}"}, {"ready": k, "of": 4 + n % 3})
        t.call("ready", {"service": f"s{n}"}, {"ready": 4 + n % 3, "of": 4 + n % 3})
    yield t


def ok_l_translate() -> Iterator[Tale]:
    t = begin("ok-l-translate", "healthy", "code", "healthy", "fifty strings, much alike", 6, put=tool("write", "key"))
    for n in range(50):
        t.call("put", {"key": f"msg.{n}", "text": ("Desa", "Desa'l", "Cancel·la", "Tanca")[n % 4]}, {"ok": True}, True)
    yield t


def ok_l_flaky() -> Iterator[Tale]:
    t = begin("ok-l-flaky", "healthy", "code", "healthy", "a flaky test run a few times after each edit", 10)
    for n in range(10):
        t.call("edit", {"path": "src/net.py", "old": f"t{n}", "new": f"t{n + 1}"}, {"ok": True}, True)
        for k in range(3):
            t.call("test", {}, "1 failed, 60 passed" if (n + k) % 3 else "61 passed", error=bool((n + k) % 3))
    yield t


def ok_l_questions() -> Iterator[Tale]:
    t = begin("ok-l-questions", "healthy", "library", "healthy", "a person who comes back with the same question", 12)
    for n in range(10):
        t.say("Is it back now?", "user")
        t.call("copy", {"id": 3}, {"shelf": "b2", "on_loan": True})
        t.say(f"Not yet; I looked again ({n}).")
    yield t


def ok_l_empty_hunts() -> Iterator[Tale]:
    t = begin(
        "ok-l-empty-hunts", "healthy", "clinic", "healthy", "no room with five doctors, day after day, then one", 6
    )
    for n in range(24):
        t.call("huecos", {"dia": f"2026-05-{n + 1:02}", "medico": f"M{n % 5}"}, [])
    t.call("huecos", {"dia": "2026-05-26", "medico": "M1"}, ["11:00"])
    yield t


def lt_same_alert() -> Iterator[Tale]:
    t = begin("lt-same-alert", "identical", "warehouse", "late", "one alert without end", 20)
    for _ in range(9):
        t.call("alert", {"to": "floor", "text": "count again, please"}, {"sent": True, "id": t.hex()}, True, loop=True)
    yield t.cut(3, 6)


def lt_same_read() -> Iterator[Tale]:
    t = begin("lt-same-read", "identical", "library", "late", "the same copy looked up, behind a request id", 18)
    for _ in range(13):
        t.call("copy", {"id": 5}, {"shelf": "c1", "on_loan": True, "request_id": t.hex(12)}, loop=True)
    yield t.cut(3, 10)


def lt_same_exec() -> Iterator[Tale]:
    t = begin("lt-same-exec", "identical", "ops", "late", "the same look over ssh, with sentences between", 25)
    for n in range(10):
        t.call("ssh", {"host": "h3", "command": "systemctl status web"}, "web: failed (exit 1)", loop=True)
        t.say(f"Torno a mirar l'estat, {n + 1}.")
    yield t.cut(3, 8)


def lt_no_slot() -> Iterator[Tale]:
    t = begin(
        "lt-no-slot", "empty-search", "clinic", "late", "one day asked for in other words", 15, buscar=tool("search")
    )
    for words in (
        "cita dental 4 mayo",
        "dentista 4 mayo",
        "hueco dentista mayo 4",
        "odontólogo 4 mayo",
        "revisión dental 4 mayo",
        "limpieza dental 4 mayo",
        "dental mayo",
        "dentista mayo",
    ):
        t.call("buscar", {"texto": words}, {"mensaje": "No se encontraron citas.", "resultados": []}, loop=True)
        if len(t.loop) % 3 == 0:
            t.call("paciente", {"id": 1000}, {"nombre": "P0", "alergias": ["polen"]})
    yield t.cut(4, 8)


def lt_symbol() -> Iterator[Tale]:
    t = begin("lt-symbol", "empty-search", "code", "late", "spellings of one symbol, none there", 20)
    for pattern in (
        "load_config",
        "loadConfig",
        "LoadConfig",
        "load-config",
        "load config",
        "def load_config",
        "loadconfig",
        "LOAD_CONFIG",
    ):
        t.call("grep", {"pattern": pattern}, "no matches", loop=True)
    yield t.cut(4, 8)


def lt_bad_ref() -> Iterator[Tale]:
    t = begin("lt-bad-ref", "error-repeat", "clinic", "late", "the same missing field, other patients", 14)
    for n in range(9):
        t.call(
            "cita",
            {"paciente": 1000 + n, "hora": "10:30"},
            {"error": "falta el campo 'seguro'", "traza": t.hex(12)},
            error=True,
            loop=True,
        )
    yield t.cut(4, 8)


def lt_no_route() -> Iterator[Tale]:
    t = begin("lt-no-route", "error-repeat", "ops", "late", "the host cannot be reached by any command", 22)
    for c in ("uptime", "df -h", "ls /var", "cat /etc/hosts", "ps aux", "free -m", "dmesg", "id", "date"):
        t.call(
            "ssh",
            {"host": "h99", "command": c},
            "ssh: connect to host h99 port 22: No route to host",
            error=True,
            loop=True,
        )
    yield t.cut(4, 9)


def lt_count_stuck() -> Iterator[Tale]:
    t = begin("lt-count-stuck", "target", "warehouse", "late", "one bin whose count does not take", 20)
    for n in range(9):
        t.call("count", {"bin": "Z-9", "qty": 10 + n}, {"bin": "Z-9", "stored": 0}, False, loop=True)
        if n % 2:
            t.call("bin", {"bin": "Z-9"}, {"sku": "S1", "qty": 0})
    yield t.cut(3, 7, ("no-progress",))


def lt_undo() -> Iterator[Tale]:
    t = begin("lt-undo", "alternating", "code", "late", "a line put in and taken out, the test red both times", 16)
    for n in range(8):
        old, new = (("a", "b"), ("b", "a"))[n % 2]
        t.call("edit", {"path": "src/x.py", "old": old, "new": new}, {"ok": True, "rev": 100 + n}, True, loop=True)
        t.call("test", {}, "1 failed: test_x", error=True, loop=True)
    yield t.cut(8, 16, ("cycle-n", "no-progress", "identical"))


def lt_two_copies() -> Iterator[Tale]:
    t = begin("lt-two-copies", "alternating", "library", "late", "two copies compared for ever", 14)
    for n in range(14):
        t.call("copy", {"id": (4, 9)[n % 2]}, {"shelf": ("d4", "d9")[n % 2], "on_loan": False}, loop=True)
        if n % 3 == 2:
            t.say("Let me compare them once more.")
    yield t.cut(4, 10)


def lt_ringeach() -> Iterator[Tale]:
    for size, trade in ((3, "ops"), (5, "code"), (7, "library"), (8, "warehouse")):
        extra = {f"step{k}": tool("read" if k % 2 else "exec", "x") for k in range(size)}
        t = begin(f"lt-ring{size}", "cycle-n", trade, "late", f"a ring of {size} after good work", 15, **extra)
        for lap in range(6):
            for k in range(size):
                t.call(
                    f"step{k}",
                    {"x": size},
                    {"says": f"see step {(k + 1) % size}", "at": t.stamp(), "lap_id": "r1"},
                    loop=True,
                )
            if lap % 2:
                t.say(f"Another look at the steps ({lap}).")
        yield t.cut(2 * size if size < 5 else size + 5, 5 * size, ("no-progress", "identical"))


def lt_swept_again() -> Iterator[Tale]:
    t = begin("lt-swept-again", "no-progress", "code", "late", "a long file read a second time, shifted", 10)
    for n in range(9):
        t.call("read", {"path": "src/huge.py", "offset": 200 * n, "limit": 200}, f"part {n}")
    for n in range(9):
        t.call("read", {"path": "src/huge.py", "offset": 200 * n + 60, "limit": 200}, f"part {n} and on", loop=True)
    yield t.cut(4, 9)


def lt_dead_job() -> Iterator[Tale]:
    t = begin(
        "lt-dead-job",
        "identical",
        "ops",
        "late",
        "a job that hangs far beyond its time",
        12,
        job=tool("poll", "id", poll_budget_s=600),
    )
    t.clock = 0
    for n in range(40):
        t.call(
            "job",
            {"id": 8},
            {"state": "running", "progress": 3, "elapsed_s": 45 * n, "heartbeat": t.stamp()},
            loop=True,
            took=44,
        )
    yield t.cut(14, 33, ("no-progress",))


LONG: tuple[Telling, ...] = (
    ok_l_each,
    ok_l_deploys,
    ok_l_translate,
    ok_l_flaky,
    ok_l_questions,
    ok_l_empty_hunts,
    lt_same_alert,
    lt_same_read,
    lt_same_exec,
    lt_no_slot,
    lt_symbol,
    lt_bad_ref,
    lt_no_route,
    lt_count_stuck,
    lt_undo,
    lt_two_copies,
    lt_ringeach,
    lt_swept_again,
    lt_dead_job,
)
