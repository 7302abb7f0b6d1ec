"""Short histories that get nowhere: known ground again, empty searches, one error whatever is tried."""

from __future__ import annotations

from collections.abc import Iterator

from capataz.events.facts import JSON
from tests.guards.made.making import Says, Tale, Telling, Tool, tool

KEYS = (
    "contract Serra",
    "Serra contract",
    "agreement Serra",
    "Serra rental agreement",
    "lease Serra",
    "tenancy Serra",
    "Serra deed",
)


def hunt(name: str, why: str, field: str, words: tuple[str, ...], empty: Says) -> Tale:
    t = Tale(name, "empty-search", why, {"search": tool("search"), "read": tool("read", "id")})
    for n, words_ in enumerate(words):
        found = empty(n, t) if callable(empty) else empty
        t.call("search", {field: words_}, found, loop=True)
    return t.cut(3, 8)


def wall(
    name: str,
    why: str,
    tools: dict[str, Tool],
    calls: list[tuple[str, dict[str, JSON]]],
    says: Says,
    first: int,
    last: int,
) -> Tale:
    t = Tale(name, "error-repeat", why, tools)
    for n, (called, args) in enumerate(calls):
        t.call(called, args, says(n, t) if callable(says) else says, error=True, loop=True)
    return t.cut(first, last)


def np_sweep_lines() -> Iterator[Tale]:
    t = Tale(
        "np-sweep-lines", "no-progress", "a second sweep over the same lines, shifted", {"view": tool("read", "file")}
    )
    for start in range(1, 600, 60):
        t.call("view", {"file": "big.log", "start_line": start, "end_line": start + 59}, f"lines from {start}")
    for start in range(21, 600, 60):
        t.call(
            "view", {"file": "big.log", "start_line": start, "end_line": start + 59}, f"lines from {start}", loop=True
        )
    yield t.cut(3, 10)


def np_sweep_half() -> Iterator[Tale]:
    t = Tale("np-sweep-half", "no-progress", "the same pages in windows half as wide", {"page": tool("read", "doc")})
    for n in range(10):
        t.call("page", {"doc": "D", "offset": 100 * n, "limit": 100}, f"rows {100 * n}..{100 * n + 99}")
    for n in range(18):
        t.call("page", {"doc": "D", "offset": 50 * n + 3, "limit": 50}, f"rows {50 * n + 3}..", loop=True)
    yield t.cut(3, 12)


def np_notes() -> Iterator[Tale]:
    t = Tale("np-notes", "no-progress", "one fact, noted in ever other words", {"note": tool("write", "client")})
    words = (
        "owes 310 EUR since 14 March",
        "has owed 310 EUR since 14 March",
        "since 14 March owes 310 EUR",
        "still owes 310 EUR since 14 March",
        "owes us 310 EUR since 14 March",
        "owes 310 EUR, since 14 March",
        "owes, since 14 March, 310 EUR",
    )
    for words_ in words:
        t.call(
            "note", {"client": "Pons", "text": f"Client {words_}"}, {"saved": True, "note_id": t.hex()}, True, loop=True
        )
    yield t.cut(3, 7, ("identical", "target"))


def np_plan() -> Iterator[Tale]:
    t = Tale("np-plan", "no-progress", "the plan is written anew and nothing is done", {"plan": tool("plan")})
    for n in range(10):
        steps: list[JSON] = [{"step": s, "status": "pending"} for s in (f"Collect data ({n})", f"Write report, v{n}")]
        t.call("plan", {"steps": steps}, {"ok": True}, loop=True)
    yield t.cut(3, 10, ("target", "identical"))


def np_three_looks() -> Iterator[Tale]:
    t = Tale(
        "np-three-looks",
        "no-progress",
        "three things looked at in any order, none of them moves",
        {n: tool("read") for n in ("mail", "tasks", "agenda")},
    )
    order = (
        "mail",
        "tasks",
        "agenda",
        "tasks",
        "mail",
        "agenda",
        "agenda",
        "mail",
        "tasks",
        "mail",
        "agenda",
        "tasks",
        "mail",
        "tasks",
    )
    shown: dict[str, JSON] = {"mail": {"unread": 0}, "tasks": ["write report"], "agenda": "free until noon"}
    for name in order:
        t.call(name, {}, shown[name], loop=True)
    yield t.cut(6, 14, ("cycle-n", "identical", "alternating"))


