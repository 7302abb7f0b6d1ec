"""One story for each way of looping, and one for each healthy habit that looks like it. None is taken from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import pytest

from capataz.lens.cases.read import case_of
from capataz.lens.score import score_case

CHANGED, SAME, FAILED = {"state_changed": True}, {"state_changed": False}, {"is_error": True, "state_changed": False}
Told = tuple[Any, ...]
_chance = Random(11)


def drawn(digits: int) -> str:
    return "".join(_chance.choice("0123456789abcdef") for _ in range(digits))


def tool(kind: str, target: str | None = None) -> dict[str, object]:
    return {"class": kind, "target_arg": target}


def story(kind: str, tools: Mapping[str, object], told: Iterable[Told]) -> dict[str, Any]:
    """A case from short tuples: (tool, arguments, result[, more]) is a call, (role, text) something said."""
    history: list[dict[str, Any]] = []
    part: Told
    for turn, part in enumerate(told):
        if len(part) == 2:
            said = {"turn": turn, "text": part[1]}
            history.append(said if part[0] == "model" else {**said, "role": part[0]})
        else:
            more = part[3] if len(part) > 3 else {}
            history.append({"turn": turn, "tool": part[0], "args": part[1], "result": part[2], **more})
    anywhere = {"signal": None if kind == "healthy" else kind, "not_before": None, "at_latest": None}
    return {"id": "story", "kind": kind, "tools": tools, "history": history, "expected": anywhere}


def every(*parts: Told, laps: int) -> list[Told]:
    return [part for _ in range(laps) for part in parts]


def woven(first: Iterable[Told], second: Iterable[Told]) -> list[Told]:
    return [part for pair in zip(first, second, strict=True) for part in pair]


HEALTHY: dict[str, tuple[Mapping[str, object], list[Told]]] = {
    "a key that moves the focus": (
        {"press": tool("ui")},
        [("press", {"key": "Tab"}, {"focus": f"field{i}"}, CHANGED) for i in range(9)],
    ),
    "three times the same purchase": (
        {"buy": tool("write", "sku")},
        [("buy", {"sku": "T-1"}, {"order": drawn(8)}, CHANGED) for _ in range(3)],
    ),
    "a queue that names jobs by drawn ids": (
        {"pop": tool("exec", "queue")},
        [("pop", {"queue": "mail"}, {"job": drawn(8)}, CHANGED) for _ in range(8)],
    ),
    "rows without text": ({"next_row": tool("read")}, [("next_row", {}, {"row": i, "text": ""}) for i in range(9)]),
    "a cursor on the server": ({"fetch": tool("read")}, [("fetch", {}, {"rows": [i, i + 1]}) for i in range(12)]),
    "slot after slot": (
        {"book": tool("write", "room")},
        [("book", {"room": "A"}, {"slot": f"{9 + i}:00"}, CHANGED) for i in range(6)],
    ),
    "a poll with progress in words": (
        {"status": tool("read", "job")},
        [("status", {"job": "a"}, f"running, {i * 7} of 90 files done") for i in range(12)],
    ),
    "a declared poll, still within its time": (
        {"status": tool("poll", "job")},
        [("status", {"job": "a"}, {"state": "queued"}) for _ in range(11)],
    ),
    "waiting between looks": (
        {"wait": tool("exec"), "output": tool("exec", "h")},
        [
            *every(("output", {"h": 1}, "compiling"), ("wait", {"seconds": 30}, "done"), laps=8),
            ("output", {"h": 1}, "ok"),
        ],
    ),
    "the same red test after every edit": (
        {"edit": tool("write", "path"), "test": tool("exec")},
        [
            part
            for i in range(7)
            for part in (
                ("edit", {"path": "a.py", "old": f"a{i}", "new": f"b{i}"}, {"ok": True}, CHANGED),
                ("test", {"c": "pytest"}, "1 failed", FAILED),
            )
        ],
    ),
    "a file rewritten while it grows": (
        {"write_file": tool("write", "path")},
        [("write_file", {"path": "a.py", "content": "x = 1\n" * i}, "ok") for i in range(1, 8)],
    ),
    "comments of one thread": (
        {"comment": tool("message", "issue")},
        [
            ("comment", {"issue": 7, "text": text}, {"ok": True, "id": drawn(8)}, CHANGED)
            for text in (
                "14 files to review",
                "1 of 14 is fine",
                "2 of 14 is fine",
                "3 of 14 is fine",
                "14 of 14: done",
            )
        ],
    ),
    "dead links, each another": (
        {"check": tool("read", "url")},
        [("check", {"url": f"https://x.example/{i}"}, "404 Not Found", FAILED) for i in range(5)],
    ),
    "addresses that are not known": (
        {"exists": tool("search", "email")},
        [
            ("exists", {"email": f"{n}@x.example"}, {"found": False})
            for n in ("ana", "joan", "pere", "laia", "nil", "pau")
        ],
    ),
    "a calendar searched day by day": (
        {"find": tool("search")},
        [("find", {"q": "invoice", "day": f"2025-01-{i:02d}"}, []) for i in range(1, 20)],
    ),
    "the same answer for every host": (
        {"ping": tool("read", "host")},
        [("ping", {"host": f"h{i}"}, "ok") for i in range(20)],
    ),
    "a person who asks again": (
        {"get": tool("read", "id")},
        every(("user", "and now?"), ("get", {"id": 1}, {"state": "open"}), laps=6),
    ),
    "retries within the fault table": (
        {"post": tool("exec")},
        [*[("post", {"u": "/p"}, {"status": 429, "retry_after": 2**i}, FAILED) for i in range(5)], ("post", {}, "ok")],
    ),
    "a canary in steps": (
        {"set": tool("write", "svc"), "errors": tool("read", "svc")},
        [
            part
            for percent in (1, 5, 10, 25, 50, 100)
            for part in (
                ("set", {"svc": "w", "pct": percent}, {"ok": True}, CHANGED),
                ("errors", {"svc": "w"}, {"rate": 0.0}),
            )
        ],
    ),
    "a survey answered the same on every page": (
        {"click": tool("ui", "s")},
        [
            part
            for i in range(20)
            for part in (
                ("click", {"s": "#same"}, "ok", CHANGED),
                ("click", {"s": "#next"}, {"page": i}, CHANGED),
            )
        ],
    ),
    "an edit taken back once": (
        {"edit": tool("write", "path"), "test": tool("exec")},
        [
            ("edit", {"path": "a", "old": "x", "new": "y"}, "ok", CHANGED),
            ("test", {}, "2 failed", FAILED),
            ("edit", {"path": "a", "old": "y", "new": "x"}, "ok", CHANGED),
            ("test", {}, "1 failed", FAILED),
            ("edit", {"path": "b", "old": "x", "new": "z"}, "ok", CHANGED),
            ("test", {}, "passed"),
        ],
    ),
    "a measurement whose repetition is the task": (
        {"sample": tool("sample")},
        [("sample", {"url": "/"}, {"latency_ms": 40}) for _ in range(20)],
    ),
    "re-reading after the context was compressed": (
        {"read": tool("read", "path")},
        [
            *[("read", {"path": f"f{i}"}, f"text {i}") for i in range(6)],
            ("runtime", "[context was compacted]"),
            *[("read", {"path": f"f{i}"}, f"text {i}") for i in range(6)],
        ],
    ),
}

LOOPS: dict[str, tuple[str, Mapping[str, object], list[Told]]] = {
    "one read behind chatter": (
        "identical",
        {"r": tool("read", "p")},
        [part for i in range(8) for part in (("model", f"Once more, {i}."), ("r", {"p": "a"}, "text"))],
    ),
    "one message with a nonce": (
        "identical",
        {"send": tool("message", "to")},
        [("send", {"to": "a", "nonce": drawn(8)}, {"id": drawn(12)}, CHANGED) for _ in range(6)],
    ),
    "workers spawned twice and thrice": (
        "identical",
        {"spawn": tool("exec")},
        [("spawn", {"task": "x"}, {"agent_id": drawn(8)}, CHANGED) for _ in range(6)],
    ),
    "one picture, encoded anew": (
        "identical",
        {"picture": tool("read", "p")},
        [("picture", {"p": "a"}, {"caption": "x", "data": "aB3" + drawn(60).upper() + "xY"}) for _ in range(7)],
    ),
    "two records to and fro": (
        "alternating",
        {"get": tool("read", "id")},
        every(("get", {"id": 1}, "north"), ("get", {"id": 2}, "south"), laps=5),
    ),
    "a change and its undo, with a revision that counts up": (
        "alternating",
        {"rename": tool("write", "file")},
        [("rename", {"file": "x", "to": "aA"[i % 2]}, {"ok": True, "rev": i}, CHANGED) for i in range(10)],
    ),
    "a ring of six": (
        "cycle-n",
        {name: tool("read") for name in "abcdef"},
        every(*((name, {}, {"v": name}) for name in "abcdef"), laps=4),
    ),
    "a ring of four behind clocks and ids": (
        "cycle-n",
        {name: tool("read") for name in "abcd"},
        [(name, {}, {"v": name, "ts": i, "request_id": drawn(12)}) for i in range(4) for name in "abcd"],
    ),
    "a ring with one step that varies": (
        "no-progress",
        {name: tool("read") for name in "abcdefgh"},
        [(name, {}, {"v": name if name != "c" else i}) for i in range(4) for name in "abcdefgh"],
    ),
    "writes that do not land": (
        "target",
        {"set": tool("write", "sku")},
        [("set", {"sku": "s", "price": i}, {"ok": False}, SAME) for i in range(7)],
    ),
    "the same fact noted in other words": (
        "no-progress",
        {"note": tool("write", "topic")},
        [
            ("note", {"topic": "t1", "text": text}, {"ok": True, "note_id": drawn(8)}, CHANGED)
            for text in (
                "invoice 77 is 12.50 short",
                "inv 77 short by 12.50",
                "invoice 77: 12.50 short",
                "short by 12.50: invoice 77",
                "invoice 77 short 12.50",
            )
        ],
    ),
    "a plan that is only reworded": (
        "no-progress",
        {"todo": tool("plan")},
        [
            ("todo", {"items": [{"t": text}]}, {"ok": True}, CHANGED)
            for text in ("look", "see", "check", "study", "scan", "eye")
        ],
    ),
    "questions that all find the one article": (
        "no-progress",
        {"kb": tool("search")},
        [("kb", {"q": q}, [{"id": 1, "title": "Reset a password"}]) for q in ("a", "b", "c", "d", "e", "f", "g")],
    ),
    "a second sweep that wraps": (
        "no-progress",
        {"read": tool("read", "path")},
        [("read", {"path": "a", "offset": i % 6 * 100, "limit": 100}, f"part {i % 6}") for i in range(20)],
    ),
    "a second sweep that is shifted": (
        "no-progress",
        {"read": tool("read", "path")},
        [
            *[("read", {"path": "a", "start": i * 100, "end": i * 100 + 100}, f"part {i}") for i in range(9)],
            *[("read", {"path": "a", "start": i * 100 + 30, "end": i * 100 + 130}, f"part {i}.") for i in range(8)],
        ],
    ),
    "a test without an edit, with looks between": (
        "error-repeat",
        {"test": tool("exec"), "read": tool("read", "p")},
        woven(
            [("test", {}, f"FAIL 3 in {i}.2s", FAILED) for i in range(7)],
            [("read", {"p": f"f{i}"}, f"text {i}") for i in range(7)],
        ),
    ),
    "one cause under many commands": (
        "error-repeat",
        {"ssh": tool("exec", "host")},
        [
            ("ssh", {"host": "db", "cmd": f"ssh -o A={i}"}, f"no route to host (try {drawn(10)})", FAILED)
            for i in range(7)
        ],
    ),
    "tools that do not exist": (
        "error-repeat",
        {"write": tool("write")},
        [(name, {"n": i}, f"no tool {name}", FAILED) for i, name in enumerate(("wri", "ed", "re", "ba", "wri", "ed"))],
    ),
    "nothing found, in Spanish": (
        "empty-search",
        {"buscar": tool("search")},
        [
            ("buscar", {"q": q}, "No se encontraron resultados.")
            for q in ("factura 88", "fra 88", "recibo", "cobro", "88")
        ],
    ),
    "nothing found, with other calls between": (
        "empty-search",
        {"find": tool("search"), "list": tool("read")},
        [
            part
            for i, q in enumerate(("alpha", "alpha beta", "beta", "gamma", "delta"))
            for part in (("find", {"q": q}, {"hits": {"total": 0, "hits": []}}), ("list", {"p": i}, f"x{i}"))
        ],
    ),
    "a poll behind a clock, in words": (
        "identical",
        {"job": tool("poll", "id")},
        [("job", {"id": "b"}, f"still running after {30 * i} s") for i in range(24)],
    ),
    "a dead look between waits of any length": (
        "no-progress",
        {"sleep": tool("exec"), "output": tool("read", "h")},
        [part for i in range(18) for part in (("output", {"h": 1}, "10%"), ("sleep", {"s": 5 + i % 3}, "done"))],
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_habit_is_left_alone(name: str) -> None:
    tools, told = HEALTHY[name]
    scored = score_case(case_of(story("healthy", tools, told)))
    assert scored.verdict == "spared", f"cut at {scored.fired_at} as {scored.signal}"


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_told_and_then_cut(name: str) -> None:
    kind, tools, told = LOOPS[name]
    scored = score_case(case_of(story(kind, tools, told)))
    assert scored.verdict == "caught"
    assert scored.signal == kind
    assert scored.nudged_at is not None
    assert scored.fired_at is not None
    assert scored.nudged_at < scored.fired_at


def test_copies_within_one_reply_are_cut_without_a_second_turn() -> None:
    batch = story("identical", {"make": tool("exec")}, [("make", {}, "ok", SAME)] * 8)
    for item in batch["history"]:
        item["turn"] = 1
    scored = score_case(case_of(batch))
    assert (scored.verdict, scored.fired_at) == ("caught", 6)


def test_many_different_reads_of_one_reply_are_no_loop() -> None:
    batch = story("healthy", {"read": tool("read", "p")}, [("read", {"p": f"f{i}"}, "same text") for i in range(18)])
    for item in batch["history"]:
        item["turn"] = 1
    assert score_case(case_of(batch)).verdict == "spared"


@pytest.mark.parametrize(
    "answer",
    [
        {"success": False, "message": "locked"},
        {"accepted": False},
        {"error": "locked"},
        '{"ok": false, "why": "locked"}',
    ],
)
@pytest.mark.parametrize("many", [False, True])
def test_a_refusal_told_as_an_answer_changed_nothing_although_the_tool_does_not_say(answer: object, many: bool) -> None:
    told = [("price", {"sku": f"A{n}" if many else "A", "price": 9 - n}, answer) for n in range(9)]
    case = story("error-repeat" if many else "target", {"price": tool("write", "sku")}, told)
    assert score_case(case_of(case)).verdict == "caught"
    taken = [(name, arguments, {"success": True, "error": None}) for name, arguments, _ in told]
    assert score_case(case_of(story("healthy", case["tools"], taken))).verdict == "spared"
