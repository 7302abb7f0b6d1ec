"""What becomes a tool, what is refused at decoration, and how the refusal says how to mend it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from capataz.events.facts import JSON, ToolFacts
from capataz.mistakes import ToolMisuse
from capataz.ports import RawCall
from capataz.tools.define import Tool, ToolContext, target_text, tool
from capataz.tools.toolset import Toolset

SchemaOf = Callable[[Tool], dict[str, JSON]]


def test_a_bare_decorator_takes_the_careful_defaults() -> None:
    @tool
    def wipe(path: str) -> None:
        """Remove a file."""

    assert wipe.facts == ToolFacts("wipe", "exec")
    assert (wipe.timeout, wipe.max_result) == (60.0, 20_000)
    assert wipe.description == "Remove a file."


def test_the_decorated_object_is_still_the_function() -> None:
    @tool(kind="read")
    def double(number: int) -> int:
        return number * 2

    assert double(4) == 8
    assert double(number=5) == 10
    assert list(inspect.signature(double).parameters) == ["number"]


async def test_an_async_tool_is_still_awaitable() -> None:
    @tool(kind="read")
    async def double(number: int) -> int:
        return number * 2

    assert await double(4) == 8
    assert double.asynchronous


def test_everything_declared_is_in_the_facts() -> None:
    @tool(
        kind="write",
        target="order_id",
        timeout=5,
        idempotent=True,
        repeatable=True,
        settle=2,
        name="give_back",
        description="Pay back.",
        max_result=300,
        confirm=lambda order_id, result: result is not None,
    )
    def refund(order_id: str) -> str:
        return order_id

    assert refund.facts == ToolFacts("give_back", "write", "order_id", True, True, True, 2.0, tied=True)
    assert (refund.spec.name, refund.spec.description, refund.max_result) == ("give_back", "Pay back.", 300)


def test_a_confirm_that_looks_only_at_the_arguments_is_not_tied_to_the_act() -> None:
    @tool(confirm=lambda order_id, **_: True)
    def refund(order_id: str) -> None: ...

    @tool(confirm=lambda result: bool(result))
    def store(result: str) -> None:
        """Its own parameter happens to be called result."""

    assert (refund.facts.confirmable, refund.facts.tied) == (True, False)
    assert store.facts.tied is False


GOOGLE = """Find things.

More about it.

Args:
    text: What to look for.
    most: How many
        at most.
"""
NUMPY = """Find things.

More about it.

Parameters
----------
text : str
    What to look for.
most : int
    How many
    at most.
"""
REST = """Find things.

More about it.

:param text: What to look for.
:param most: How many
    at most.
