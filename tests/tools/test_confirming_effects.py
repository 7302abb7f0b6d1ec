"""The read-back answers yes, no, or unknown with a reason; nothing unclear ever counts as yes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Literal

import pytest

from capataz.events.facts import JSON, Answer3, Call
from capataz.tools.define import Tool, tool
from capataz.tools.effects import confirm
from capataz.tools.usercode import Threads

Ask = Callable[..., Awaitable[tuple[Answer3, str]]]


class Size(Enum):
    L = "large"


@pytest.fixture
def ask(threads: Threads) -> Ask:
    async def go(
        read_back: Callable[..., Any] | None,
        *,
        phase: Literal["before", "after"] = "after",
        result: JSON = "done",
        arguments: dict[str, JSON] | None = None,
        seconds: float = 5,
    ) -> tuple[Answer3, str]:
        @tool(kind="write", target="order_id", confirm=read_back)
        def refund(order_id: str, cents: int = 5, size: Size = Size.L) -> str:
            return "done"

        given: dict[str, JSON] = arguments or {"order_id": "81", "cents": 5, "size": "large"}
        call = Call(1, 0, "c", "refund", given, "write", "81")
        return await confirm(refund, call, result, "key-1", phase=phase, threads=threads, seconds=seconds)

    return go


class Rows:
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length


class Unclear:
    def __bool__(self) -> bool:
        raise ValueError("more than one element")


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (True, "yes"),
        (False, "no"),
        (None, "unknown"),
        ("yes", "yes"),
        (" No ", "no"),
        ("unknown", "unknown"),
        ("failed", "unknown"),
        ("pending", "unknown"),
        ("", "no"),
        (1, "yes"),
        (0, "no"),
        ({"id": 3}, "yes"),
        ((81, "refunded"), "yes"),
        ([], "no"),
        (Rows(2), "yes"),
        (Rows(0), "no"),
        (Unclear(), "unknown"),
        ((False, "no such refund"), "no"),
        ((0, "no row"), "no"),
        ((None, "x"), "unknown"),
        (("no", "x"), "no"),
        (("False", "x"), "unknown"),
        ((True, "there"), "yes"),
        (b"failed", "unknown"),
        (-1, "unknown"),
        (ValueError(), "unknown"),
        (NotImplemented, "unknown"),
        ({"ok": False}, "unknown"),
        (float("nan"), "unknown"),
    ],
)
async def test_what_values_mean(ask: Ask, value: Any, answer: Answer3) -> None:
    async def later(**_: Any) -> Any:
        return value

    assert (await ask(lambda **_: value))[0] == answer
    assert (await ask(later))[0] == answer


async def test_it_gets_what_it_takes_and_nothing_else(ask: Ask) -> None:
    got: list[Any] = []

    def by_argument(order_id: str) -> bool:
        got.append(order_id)
        return True

    def by_extra(*, result: str, idempotency_key: str, phase: str, size: Size, note: str = "own") -> bool:
        got.append((result, idempotency_key, phase, size, note))
        return True

    def everything(order_id: str, **rest: Any) -> bool:
        got.append((order_id, rest))
        return True

    for read_back in (by_argument, by_extra, everything):
        assert await ask(read_back) == ("yes", "confirm answered yes")
    assert got == [
        "81",
        ("done", "key-1", "after", Size.L, "own"),
        ("81", {"result": "done", "idempotency_key": "key-1", "phase": "after", "cents": 5, "size": Size.L}),
    ]


async def test_before_the_act_there_is_no_result(ask: Ask) -> None:
    got: list[Any] = []
    await ask(lambda result, phase: got.append((result, phase)), phase="before", result=None)
    assert got == [(None, "before")]


async def test_a_tool_s_own_argument_wins_over_an_extra_of_the_same_name(threads: Threads) -> None:
    @tool(confirm=lambda result: result == "mine")
    def publish(result: str) -> None: ...

    call = Call(1, 0, "c", "publish", {"result": "mine"})
    assert (await confirm(publish, call, "other", "k", phase="after", threads=threads))[0] == "yes"


async def test_an_exception_is_unknown_with_its_reason(ask: Ask) -> None:
    def broken(order_id: str) -> bool:
        raise ConnectionError("database is away")

    assert await ask(broken) == ("unknown", "confirm failed: ConnectionError: database is away")


async def test_a_hang_is_unknown_within_its_own_limit(ask: Ask) -> None:
    over = threading.Event()

    async def asleep(**_: Any) -> bool:
        await asyncio.sleep(10)
        return True

    for read_back in (lambda **_: over.wait(10), asleep):
        assert await ask(read_back, seconds=0.02) == ("unknown", "confirm gave no answer within 0.02 s")
    over.set()


async def test_arguments_that_no_longer_fit_are_unknown(ask: Ask) -> None:
    answer, why = await ask(lambda **_: True, arguments={"order_id": 5})
    assert answer == "unknown"
    assert "order_id should be a valid string" in why


async def test_a_tool_without_confirm_cannot_be_asked(ask: Ask) -> None:
    assert await ask(None) == ("unknown", "refund has no confirm")


async def test_a_method_reads_back_from_its_own_instance(threads: Threads) -> None:
    class Shop:
        def __init__(self, *sold: str) -> None:
            self.sold = sold

        def has(self, item: str) -> bool:
            return item in self.sold

        @tool(kind="write", confirm=has)
        def sell(self, item: str) -> None: ...

    async def sold(made: Tool) -> str:
        call = Call(1, 0, "c", "sell", {"item": "pen"})
        return (await confirm(made, call, None, "k", phase="after", threads=threads))[0]

    assert [await sold(Shop("pen").sell), await sold(Shop().sell)] == ["yes", "no"]
