"""A call is read once, the moment the reply arrives: canonical, or with the problem in words."""

from __future__ import annotations

import dataclasses
import enum
import math
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

import orjson
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, computed_field, field_validator

from capataz.events.facts import Call
from capataz.mistakes import Misuse, ToolMisuse
from capataz.ports import RawCall
from capataz.tools.define import Tool, tool
from capataz.tools.toolset import Toolset


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1


class Address(BaseModel):
    street: str
    since: date | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        return self.street.upper()


@tool(kind="read", target="order_id")
def find_order(order_id: str, deep: bool = False) -> str:
    """Find an order."""
    return order_id


@tool(kind="write", target="number")
def book(number: int, colour: Colour = Colour.RED, lines: list[Line] | None = None, price: Decimal = Decimal(1)) -> str:
    return "booked"


SHOP = Toolset([find_order, book])


def read(name: str, arguments: str, tools: Toolset = SHOP, *, cut: bool = False) -> Call:
    (call,) = tools.read([RawCall("id", name, arguments, cut)], 2)
    return call


def test_arguments_come_out_canonical_in_the_order_of_the_signature() -> None:
    call = read("book", '{"lines": [{"sku": "a"}], "number": "7"}')
    assert call.problem is None
    assert list(call.arguments.items()) == [
        ("number", 7),
        ("colour", "red"),
        ("lines", [{"sku": "a", "count": 1}]),
        ("price", "1"),
    ]
    assert (call.target, call.kind, call.acting, call.turn, call.position) == ("7", "write", True, 2, 0)


@pytest.mark.parametrize("empty", ["", "  ", "{}"])
def test_no_arguments_at_all_are_an_empty_object(empty: str) -> None:
    @tool(kind="read")
    def now() -> str:
        return "now"

    assert read("now", empty, Toolset([now])).arguments == {}


def test_two_ways_of_writing_the_same_arguments_are_the_same_call() -> None:
    first = read("book", '{"number": 7.0, "price": "1"}')
    second = read("book", '{ "colour": "red", "number": "7" , "lines": null}')
    assert orjson.dumps(dict(first.arguments)) == orjson.dumps(dict(second.arguments))


def test_an_unknown_tool_is_told_its_neighbours() -> None:
    call = read("find_orders", '{"order_id": "81"}')
    assert call.problem == "there is no tool 'find_orders'. Did you mean find_order? Your tools are: find_order, book."
    assert call.fault is not None
    assert (call.fault.row, call.fault.reason) == ("contract", "unknown-tool")
    assert call.arguments == {"order_id": "81"}


def test_a_name_in_another_case_is_not_the_tool() -> None:
    assert read("Book", '{"number": 1}').fault is not None


def test_without_tools_the_model_is_told_so() -> None:
    assert read("x", "{}", Toolset([])).problem == "there is no tool 'x': you have no tools"


@pytest.mark.parametrize("broken", ['{"order_id": "81"', "{'order_id': '81'}", "order 81", '{"order_id": "81"} {}'])
def test_broken_json_is_never_repaired(broken: str) -> None:
    call = read("find_order", broken)
    assert call.problem is not None
    assert "not valid JSON" in call.problem
    assert call.fault is not None
    assert call.fault.row == "contract"
    assert call.arguments == {"unparsed": broken}


@pytest.mark.parametrize("other", ['["81"]', '"81"', "null", '"{\\"order_id\\": \\"81\\"}"'])
def test_arguments_that_are_no_object_are_refused(other: str) -> None:
    call = read("find_order", other)
    assert call.problem is not None
    assert "must be a JSON object with order_id, deep" in call.problem


def test_a_cut_call_is_refused_even_when_it_happens_to_parse() -> None:
    call = read("find_order", '{"order_id": "81"}', cut=True)
    assert call.problem is not None
    assert "cut off" in call.problem
    assert call.fault is not None
    assert (call.fault.row, call.fault.reason) == ("contract", "truncated")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{}", "number is missing"),
        ('{"number": "many"}', "number should be a valid integer, unable to parse string as an integer"),
        ('{"number": null}', "number should be a valid integer, not null"),
        ('{"number": 1, "colour": "green"}', "colour should be 'red' or 'blue', not text"),
        ('{"number": 1, "lines": [{"sku": "a"}, {"count": 2}]}', "lines[1].sku is missing"),
        ('{"number": 1, "lines": [{"sku": "a", "x": 2}]}', "lines[0].x is not allowed there"),
        ('{"number": 1, "size": 3}', "there is no argument size; this tool takes number, colour, lines, price"),
        ('{"number": 99999999999999999999999}', "an integer is too large: numbers must fit into 64 bits"),
    ],
)
def test_wrong_arguments_are_told_in_words(arguments: str, words: str) -> None:
    call = read("book", arguments)
    assert call.problem == words
    assert call.fault is not None
    assert (call.fault.row, call.fault.message) == ("invalid_input", words)
    assert "http" not in words


def test_the_values_themselves_are_not_repeated() -> None:
    call = read("book", '{"number": "4111-1111"}')
    assert call.problem is not None
    assert "4111" not in call.problem


