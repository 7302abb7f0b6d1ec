"""Whatever a tool does, the model gets a result within the limit, and the loop goes on."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal, Protocol

import pytest

from capataz.events.facts import Call, Kind
from capataz.faults.classify import ToolFaults
from capataz.mistakes import Misuse
from capataz.tools.call import Used, use
from capataz.tools.define import Tool, ToolContext, ToolError, tool
from capataz.tools.usercode import Raised, Returned, Threads, TimedOut, run_user_code


class Run(Protocol):
    def __call__(self, tool: Tool, arguments: str = "{}", *, seconds: float | None = None) -> Awaitable[Used]: ...


def both(function: Callable[[], Any], **options: Any) -> list[Tool]:
    """The same body as a synchronous and as an asynchronous tool."""

    async def later() -> Any:
        return function()

    return [tool(function, name="now", **options), tool(later, name="later", **options)]


class Colour(Enum):
    RED = "red"


# ── exceptions ───────────────────────────────────────────────────────────────────────────────────────────


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even this fails")


class Rigged(Exception):
    @property
    def status_code(self) -> int:
        raise RuntimeError("not even this can be read")


def raising(error: BaseException) -> Callable[[], Any]:
    def work() -> Any:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "words", "row"),
    [
        (ValueError("no such order"), "ValueError: no such order", "invalid_input"),
        (RuntimeError(), "RuntimeError", "unknown"),
        (PermissionError("not yours"), "PermissionError: not yours", "auth"),
        (ConnectionRefusedError("closed"), "ConnectionRefusedError: closed", "transient"),
        (Rude(), "Rude", "unknown"),
        (SystemExit(3), "SystemExit: 3", "unknown"),
        (ExceptionGroup("", [ValueError("a"), ExceptionGroup("", [OSError("b")])]), "ValueError: a; OSError: b", None),
        (ValueError("bad\nTraceback (most recent call last):\n  File x, line 3"), "ValueError: bad", None),
        (StopIteration("over"), None, None),
        (RuntimeError("refused: password=hunter22"), "RuntimeError: refused: password=***", "unknown"),
        (Rigged("half"), "Rigged: half", "unknown"),
    ],
)  # fmt: skip
async def test_an_exception_becomes_a_short_result(
    run: Run, error: BaseException, words: str | None, row: str | None
) -> None:
    for made in both(raising(error), kind="read"):
        used = await run(made)
        assert used.error
        assert not used.in_doubt
        assert used.fault is not None
        assert used.fault.origin == "tool"
        if words is not None:
            assert used.result == {"error": words}
        if row is not None:
            assert used.fault.row == row


async def test_a_long_message_is_shortened(run: Run) -> None:
    (made, _) = both(raising(ValueError("x" * 5000)), kind="read")
    assert len(str((await run(made)).result)) < 600


async def test_a_tool_error_speaks_to_the_model(run: Run) -> None:
    for made in both(raising(ToolError("order 81 is closed", row="contract")), kind="write"):
        used = await run(made)
        assert used.result == {"error": "order 81 is closed"}
        assert used.fault is not None
        assert (used.fault.row, used.in_doubt) == ("contract", False)
    (made, _) = both(raising(ToolError("maybe paid", in_doubt=True)), kind="write")
    assert (await run(made)).in_doubt


@pytest.mark.parametrize(
    ("kind", "error", "doubt"),
    [
        ("write", ConnectionResetError("gone"), True),
        ("write", TimeoutError("slow"), True),
        ("write", ConnectionRefusedError("closed"), False),
        ("write", ValueError("no"), False),
        ("write", sqlite3.OperationalError("database is locked"), False),
        ("write", sqlite3.OperationalError("server closed the connection unexpectedly"), True),
        ("exec", asyncio.CancelledError(), True),
        ("read", ConnectionResetError("gone"), False),
    ],
)
async def test_a_lost_connection_leaves_an_act_in_doubt(
    run: Run, kind: Kind, error: BaseException, doubt: bool
) -> None:
    for made in both(raising(error), kind=kind):
        used = await run(made)
        assert used.in_doubt is doubt
        assert used.fault is not None
        if doubt:
            assert used.fault.retries == 0


async def test_an_idempotent_act_in_doubt_may_be_retried(run: Run) -> None:
    (made, _) = both(raising(TimeoutError()), kind="write", idempotent=True)
    used = await run(made)
    assert used.in_doubt
    assert used.fault is not None
    assert used.fault.retries is None


async def test_the_user_s_own_exceptions_have_the_row_they_say(threads: Threads, context: ToolContext) -> None:
    (made, _) = both(raising(Rude()), kind="read")
    own = ToolFaults({Rude: "rate_limit"})
    used = await use(made, Call(1, 0, "c", "now", {}), context, threads=threads, faults=own)
    assert used.fault is not None
    assert used.fault.row == "rate_limit"


async def test_ctrl_c_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        await _interrupt()


async def _interrupt() -> None:
    from capataz.tools.usercode import Trap

    with Trap():
        raise KeyboardInterrupt


async def test_a_tool_that_cancels_itself_is_an_error(run: Run) -> None:
    for made in both(raising(asyncio.CancelledError()), kind="read"):
        used = await run(made)
        assert used.error
        assert "CancelledError" in str(used.result)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────


class Hang:
    """A synchronous hang that a test can end."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.calls = 0

    def __call__(self) -> str:
        """Wait."""
        self.calls += 1
        self.over.wait(10)
        return "late"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(2):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def test_a_reading_tool_that_hangs_is_a_plain_time_out(run: Run, threads: Threads) -> None:
    hang = Hang()
    used = await run(tool(hang, kind="read", timeout=0.02))
    assert used.result == {"error": "no answer within 0.02 s"}
    assert used.fault is not None
    assert (used.fault.row, used.fault.reason, used.in_doubt) == ("transient", "timeout", False)
    assert (threads.leaked, threads.free) == (1, 3)
    hang.over.set()
    await until(lambda: threads.leaked == 0)