def np_sleep_look() -> Iterator[Tale]:
    t = Tale(
        "np-sleep-look",
        "no-progress",
        "a wait and a look, and the log stays as it is",
        {"sleep": tool("exec"), "tail": tool("read", "file")},
    )
    for n in range(40):
        t.call("sleep", {"seconds": 20 + n % 3}, "")
        t.call("tail", {"file": "train.log"}, "step 0: loading", loop=True)
    yield t.cut(12, 40, ("identical", "alternating"))


def np_grep() -> Iterator[Tale]:
    t = Tale(
        "np-grep",
        "no-progress",
        "the pattern is reshuffled, the lines found are the same",
        {"grep": tool("search", "path")},
    )
    for pattern in (
        "def load",
        "def +load",
        "load\\(",
        "def load\\(",
        "load(",
        "def\\s+load",
        "load.*:",
        "def l",
        "def lo",
        "d.f load",
    ):
        t.call(
            "grep",
            {"path": "src", "pattern": pattern},
            "src/io.py:14:def load(path):\nsrc/io.py:90:def load_all(paths):",
            loop=True,
        )
    yield t.cut(4, 10, ("target", "identical"))


def np_growing() -> Iterator[Tale]:
    t = Tale("np-growing", "no-progress", "the command grows by a copy of itself", {"bash": tool("exec")})
    for n in range(1, 12):
        t.call("bash", {"command": " && ".join(["mkdir -p out"] * n)}, "", False, loop=True)
    yield t.cut(3, 10, ("identical",))


def np_poll_clock() -> Iterator[Tale]:
    t = Tale(
        "np-poll-clock",
        "no-progress",
        "a poll far beyond its time, and only clocks move",
        {"backup_state": tool("poll", "id", poll_budget_s=900)},
    )
    t.clock = 0
    for n in range(60):
        t.call(
            "backup_state",
            {"id": 3},
            {"phase": "copying", "files": 12, "elapsed": 60 * n, "now": t.stamp()},
            loop=True,
            took=58,
        )
    yield t.cut(17, 40, ("identical",))


def es_fr() -> Iterator[Tale]:
    yield hunt(
        "es-fr",
        "rien, en prose",
        "q",
        ("lampe bleue", "luminaire bleu", "éclairage bleu", "lampe azur", "lampe", "abat-jour bleu", "led bleue"),
        "Aucun document ne correspond à votre recherche.",
    )


def es_deep() -> Iterator[Tale]:
    yield hunt(
        "es-deep",
        "an empty list deep inside, with a clock",
        "query",
        KEYS,
        lambda n, t: {"data": {"hits": {"total": 0, "items": []}}, "took_ms": 7 + n, "request_id": t.hex()},
    )


def es_json_text() -> Iterator[Tale]:
    yield hunt("es-json-text", "an empty list as a text", "query", KEYS, '{"results": [], "count": 0}')


def es_pt() -> Iterator[Tale]:
    yield hunt(
        "es-pt",
        "nada, em português",
        "q",
        ("fatura 88", "nota 88", "recibo 88", "boleto 88", "conta 88", "fatura de março", "fatura março"),
        "Nenhum resultado encontrado.",
    )


def es_ja() -> Iterator[Tale]:
    yield hunt(
        "es-ja",
        "nothing, in Japanese",
        "q",
        ("契約", "契約書", "賃貸契約", "契約 田中", "田中 契約書", "賃貸", "借家"),
        "該当する結果はありません。",
    )


def es_rows() -> Iterator[Tale]:
    yield hunt(
        "es-rows", "a table with a head and no rows", "q", KEYS, {"columns": ["id", "name"], "rows": [], "row_count": 0}
    )


def es_null() -> Iterator[Tale]:
    yield hunt("es-null", "null again and again", "q", KEYS, None)


def es_sv() -> Iterator[Tale]:
    yield hunt(
        "es-sv",
        "inget, på svenska",
        "q",
        (
            "faktura lind",
            "lind faktura",
            "räkning lind",
            "lind räkningar",
            "kvitto lind",
            "lind kvitton",
            "fakturor lind",
        ),
        "Inga träffar.",
    )


def es_between() -> Iterator[Tale]:
    t = Tale(
        "es-between",
        "empty-search",
        "unrelated looks between the searches",
        {"find": tool("search"), "read": tool("read", "id")},
    )
    for n, words in enumerate(KEYS):
        t.call("find", {"text": words}, [], loop=True)
        t.call("read", {"id": n}, f"page {n}: {t.hex(20)} of the handbook")
    yield t.cut(3, 7)


