"""What a tool gives back becomes JSON a model can read and a log can keep, cut where it is too long."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Awaitable
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol

import orjson
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from capataz.events.facts import JSON, Kind
from capataz.tools.call import Used
from capataz.tools.define import Changed, Tool, tool
from capataz.tools.results import NoJson, as_json, cut


class Run(Protocol):
    def __call__(self, tool: Tool, arguments: str = "{}", *, seconds: float | None = None) -> Awaitable[Used]: ...


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    number: int
    at: datetime


@dataclasses.dataclass
class Row:
    price: Decimal
    tags: set[str]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        ("ünï", "ünï"),
        ("\ud800 broken", "? broken"),
        (None, None),
        (True, True),
        (3, 3),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        ([float("inf"), -float("inf")], ["Infinity", "-Infinity"]),
        (10**30, str(10**30)),
        ({"n": [2**64, -(2**63)]}, {"n": [str(2**64), -(2**63)]}),
        (Order(number=1, at=datetime(2024, 1, 2, tzinfo=UTC)), {"number": 1, "at": "2024-01-02T00:00:00Z"}),
        (Row(Decimal("1.10"), {"a"}), {"price": "1.10", "tags": ["a"]}),
        (Colour.RED, "red"),
        (b"bytes", "bytes"),
        (b"\xff\xfe", "__4="),
        ({"\ud800": [("\ud800", b"\xff")]}, {"?": [["?", "_w=="]]}),
        ((1, Colour.RED), [1, "red"]),
        ({1: "one"}, {"1": "one"}),
    ],
)
def test_results_become_json(value: Any, shown: JSON) -> None:
    assert as_json(value) == shown
    orjson.dumps(as_json(value))


@pytest.mark.parametrize("value", [object(), [object()], lambda: 1, {"a": {"b": threading.Lock()}}, iter([1])])
def test_what_is_no_json_says_so(value: Any) -> None:
    with pytest.raises(NoJson, match="return"):
        as_json(value)


def test_a_circle_is_no_json() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(NoJson):
        as_json(circle)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.decimals(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=10,
    ),
    st.integers(0, 40),
)
def test_any_plain_value_can_be_logged_and_cut(value: Any, most: int) -> None:
    result, full = cut(as_json(value), most)
    orjson.dumps(result)
    if full is not None:
        assert isinstance(result, str)
        assert result.startswith(full[:most])
        assert len(full) > most


async def test_a_long_result_is_cut_with_a_note_and_kept_whole(run: Run) -> None:
    @tool(kind="read", max_result=200)
    def book() -> str:
        return "x" * 1000

    used = await run(book)
    assert isinstance(used.result, str)
    assert used.result.startswith("x" * 200 + "\n[cut: showing the first 200 of 1000 characters")
    assert used.full == "x" * 1000
    assert not used.error


async def test_a_long_list_is_cut_as_its_json(run: Run) -> None:
    @tool(kind="read", max_result=200)
    def rows() -> list[dict[str, int]]:
        return [{"n": n} for n in range(100)]

    used = await run(rows)
    assert isinstance(used.result, str)
    assert used.result.startswith('[{"n":0},')
    assert used.full is not None
    assert orjson.loads(used.full) == [{"n": n} for n in range(100)]


async def test_a_tool_says_whether_it_changed_the_world(run: Run) -> None:
    results = [Changed({"a": 1}), Changed("same", state_changed=False), "silent"]

    @tool
    def act(which: int) -> Any:
        return results[which]

    used = [await run(act, f'{{"which": {n}}}') for n in range(3)]
    assert [(u.result, u.state_changed) for u in used] == [({"a": 1}, True), ("same", False), ("silent", None)]


@pytest.mark.parametrize(("kind", "doubt"), [("read", False), ("write", True)])
async def test_a_result_that_cannot_be_shown_does_not_undo_the_act(run: Run, kind: Kind, doubt: bool) -> None:
    async def later() -> object:
        return object()

    for made in (tool(lambda: object(), name="now", kind=kind), tool(later, kind=kind)):
        used = await run(made)
        assert isinstance(used.result, dict)
        assert "ran to its end but its result cannot be shown: a object is no JSON" in str(used.result["error"])
        assert (used.error, used.in_doubt) == (True, doubt)
        assert used.fault is not None
        assert used.fault.row == "contract"