def test_many_problems_are_counted_not_listed() -> None:
    @tool
    def wide(a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> None: ...

    problem = read("wide", "{}", Toolset([wide])).problem
    assert problem is not None
    assert problem.endswith("e is missing; and 2 more")


def test_a_validator_speaks_for_itself() -> None:
    class Amount(BaseModel):
        cents: int

        @field_validator("cents")
        @classmethod
        def positive(cls, value: int) -> int:
            if value <= 0:
                raise ValueError("must be above 0")
            return value

    @tool
    def pay(amount: Amount) -> None: ...

    call = read("pay", '{"amount": {"cents": 0}}', Toolset([pay]))
    assert call.problem == "amount.cents: must be above 0"


def test_a_validator_that_crashes_is_a_problem_not_a_crash() -> None:
    class Bad(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def boom(cls, value: int) -> int:
            raise RuntimeError("no database")

    @tool
    def go(bad: Bad) -> None: ...

    call = read("go", '{"bad": {"x": 1}}', Toolset([go]))
    assert call.problem == "the arguments could not be checked (RuntimeError: no database)"


def test_the_branches_of_a_union_are_no_places() -> None:
    @tool
    def pick(what: int | list[Line] | Address) -> None: ...

    problem = read("pick", '{"what": [{"count": 1}]}', Toolset([pick])).problem
    assert problem is not None
    assert "what[0].sku is missing" in problem
    assert "list[" not in problem


def test_computed_fields_survive_the_way_back() -> None:
    @tool
    def move(to: Address) -> None: ...

    call = read("move", '{"to": {"street": "Main", "since": "2024-02-03"}}', Toolset([move]))
    assert call.arguments == {"to": {"street": "Main", "since": "2024-02-03"}}
    assert move.signature.bind(call.arguments) == {"to": Address(street="Main", since=date(2024, 2, 3))}


def test_numbers_that_are_none_are_refused() -> None:
    @tool
    def rate(x: float) -> None: ...

    assert read("rate", '{"x": NaN}', Toolset([rate])).problem is not None


def test_targets_are_text_whatever_their_type() -> None:
    @tool(target="what")
    def touch(what: list[int] | int | str | None = None) -> None: ...

    tools = Toolset([touch])
    assert [read("touch", f'{{"what": {w}}}', tools).target for w in ("[1, 2]", "5", '"5"', "null")] == [
        "[1,2]",
        "5",
        "5",
        None,
    ]


@given(st.text(max_size=60), st.text(max_size=60), st.booleans())
def test_whatever_a_model_writes_becomes_a_call_the_log_can_keep(name: str, arguments: str, cut: bool) -> None:
    for tool_name in (name, "book", "find_order"):
        call = read(tool_name, arguments, cut=cut)
        orjson.dumps(dict(call.arguments))
        assert (call.problem is None) == (call.fault is None)


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(number=JSONS, colour=JSONS, lines=JSONS, price=JSONS)
def test_reading_is_total_and_canonical_arguments_are_a_fixed_point(
    number: object, colour: object, lines: object, price: object
) -> None:
    import json

    text = json.dumps({"number": number, "colour": colour, "lines": lines, "price": price})
    call = read("book", text)
    if call.problem is None:
        again = read("book", orjson.dumps(dict(call.arguments)).decode())
        assert again.arguments == call.arguments


@given(
    number=st.integers(-(2**63), 2**63 - 1),
    colour=st.sampled_from(Colour),
    lines=st.none() | st.lists(st.builds(Line, st.text(), st.integers(-9, 9)), max_size=3),
    price=st.decimals(allow_nan=False, allow_infinity=False),
)
def test_values_survive_the_trip_to_json_and_back(
    number: int, colour: Colour, lines: list[Line] | None, price: Decimal
) -> None:
    raw = {
        "number": number,
        "colour": colour.value,
        "lines": None if lines is None else [dataclasses.asdict(line) for line in lines],
        "price": str(price),
    }
    call = read("book", orjson.dumps(raw).decode())
    assert call.problem is None
    assert book.signature.bind(call.arguments) == {"number": number, "colour": colour, "lines": lines, "price": price}


def test_a_toolset_wants_different_names() -> None:
    with pytest.raises(Misuse, match="two tools are named book"):
        Toolset([book, book])


def test_a_toolset_wants_tools() -> None:
    with pytest.raises(ToolMisuse, match="decorate the function with @tool"):
        Toolset([lambda: 1])  # type: ignore[list-item]


def test_the_digest_knows_names_kinds_and_schemas_but_not_the_order() -> None:
    def make(kind: Literal["read", "write"], default: int) -> Tool:
        @tool(kind=kind)
        def count(n: Annotated[int, Field(ge=0)] = default) -> int:
            return n

        return count

    assert Toolset([find_order, book]).digest == Toolset([book, find_order]).digest
    digests = {Toolset([make(k, d)]).digest for k, d in (("read", 1), ("write", 1), ("read", 2))}  # type: ignore[arg-type]
    assert len(digests) == 3
    assert Toolset([make("read", 1)]).digest in digests


def test_specs_and_facts_keep_the_order_given() -> None:
    assert [s.name for s in SHOP.specs] == ["find_order", "book"]
    assert [f.target for f in SHOP.facts] == ["order_id", "number"]
    assert [t.name for t in SHOP] == ["find_order", "book"]
    assert len(SHOP) == 2
    assert "book" in SHOP
    assert SHOP.get("book") is book
    assert SHOP.get("cook") is None
    assert not math.isnan(book.timeout)
