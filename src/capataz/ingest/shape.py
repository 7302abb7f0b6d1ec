"""Reading JSON nobody promised anything about.

Every accessor takes whatever is there and gives a value of the asked type, empty where the record has another one.
So a converter is written as if records were well formed, and no record, however broken, can make it raise.
Nothing here may ever recurse into what it is given: hostile records are deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import orjson

from capataz.events.facts import JSON
from capataz.events.plain import DEEPEST, shallow


def several(words: str) -> frozenset[str]:
    """A set of words, written as one would say them."""
    return frozenset(words.split())


def mapping(value: JSON) -> dict[str, JSON]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: JSON) -> list[JSON]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def objects(value: JSON) -> Iterator[dict[str, JSON]]:
    """The objects of a list; what is not an object is passed over."""
    for item in items(value):
        if isinstance(item, dict):
            yield item


def text(value: JSON) -> str:
    """The text, or an empty one. A number is written out; a list or object is not text."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, (dict, list)):
        return ""
    return str(value)


MOST = 10**12
"""No count is as large; so their sums fit every store."""


def whole(value: JSON) -> int:
    """A count: 0 where there is none, or one nothing can have. Numbers in quotes count (OTLP writes 64 bits so)."""
    if isinstance(value, str) and len(value) < 20 and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MOST:
        return 0
    return int(value)


def real(value: JSON) -> float | None:
    """A number, or None."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        number = float(value) if abs(value) < 1e18 else None
        return number if number == number else None
    return None


def pick(source: dict[str, JSON], *names: str) -> JSON:
    """The first of these keys that is there and not null."""
    for name in names:
        value = source.get(name)
        if value is not None:
            return value
    return None


def moment(value: JSON) -> float | None:
    """Seconds since the epoch from an ISO time, seconds, milliseconds, microseconds or nanoseconds; None if neither."""
    if isinstance(value, str):
        if value.isdecimal() and len(value) < 25:
            return _scaled(float(value))
        try:
            stamp = datetime.fromisoformat(value)
            return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    number = real(value)
    return None if number is None or number <= 0 else _scaled(number)


def _scaled(number: float) -> float | None:
    for unit in (1e9, 1e6, 1e3, 1.0):
        if number >= 1e8 * unit:
            seconds = number / unit
            return seconds if seconds < 1e11 else None
    return None


def decode(value: JSON) -> JSON:
    """The JSON inside a text that looks like an object or a list; anything else as it is."""
    if not isinstance(value, str):
        return value
    head = value.lstrip()[:1]
    if head not in ("{", "["):
        return value
    try:
        inner: JSON = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return inner if shallow(inner) else value


def arguments(value: JSON) -> dict[str, JSON]:
    """Arguments of a call, however the record writes them: an object, JSON in a text, or plain text."""
    value = decode(value)
    if isinstance(value, dict):
        return value
    return {} if value is None or value == "" else {"input": value}


def parts(value: JSON) -> str:
    """The words of a message: a text, or the text parts of a list of blocks, joined."""
    if isinstance(value, (str, int, float)):
        return text(value)
    if isinstance(value, dict):
        return text(pick(value, "text", "content", "value"))
    found = [item if isinstance(item, str) else text(mapping(item).get("text")) for item in items(value)]
    return "\n".join(word for word in found if word)


TOO_DEEP = f"nested too deeply (more than {DEEPEST} levels)"


def unread(problem: ValueError) -> str:
    """Why a text could not be read as JSON. One too deep for the reader may well be JSON, and is not called broken."""
    return TOO_DEEP if "limit exceeded" in str(problem) else f"not JSON: {problem}"