async def test_an_acting_tool_that_hangs_leaves_its_outcome_unknown(run: Run) -> None:
    hang = Hang()
    used = await run(tool(hang, kind="message", timeout=30), seconds=0.02)
    assert used.result == {"error": "outcome unknown: no answer within 0.02 s; check before repeating"}
    assert used.in_doubt
    assert used.fault is not None
    assert (used.fault.row, used.fault.retries) == ("transient", 0)
    hang.over.set()


async def test_an_async_tool_is_cancelled_at_its_limit(run: Run, threads: Threads) -> None:
    cleaned: list[bool] = []

    @tool(kind="write", timeout=0.02)
    async def slow() -> str:
        try:
            await asyncio.sleep(10)
        finally:
            cleaned.append(True)
        return "late"

    used = await run(slow)
    assert used.in_doubt
    assert cleaned == [True]
    assert threads.leaked_tasks == 0


async def test_an_async_tool_that_ignores_being_cancelled_is_left_behind(run: Run, threads: Threads) -> None:
    over = asyncio.Event()

    @tool(kind="read", timeout=0.02)
    async def stubborn() -> str:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    began = time.monotonic()
    used = await run(stubborn)
    assert time.monotonic() - began < 1
    assert used.result == {"error": "no answer within 0.02 s"}
    assert threads.leaked_tasks == 1
    over.set()
    await until(lambda: threads.leaked_tasks == 0)


async def test_when_no_thread_is_free_the_act_did_not_happen(context: ToolContext) -> None:
    pool, hang = Threads(1), Hang()
    call = Call(1, 0, "c", "Hang", {})
    made = tool(hang, kind="write", timeout=0.03)
    first = await use(made, call, context, threads=pool)
    second = await use(made, call, context, threads=pool)
    assert first.in_doubt
    assert not second.in_doubt
    assert second.result == {"error": "not run: no time or no free thread within 0.03 s"}
    hang.over.set()
    await until(lambda: pool.leaked == 0)
    assert hang.calls == 1
    pool.close()


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
async def test_without_time_left_nothing_is_started(run: Run, seconds: float) -> None:
    calls: list[int] = []
    for made in both(lambda: calls.append(1), kind="write"):
        used = await run(made, seconds=seconds)
        assert used.error
        assert not used.in_doubt
    assert calls == []


