"""What a tool gave back, as a JSON value a model can read and a log can keep.

Nothing a tool returns may break the loop: what has no JSON form becomes an error that tells the developer so, what is
too long for the model is cut with a note and kept whole beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

import orjson

from capataz.events.facts import JSON, Row
from capataz.tools.usercode import Trap
from capataz.tools.wording import short_error

_TOO_LARGE = re.compile(rb"\d{19}")
"""Anything that may be an integer beyond 64 bits, which the log cannot keep and most readers get wrong."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Return this from a tool to say whether it changed the world.

    >>> Changed("already refunded", state_changed=False).state_changed
    False
    """

    value: Any
    state_changed: bool = True


class ToolError(Exception):
    """Raise this in a tool to tell the model what went wrong, in your own words.

    `row` is the row of the fault taxonomy; the default lets the model correct its call. `in_doubt` says that the act
    may have happened all the same.
    """

    def __init__(self, message: str, *, row: Row = "invalid_input", in_doubt: bool = False) -> None:
        super().__init__(message)
        self.row: Row = row
        self.in_doubt = in_doubt


class NoJson(Exception):
    """The value has no JSON form; the text says why. Never leaves this package."""


def as_json(value: Any) -> JSON:
    """Models, dataclasses, decimals, dates, enums, bytes, sets and plain values as JSON. Raises `NoJson`.

    NaN and infinities become the words "NaN", "Infinity" and "-Infinity"; integers beyond 64 bits become text; bytes
    that are not UTF-8 become base64.
    """
    if value is None or value is True or value is False:
        return cast("JSON", value)
    if type(value) is str:
        return value if value.isascii() else value.encode(errors="replace").decode()
    kind = type(value).__name__
    if isinstance(value, Iterator):
        raise NoJson(f"a {kind} can be read only once: return a list")
    with Trap() as trap:
        return _plain(value)
    raise NoJson(f"a {kind} is no JSON ({short_error(trap.error)}): return text, numbers, lists, "
                 "dicts, dataclasses or pydantic models")  # fmt: skip


def _plain(value: Any) -> JSON:
    from pydantic_core import PydanticSerializationError, from_json, to_json

    try:
        text = to_json(value, inf_nan_mode="strings")
    except PydanticSerializationError as error:
        if "utf-8" not in str(error):
            raise
        text = to_json(_encodable(value), inf_nan_mode="strings", bytes_mode="base64")
    if _TOO_LARGE.search(text):
        return _small_numbers(from_json(text))
    return cast("JSON", orjson.loads(text))


def _encodable(value: Any) -> Any:
    """The same with text that can be encoded: file names and scraped pages may hold half characters."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if _is_list(value):
        return [_encodable(item) for item in value]
    if _is_dict(value):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return value


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _is_dict(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, dict)


def _small_numbers(value: JSON) -> JSON:
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, list):
        return [_small_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _small_numbers(item) for key, item in value.items()}
    return value


def cut(value: JSON, most: int) -> tuple[JSON, str | None]:
    """What the model is shown of a result and, when that is not all of it, the whole text."""
    if isinstance(value, str):
        if len(value) <= most:
            return value, None
        text = value
    elif value is None or isinstance(value, (bool, int, float)):
        return value, None
    else:
        encoded = orjson.dumps(value)
        if len(encoded) <= most:  # bytes are never fewer than characters
            return value, None
        text = encoded.decode()
        if len(text) <= most:
            return value, None
    note = f"\n[cut: showing the first {most} of {len(text)} characters; ask for less or for the part you need]"
    return text[:most] + note, text