def es_siblings() -> Iterator[Tale]:
    t = Tale(
        "es-siblings",
        "empty-search",
        "the hunt goes through three places",
        {n: tool("search") for n in ("mails", "files", "chats")},
    )
    nothing: list[JSON] = [{"messages": []}, {"files": [], "next": None}, "No matches found"]
    for n in range(9):
        t.call(("mails", "files", "chats")[n % 3], {"q": KEYS[n % 7]}, nothing[n % 3], loop=True)
    yield t.cut(4, 8)


def er_401() -> Iterator[Tale]:
    yield wall(
        "er-401",
        "the key is wrong whatever is asked",
        {"api": tool("read", "path")},
        [("api", {"path": f"/v1/{p}"}) for p in "abcdefghi"],
        lambda n, t: {"status": 401, "message": "invalid api key", "request_id": t.hex()},
        4,
        8,
    )


def er_camp() -> Iterator[Tale]:
    yield wall(
        "er-camp",
        "falta sempre el mateix camp",
        {"alta": tool("write", "nom")},
        [
            ("alta", {"nom": n, "ciutat": "Vic"})
            for n in ("Anna", "Anna M.", "A. Mas", "Anna Mas", "Mas, Anna", "anna", "ANNA")
        ],
        "Error 422: el camp 'nif' és obligatori",
        4,
        7,
    )


def er_timeouts() -> Iterator[Tale]:
    yield wall(
        "er-timeouts",
        "every command times out",
        {"bash": tool("exec")},
        [("bash", {"command": c}) for c in ("ls", "pwd", "df -h", "uptime", "whoami", "date", "free", "env", "id")],
        lambda n, t: f"command timed out after 30 seconds (pid {900 + n})",
        4,
        9,
    )


def er_invented() -> Iterator[Tale]:
    yield wall(
        "er-invented",
        "tools that do not exist",
        {"real": tool("read")},
        [(f"browser_{p}", {"x": 1}) for p in ("open", "click", "goto", "tab", "type", "run", "new", "go")],
        lambda n, t: "Unknown tool. Available tools: real",
        3,
        8,
    )


def er_503() -> Iterator[Tale]:
    yield wall(
        "er-503",
        "a service that stays away, beyond the retries",
        {"post": tool("exec", "url")},
        [("post", {"url": "/pay"})] * 9,
        lambda n, t: {"status": 503, "error": "service unavailable", "trace_id": t.hex(16)},
        4,
        8,
    )


def er_429() -> Iterator[Tale]:
    yield wall(
        "er-429",
        "rate limits far beyond the retries",
        {"llm": tool("exec")},
        [("llm", {"batch": 4})] * 12,
        lambda n, t: {"status": 429, "retry_after": 2 + n, "error": "rate limit exceeded"},
        4,
        10,
    )


def er_enoent() -> Iterator[Tale]:
    yield wall(
        "er-enoent",
        "one file that is not there, opened again and again",
        {"open": tool("read", "path")},
        [("open", {"path": "/srv/a.csv"})] * 8,
        "ENOENT: no such file or directory, open '/srv/a.csv'",
        3,
        7,
    )


def er_disk() -> Iterator[Tale]:
    yield wall(
        "er-disk",
        "kein Platz, wohin auch immer geschrieben wird",
        {"schreibe": tool("write", "pfad")},
        [("schreibe", {"pfad": f"out/{n}.csv", "text": "x" * (40 + n)}) for n in range(9)],
        "OSError: [Errno 28] Kein Speicherplatz auf dem Gerät",
        4,
        8,
    )


def er_locked() -> Iterator[Tale]:
    yield wall(
        "er-locked",
        "the table is locked whatever the statement",
        {"sql": tool("read")},
        [
            ("sql", {"q": f"select {c} from orders where id > {n}"})
            for n, c in enumerate(("id", "sum(x)", "name", "max(y)", "z", "count(*)", "k", "m"))
        ],
        lambda n, t: f"ERROR 55P03: could not obtain lock on relation orders (session {t.hex(6)})",
        4,
        8,
    )


VAIN: tuple[Telling, ...] = (
    np_sweep_lines,
    np_sweep_half,
    np_notes,
    np_plan,
    np_three_looks,
    np_sleep_look,
    np_grep,
    np_growing,
    np_poll_clock,
    es_fr,
    es_deep,
    es_json_text,
    es_pt,
    es_ja,
    es_rows,
    es_null,
    es_sv,
    es_between,
    es_siblings,
    er_401,
    er_camp,
    er_timeouts,
    er_invented,
    er_503,
    er_429,
    er_enoent,
    er_disk,
    er_locked,
)