async def test_our_own_cancellation_passes_through_and_reaches_the_tool(run: Run, threads: Threads) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @tool(kind="read")
    async def slow() -> None:
        started.set()
        try:
            await asyncio.sleep(10)
        finally:
            ended.set()

    task = asyncio.ensure_future(run(slow))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_cancelling_the_use_of_a_sync_tool_counts_its_thread_as_leaked(run: Run, threads: Threads) -> None:
    hang = Hang()
    task = asyncio.ensure_future(run(tool(hang, kind="read")))
    await until(lambda: hang.calls == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert threads.leaked == 1
    hang.over.set()
    await until(lambda: threads.leaked == 0)


async def test_threads_are_used_again_and_run_side_by_side(threads: Threads) -> None:
    barrier = threading.Barrier(4, timeout=5)

    async def one() -> object:
        return await run_user_code(barrier.wait, {}, asynchronous=False, limit=5, threads=threads)

    for _ in range(3):
        endings = await asyncio.gather(*(one() for _ in range(4)))
        assert all(isinstance(ending, Returned) for ending in endings)
    names = {t.name for t in threading.enumerate() if t.name.startswith("capataz-tool")}
    assert len(names) <= 4


async def test_more_work_than_threads_waits_its_turn(threads: Threads) -> None:
    async def one(number: int) -> object:
        return await run_user_code(lambda: number, {}, asynchronous=False, limit=5, threads=threads)

    assert await asyncio.gather(*map(one, range(100))) == [Returned(number) for number in range(100)]


def test_a_pool_needs_a_thread() -> None:
    with pytest.raises(Misuse, match="at least one thread"):
        Threads(0)


async def test_endings_are_values(threads: Threads) -> None:
    error = ValueError("x")
    run = functools.partial(run_user_code, asynchronous=False, threads=threads)
    assert await run(lambda a: a, {"a": 1}, limit=1) == Returned(1)
    assert await run(raising(error), {}, limit=1) == Raised(error)
    assert await run(raising(error), {}, limit=0) == TimedOut(0.0, started=False)


# ── what a tool gets ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_tool_gets_python_values_and_its_context(run: Run, context: ToolContext) -> None:
    got: list[Any] = []

    @tool(kind="write")
    def act(colour: Colour, when: datetime, me: ToolContext) -> str:
        got.extend([colour, when, me])
        return me.idempotency_key

    used = await run(act, '{"colour": "red", "when": "2024-01-02T00:00:00Z"}')
    assert used.result == "key-1"
    assert got[:2] == [Colour.RED, datetime(2024, 1, 2, tzinfo=UTC)]
    assert (got[2].run, got[2].turn) == ("run-1", 3)


async def test_progress_reaches_the_runtime_on_its_own_thread(threads: Threads) -> None:
    told: list[tuple[str, int]] = []
    context = ToolContext("r", 1, "k", lambda words: told.append((words, threading.get_ident())))

    @tool(kind="read")
    def count(me: ToolContext) -> None:
        me.progress("half way")

    await use(count, Call(1, 0, "c", "count", {}), context, threads=threads)
    await until(lambda: bool(told))
    assert told == [("half way", threading.get_ident())]


async def test_arguments_changed_since_they_were_read_are_checked_again(threads: Threads, context: ToolContext) -> None:
    @tool(kind="write")
    def act(mode: Literal["a", "b"]) -> None: ...

    used = await use(act, Call(1, 0, "c", "act", {"mode": "<masked>"}), context, threads=threads)
    assert used.result == {"error": "mode should be 'a' or 'b', not text"}
    assert used.fault is not None
    assert used.fault.row == "invalid_input"


async def test_a_sync_wrapper_around_an_async_function_still_works(run: Run) -> None:
    async def inner(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    def hidden(number: int) -> Any:
        return inner(number)

    assert (await run(tool(hidden, kind="read"), '{"number": 1}')).result == 2
    partly = functools.partial(inner, number=5)
    assert (await run(tool(partly, kind="read", name="partly"))).result == 6


async def test_context_variables_reach_the_tool(run: Run) -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    tenant.set("shop-1")
    for made in both(lambda: tenant.get(), kind="read"):
        assert (await run(made)).result == "shop-1"


async def test_a_tool_may_exit_only_itself(run: Run) -> None:
    for made in both(lambda: sys.exit(2), kind="exec"):
        assert (await run(made)).result == {"error": "SystemExit: 2"}