"""


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST])
def test_parameters_are_described_by_the_docstring(docstring: str, schema_of: SchemaOf) -> None:
    def find(text: str, most: int = 3) -> str:
        return text * most

    find.__doc__ = docstring
    made = tool(find, kind="search")
    assert made.description == "Find things.\n\nMore about it."
    assert schema_of(made) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["text"],
        "properties": {
            "text": {"type": "string", "description": "What to look for."},
            "most": {"type": "integer", "description": "How many\nat most.", "default": 3},
        },
    }


def test_a_field_s_own_words_and_limits_win(schema_of: SchemaOf) -> None:
    @tool
    def pay(
        cents: Annotated[int, Field(gt=0, description="In cents.")], note: Annotated[str, "free text"] = ""
    ) -> None:
        """Pay.

        Args:
            cents: something else
            note: Why.
        """

    properties: Any = schema_of(pay)["properties"]
    assert properties["cents"] == {"type": "integer", "exclusiveMinimum": 0, "description": "In cents."}
    assert properties["note"]["description"] == "Why."


class Size(Enum):
    S = "small"
    L = "large"


@dataclass
class Part:
    title: str
    weight: float = 1.0


class Box(BaseModel):
    parts: list[Part]
    size: Size = Size.S


def test_models_enums_and_nested_containers_have_a_schema_without_titles(schema_of: SchemaOf) -> None:
    @tool
    def ship(
        box: Box,
        mode: Literal["air", "sea"],
        extra: dict[str, list[Part]] | None = None,
        price: Decimal = Decimal("1.5"),
        maybe: int = None,  # type: ignore[assignment]  # noqa: RUF013
    ) -> None: ...

    schema: Any = schema_of(ship)
    assert schema["required"] == ["box", "mode"]
    assert schema["$defs"]["Part"]["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["mode"]["enum"] == ["air", "sea"]
    assert {"type": "null"} in schema["properties"]["maybe"]["anyOf"]

    def titled(value: Any) -> bool:
        if isinstance(value, dict):
            return isinstance(value.get("title"), str) or any(map(titled, value.values()))
        return isinstance(value, list) and any(map(titled, value))

    assert not titled(schema)


@pytest.mark.parametrize("name", ["schema", "copy", "json", "model_config", "_hidden", "class_", "title", "argument_0"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def show({name}: int = 3, other: str = 'x') -> int:\n    return {name}", namespace)
    made = tool(namespace["show"], kind="read", target=name)
    (call,) = Toolset([made]).read([RawCall("1", "show", f'{{"{name}": 4}}')], 1)
    assert call.problem is None
    assert call.arguments == {name: 4, "other": "x"}
    assert made.signature.bind(call.arguments) == {name: 4, "other": "x"}


def test_the_context_is_injected_and_never_shown(schema_of: SchemaOf) -> None:
    @tool
    def work(context: ToolContext, job: str) -> None: ...

    @tool
    def rest(job: str, context: ToolContext | None = None) -> None: ...

    for made in (work, rest):
        assert list(schema_of(made)["properties"]) == ["job"]  # type: ignore[arg-type]
        assert made.signature.context == "context"


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[str] = []

    def has(self, item: str) -> bool:
        return item in self.seen

    @tool(kind="write", target="item", confirm=has)
    def sell(self, item: str) -> str:
        """Sell an item."""
        self.seen.append(item)
        return f"{self.name} sold {item}"

    def price(self, item: str) -> int:
        """Say the price."""
        return len(item)

    @staticmethod
    @tool(kind="read")
    def motto(loud: bool) -> str:
        return "YES" if loud else "yes"


def test_methods_are_tools_of_their_instance() -> None:
    one, two = Shop("one"), Shop("two")
    assert one.sell("pen") == "one sold pen"
    assert two.sell("ink") == "two sold ink"
    assert one.seen == ["pen"]
    assert one.sell.spec.schema["required"] == ["item"]
    assert tool(one.price, kind="read").description == "Say the price."
    assert Shop.motto(loud=True) == "YES"
    assert len(Toolset([one.sell, tool(one.price), Shop.motto])) == 3


def test_a_method_without_an_instance_is_refused_by_the_toolset() -> None:
    with pytest.raises(ToolMisuse, match=r"take it from an instance, as in shop\.sell"):
        Toolset([Shop.sell])


def test_a_partial_hides_what_it_binds(schema_of: SchemaOf) -> None:
    def query(connection: object, text: str, *, limit: int = 5) -> str:
        """Ask the database."""
        return text

    by_name = tool(functools.partial(query, connection=object()), kind="read", name="by_name")
    by_place = tool(functools.partial(query, object()), kind="read")
    assert list(schema_of(by_name)["properties"]) == ["text", "limit"]  # type: ignore[arg-type]
    assert list(schema_of(by_place)["properties"]) == ["text", "limit"]  # type: ignore[arg-type]
    assert (by_place.name, by_place.description) == ("query", "Ask the database.")


def test_a_callable_object_is_a_tool() -> None:
    class Greeter:
        """Greets."""

        async def __call__(self, name: str) -> str:
            """Say hello."""
            return f"hello {name}"

    made = tool(Greeter(), kind="read")
    assert (made.name, made.description, made.asynchronous) == ("Greeter", "Say hello.", True)


def refuse(*args: Any, **kwargs: Any) -> None: ...
def bare(order_id) -> None: ...  # type: ignore[no-untyped-def]
def placed(order_id: str, /) -> None: ...
def generated(n: int) -> Any:
    yield n


class Opaque: ...


def opaque(thing: Opaque) -> None: ...
def callback(then: Callable[[int], int]) -> None: ...
def wrong_default(n: int = "many") -> None: ...  # type: ignore[assignment]
def aliased(n: Annotated[int, Field(alias="m")]) -> None: ...
def unresolved(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def twice(a: ToolContext, b: ToolContext) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (refuse, r"tool refuse: a model cannot fill \*args: write args: list\[\.\.\.\]"),
        (lambda *, x, **rest: None, "tool 'lambda'"),
        (bare, "tool bare: parameter order_id has no annotation.*write order_id: str"),
        (placed, "tool placed: order_id is positional-only.*remove the '/'"),
        (generated, "tool generated: it is a generator function; return a list"),
        (opaque, "tool opaque: the annotation of thing has no JSON form: use a plain type"),
        (callback, "tool callback: .*no JSON schema"),
        (wrong_default, r"tool wrong_default: the default of n \('many'\) does not fit its annotation"),
        (aliased, "tool aliased: parameter n has an alias: name the parameter so instead"),
        (unresolved, "tool unresolved: the annotation 'Nowhere' is not defined"),
        (twice, "tool twice: both a and b are a ToolContext: keep one"),
        (dict, "tool dict: "),
    ],
)
def test_what_cannot_be_offered_is_refused_with_words(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(ToolMisuse, match=words.replace("'lambda'", "'<lambda>'")):
        tool(function)


def test_keyword_rests_are_refused() -> None:
    def show(a: int, **rest: int) -> None: ...

    with pytest.raises(ToolMisuse, match=r"a model cannot fill \*\*rest.*functools\.wraps"):
        tool(show)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "look"}, "kind='look': write one of read, search, poll, write, exec, message"),
        ({"target": "order"}, r"target='order' is none of its parameters: did you mean 'order_id'\?"),
        ({"target": "zzz"}, r"target='zzz' is none of its parameters \(order_id\)"),
        ({"timeout": 0}, "timeout=0: give the seconds"),
        ({"timeout": float("inf")}, "timeout=inf"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"settle": -1}, "settle=-1"),
        ({"max_result": 10}, "at least 200 characters"),
        ({"name": "no spaces"}, "tool 'no spaces': providers take only letters"),
        ({"confirm": lambda wrong: True}, "confirm wants 'wrong'.*may take order_id, result, idempotency_key, phase"),
        ({"confirm": lambda order_id, /: True}, "confirm takes order_id by position only"),
        ({"confirm": 5}, "confirm=5 is not a function"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    def refund(order_id: str) -> None: ...

    with pytest.raises(ToolMisuse, match=words):
        tool(**options)(refund)


def test_a_tool_is_not_decorated_twice() -> None:
    @tool
    def once(a: int) -> None: ...

    with pytest.raises(ToolMisuse, match="once is a tool already"):
        tool(once)


def test_types_known_only_inside_a_function_are_found() -> None:
    class Local(BaseModel):
        x: int

    @tool(kind="read")
    def show(value: Local) -> int:
        return value.x

    assert show.spec.schema["properties"]


TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers(-(2**63), 2**63 - 1)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, st.text()),
    (bool, st.booleans()),
    (list[int], st.lists(st.integers(-9, 9), max_size=3)),
    (dict[str, float | None], st.dictionaries(st.text(max_size=3), st.none() | st.floats(0, 1), max_size=2)),
    (Size, st.sampled_from(Size)),
    (Part | None, st.none() | st.builds(Part, st.text(max_size=3), st.floats(0, 9))),
    (tuple[int, str], st.tuples(st.integers(-9, 9), st.text(max_size=2))),
    (set[str], st.sets(st.text(max_size=2), max_size=2)),
]


@given(data=st.data(), picked=st.lists(st.sampled_from(range(len(TYPES))), max_size=4))
def test_any_signature_of_plain_types_reads_what_it_can_take(data: st.DataObject, picked: list[int]) -> None:
    names = [f"p{place}" for place in range(len(picked))]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=TYPES[pick][0])
        for name, pick in zip(names, picked, strict=True)
    ]

    def made_up(**given: Any) -> None: ...

    made_up.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    made_up.__annotations__ = {p.name: p.annotation for p in parameters}
    made = tool(made_up, kind="read")
    values = {name: data.draw(TYPES[pick][1]) for name, pick in zip(names, picked, strict=True)}

    from pydantic_core import to_json

    (call,) = Toolset([made]).read([RawCall("1", "made_up", to_json(values).decode())], 1)
    assert call.problem is None
    assert list(call.arguments) == names
    assert made.signature.bind(call.arguments) == values


def test_targets_as_text() -> None:
    values: list[JSON] = [None, "a", 5, {"b": 1, "a": [True]}]
    assert [target_text(value) for value in values] == [None, "a", "5", '{"a":[true],"b":1}']
