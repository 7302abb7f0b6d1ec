"""Strategies for every fact, put together from the types of the fields, so that a new fact is tested unasked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import strategies as st

from capataz.events.facts import Event, Fact

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(codec="utf-8") | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=20)
"""Any text, the unpaired surrogates included with which Python marks undecodable bytes of file names."""
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(-(2**70), 2**70),
    float: FINITE,
    bool: st.booleans(),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    object: JSON_VALUES,
    type(None): st.none(),
}


def of_type(hint: Any) -> st.SearchStrategy[Any]:
    origin, args = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint, localns={"JSON": object})
        return st.builds(hint, **{field.name: of_type(hints[field.name]) for field in fields(hint)})
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, UnionType):
        return st.one_of([of_type(arg) for arg in args])
    if origin is tuple:
        return st.lists(of_type(args[0]), max_size=3).map(tuple)
    assert origin is Mapping, hint
    return st.dictionaries(TEXT, JSON_VALUES, max_size=4)


@pytest.fixture(scope="session")
def any_event() -> st.SearchStrategy[Event]:
    facts = st.one_of([of_type(fact) for fact in get_args(Fact)])
    return st.builds(Event, st.integers(0, 2**62), FINITE, facts)
