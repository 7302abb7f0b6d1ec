"""Checks look at the world, and whatever goes wrong while looking means "not passed", with the reason."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from capataz.checks import (
    Check,
    CheckContext,
    ConfirmedEffect,
    as_check,
    command_succeeds,
    effect_happened,
    evaluate,
    file_exists,
    http_answers,
    sql_returns_rows,
)
from capataz.mistakes import Misuse
from capataz.tools.define import tool
from capataz.tools.usercode import Threads

CONTEXT = CheckContext(
    run="run-1",
    answer="refunded",
    effects=(ConfirmedEffect("refund", "81", {"order_id": "81"}), ConfirmedEffect("tell", "5", {"order": 5})),
    started_at=1_000.0,
)


# ── the user's own ───────────────────────────────────────────────────────────────────────────────────────


def refund_is_there() -> bool:
    return True


def knows_the_run(context: CheckContext) -> tuple[bool, str]:
    return context.run == "run-2", f"this is {context.run}"


async def later() -> list[int]:
    await asyncio.sleep(0)
    return [1]


async def later_knowing(context: CheckContext) -> bool:
    return "refunded" in context.answer


class Rule:
    def __call__(self, context: CheckContext) -> tuple[bool, str]:
        return True, ""


@pytest.mark.parametrize(
    ("check", "passed", "reason"),
    [
        (refund_is_there, True, "refund_is_there holds"),
        (knows_the_run, False, "this is run-1"),
        (later, True, "later found something"),
        (later_knowing, True, "later_knowing holds"),
        (Rule(), True, "Rule holds"),
        (Check("named", lambda context: False), False, "named does not hold yet"),
        (Check("none", lambda context: None), False, "none answered None: it does not know"),
        (Check("text", lambda context: "sent"), False, "text answered with a text: let it return True, False or None"),
        (Check("boom", lambda context: 1 / 0), False, "boom could not be checked: ZeroDivisionError: division by zero"),
        (Check("exit", lambda context: sys.exit(1)), False, "exit could not be checked: SystemExit: 1"),
    ],
)  # fmt: skip
async def test_a_check_is_any_function(check: Any, passed: bool, reason: str, threads: Threads) -> None:
    assert await evaluate(check, CONTEXT, threads=threads) == (passed, reason)
    assert await evaluate(check, CONTEXT) == (passed, reason)


async def test_a_check_that_hangs_has_not_passed() -> None:
    over = threading.Event()

    async def asleep(context: CheckContext) -> bool:
        await asyncio.sleep(10)
        return True

    for run in (lambda context: over.wait(10), asleep):
        check = Check("slow", run, timeout=0.02)
        assert await evaluate(check, CONTEXT) == (False, "slow could not be checked: no answer within 0.02 s")
    over.set()


def test_names_come_from_the_function() -> None:
    assert as_check(refund_is_there).name == "refund_is_there"
    assert as_check(Rule()).name == "Rule"
    assert as_check(lambda: True).name.startswith("lambda of line ")


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda a, b: True, "may take nothing or one CheckContext, not a, b"),
        (lambda *, context: True, "may take nothing or one CheckContext, not context"),
        ("refund done", "is not a check: give a function"),
        (Check("x", lambda context: True, timeout=0), "timeout=0: give seconds above 0"),
        (max, "cannot be read|may take nothing"),
    ],
)
def test_what_is_no_check_is_refused(check: Any, words: str) -> None:
    with pytest.raises(Misuse, match=words):
        as_check(check)


# ── effects ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_effect_happened_only_when_it_is_confirmed() -> None:
    @tool(kind="write", target="order_id", confirm=lambda order_id: True)
    def refund(order_id: str) -> None: ...

    assert await evaluate(effect_happened(refund), CONTEXT) == (True, "refund is confirmed")
    assert await evaluate(effect_happened("refund", "81"), CONTEXT) == (True, "refund on 81 is confirmed")
    assert await evaluate(effect_happened("tell", 5), CONTEXT) == (True, "tell on 5 is confirmed")
    assert await evaluate(effect_happened(refund, "82"), CONTEXT) == (
        False,
        "no confirmed effect of refund on 82 in this run",
    )
    assert not (await evaluate(effect_happened(refund), CheckContext("run-1")))[0]


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_file_exists(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    assert await evaluate(file_exists(path), CONTEXT) == (False, f"there is no file {path}")
    path.write_text("")
    assert await evaluate(file_exists(path), CONTEXT) == (False, f"{path} has 0 bytes, at least 1 are expected")
    assert (await evaluate(file_exists(path, min_bytes=0), CONTEXT))[0]
    path.write_text("abc")
    assert await evaluate(file_exists(path), CONTEXT) == (True, f"{path} has 3 bytes")
    assert not (await evaluate(file_exists(tmp_path), CONTEXT))[0]


async def test_a_file_may_have_to_be_of_this_run(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text("abc")
    check = file_exists(path, newer_than_start=True)
    os.utime(path, (999, 999))
    assert await evaluate(check, CONTEXT) == (False, f"{path} was not written in this run")
    os.utime(path, (1001, 1001))
    assert (await evaluate(check, CONTEXT))[0]
    assert not (await evaluate(check, CheckContext("run without a known start")))[0]


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def test_a_command_succeeds(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    assert (await evaluate(command_succeeds("test -f here && true", cwd=tmp_path), CONTEXT))[0]
    assert (await evaluate(command_succeeds(["test", "-f", "here"], cwd=tmp_path), CONTEXT))[0]
    passed, reason = await evaluate(command_succeeds("echo two tests failed; exit 3"), CONTEXT)
    assert (passed, reason) == (False, "`echo two tests failed; exit 3` exits with 3: two tests failed")


async def test_the_reason_carries_only_the_end_of_the_output() -> None:
    passed, reason = await evaluate(command_succeeds(python("print('x' * 9000 + 'end'); raise SystemExit(1)")), CONTEXT)
    assert not passed
    assert reason.endswith("xend")
    assert len(reason) < 2_300


async def test_a_command_that_is_not_there_has_not_succeeded() -> None:
    passed, reason = await evaluate(command_succeeds(["no-such-command-here"]), CONTEXT)
    assert not passed
    assert "no-such-command-here" in reason


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def gone(pid: int) -> bool:
    for _ in range(200):
        if not alive(pid):
            return True
        await asyncio.sleep(0.005)
    return False


SPAWNING = "sleep 30 & echo $! > pid; echo started; "


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see whether a process is gone")
async def test_at_the_limit_the_whole_process_group_is_killed(tmp_path: Path) -> None:
    check = command_succeeds(SPAWNING + "wait", cwd=tmp_path, timeout=0.4)
    passed, reason = await evaluate(check, CONTEXT)
    assert not passed
    assert reason.endswith("did not end within 0.4 s: started")
    assert await gone(int((tmp_path / "pid").read_text()))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see whether a process is gone")
async def test_a_cancelled_check_leaves_no_process_behind(tmp_path: Path) -> None:
    task = asyncio.ensure_future(evaluate(command_succeeds(SPAWNING + "wait", cwd=tmp_path), CONTEXT))
    pid = tmp_path / "pid"
    for _ in range(1000):
        if pid.exists() and pid.read_text().strip():
            break
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(int(pid.read_text()))


async def test_a_grandchild_that_keeps_the_output_open_does_not_keep_us(tmp_path: Path) -> None:
    began = time.monotonic()
    passed, _ = await evaluate(command_succeeds(SPAWNING + "exit 0", cwd=tmp_path), CONTEXT)
    assert passed
    assert time.monotonic() - began < 5
    os.kill(int((tmp_path / "pid").read_text()), 9)


# ── databases ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop #1.db"
    connection = sqlite3.connect(path, timeout=1)
    connection.executescript("create table refunds (order_id text, cents int); insert into refunds values ('81', 500)")
    connection.close()
    return path


QUERY = "select 1 from refunds where order_id = ?"


async def test_a_query_returns_rows(database: Path) -> None:
    assert (await evaluate(sql_returns_rows(database, QUERY, ("81",)), CONTEXT))[0]
    assert await evaluate(sql_returns_rows(str(database), QUERY, ("82",)), CONTEXT) == (
        False,
        f"`{QUERY}` returns no row",
    )
    named = sql_returns_rows(database, "select 1 from refunds where cents > :least", {"least": 100})
    assert (await evaluate(named, CONTEXT))[0]


async def test_a_check_cannot_write_to_the_database(database: Path) -> None:
    passed, reason = await evaluate(sql_returns_rows(database, "delete from refunds returning 1"), CONTEXT)
    assert not passed
    assert "readonly" in reason
    assert (await evaluate(sql_returns_rows(database, QUERY, ("81",)), CONTEXT))[0]


async def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    assert await evaluate(sql_returns_rows(path, QUERY), CONTEXT) == (False, f"there is no database {path}")
    assert not path.exists()


async def test_any_connection_will_do_and_is_closed(database: Path) -> None:
    opened: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        opened.append(sqlite3.connect(database, timeout=1, check_same_thread=False))
        return opened[-1]

    assert (await evaluate(sql_returns_rows(connect, QUERY, ("81",)), CONTEXT))[0]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("select 1")


# ── http ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def server() -> AsyncIterator[str]:
    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="all ready")

    async def away(_: web.Request) -> web.Response:
        raise web.HTTPFound("/ready")

    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async def large(_: web.Request) -> web.Response:
        return web.Response(text="x" * 1_500_000 + "end")

    app = web.Application()
    for path, answer in (("/ready", ready), ("/away", away), ("/slow", slow), ("/large", large)):
        app.router.add_get(path, answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_a_page_answers(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for url, options, expected in (
        ("/ready", {}, (True, "/ready answers 200")),
        ("/ready", {"contains": "ready"}, (True, "/ready answers 200")),
        ("/ready?token=secret", {"contains": "done"}, (False, "/ready answers 200, but without 'done'")),
        ("/none", {}, (False, "/none answers 404, not 200")),
        ("/none", {"status": 404}, (True, "/none answers 404")),
        ("/away", {}, (False, "/away answers 302, not 200")),
        ("/slow", {"timeout": 0.05}, (False, "/slow gave no answer within 0.05 s")),
        ("/large", {"contains": "end"}, (False, "/large answers 200, but without 'end'")),
    ):
        check: Any = http_answers(server + url, **options)
        passed, reason = await evaluate(check, CONTEXT)
        assert (passed, reason.removeprefix(server)) == expected
        assert "secret" not in check.name


async def test_a_closed_door_has_not_answered() -> None:
    passed, reason = await evaluate(http_answers("http://user:pw@127.0.0.1:9/x"), CONTEXT)
    assert not passed
    assert "could not be checked" in reason
    assert "pw" not in reason


def test_an_address_must_be_whole() -> None:
    with pytest.raises(Misuse, match="give a whole address"):
        http_answers("localhost:8000/health")
