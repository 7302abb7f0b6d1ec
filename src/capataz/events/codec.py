"""Facts as bytes and back. The log outlives the code that wrote it, so what is written here is read for ever.

A body is one flat JSON object: `t` is the name of the fact, `v` the version of its shape, the rest are its fields,
without those that hold their default. How shapes may change:

* A field added with a default keeps the version: older readers ignore it, newer ones fill it in. If ignoring it would
  be wrong, raise the version instead.
* Anything else raises the version in `VERSIONS` and adds a step to `UPCASTERS`, which lifts the raw object by one
  version. Steps are never removed.
* A higher version or an unknown name is refused with `Unreadable`: guessing at a log is how money is spent twice.

Readers and writers are put together once for each class, from its fields. Nothing here may know one fact from another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

import orjson

from capataz.events.facts import Event, Fact
from capataz.mistakes import Misuse, Unreadable

Raw: TypeAlias = dict[str, Any]
Writer: TypeAlias = Callable[[Any], Any]
Reader: TypeAlias = Callable[[Any], Any]
Upcaster: TypeAlias = Callable[[Raw], Raw]

FACTS: Mapping[str, type[Any]] = {fact.__name__: fact for fact in get_args(Fact)}
VERSIONS: Mapping[str, int] = {name: 1 for name in FACTS}
UPCASTERS: Mapping[tuple[str, int], Upcaster] = {}
"""(name, version) to the step that lifts a raw object of that version to the next one."""

_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_EXACT = b" "
"""Leads a body that only the standard library reads exactly: integers beyond 64 bits, unpaired surrogates."""


def encode(event: Event) -> bytes:
    """The body of the event's fact; `seq` and `at` are kept by whoever keeps the body.

    Raises `Misuse` when the fact holds something JSON cannot say. A float that is not a number is written as null.
    """
    kind: Any = type(event.fact)
    raw = _writer(kind)(event.fact)
    try:
        return orjson.dumps(raw, option=_STRICT)
    except TypeError:
        return _encode_exactly(event, raw)


def decode(seq: int, at: float, body: bytes) -> Event:
    """The event whose body this is. Raises `Unreadable` saying which event, what is wrong and how to mend it."""
    try:
        raw: Any = json.loads(body) if body[:1] == _EXACT else orjson.loads(body)
    except ValueError as error:
        raise _unreadable(seq, f"its body is not JSON ({error})", _DAMAGED) from error
    return Event(seq, at, _fact(seq, raw))


def to_line(event: Event) -> bytes:
    """One line of a log written to a file: position, time and fact, without the newline."""
    return b'{"seq":%d,"at":%s,"fact":%s}' % (event.seq, orjson.dumps(event.at), encode(event))


def from_line(line: bytes | str) -> Event:
    """The event of a line written by `to_line`. Raises `Unreadable` like `decode`."""
    try:
        outer = json.loads(line)
        seq, at, raw = int(outer["seq"]), float(outer["at"]), outer["fact"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"not a line of a log: {line[:80]!r} ({error!r}); each line holds seq, at and fact") from error
    return Event(seq, at, _fact(seq, raw))


def lift(raw: Raw, versions: Mapping[str, int], upcasters: Mapping[tuple[str, int], Upcaster]) -> Raw:
    """The raw object, brought to the version its name has in `versions`. `LookupError` where there is no way."""
    version = raw["v"]
    while version != versions[raw["t"]]:
        raw = upcasters[raw["t"], version](raw)
        version += 1
        raw["v"] = version
    return raw


_DAMAGED = "it is damaged, or something else or a newer version wrote it: upgrade, restore a backup, or read up to here"
_NEWER = "it was written by a newer version of Capataz: upgrade this one"


def _unreadable(seq: int, what: str, mend: str) -> Unreadable:
    return Unreadable(f"event {seq} cannot be read: {what}; {mend}")


def _fact(seq: int, raw: Any) -> Fact:
    """The fact a raw object says. The common case, today's version, takes one comparison."""
    if not isinstance(raw, dict):
        raise _unreadable(seq, "its body is not an object", _DAMAGED)
    found = cast(Raw, raw)
    name, version = found.get("t"), found.get("v")
    known = VERSIONS.get(name) if isinstance(name, str) else None
    if version != known or known is None:
        found = _lifted(seq, found, known)
    try:
        kind: Any = FACTS[found["t"]]
        return cast(Fact, _reader(kind)(found))
    except (KeyError, TypeError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise _unreadable(seq, f"{found['t']} {what}", _DAMAGED) from error


def _lifted(seq: int, raw: Raw, known: int | None) -> Raw:
    name, version = raw.get("t"), raw.get("v")
    if not isinstance(name, str) or type(version) is not int or version < 1:
        raise _unreadable(seq, f"its name is {name!r} and its version {version!r}", _DAMAGED)
    if known is not None and version > known:
        raise _unreadable(seq, f"{name} has version {version}, at most {known} is known here", _NEWER)
    try:
        return lift(raw, VERSIONS, UPCASTERS)
    except LookupError as error:
        raise _unreadable(seq, f"there is no fact {name!r} of version {version} here", _NEWER) from error


def _encode_exactly(event: Event, raw: Raw) -> bytes:
    """The slow way, for values the fast one refuses. What this refuses too is not JSON."""
    try:
        return _EXACT + json.dumps(raw, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        name = type(event.fact).__name__
        raise Misuse(
            f"event {event.seq} ({name}) holds something JSON cannot say: {error}. "
            "Arguments and results must be text, numbers, booleans, null, lists and objects of these"
        ) from error


# ── writers ──────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _writer(cls: Any) -> Writer:
    """A function from an instance of the class to a raw object without the defaults."""
    head: Raw = {"t": cls.__name__, "v": VERSIONS[cls.__name__]} if cls.__name__ in VERSIONS else {}
    hints = _hints(cls)
    names = [f.name for f in fields(cls)]
    values: Callable[[Any], tuple[Any, ...]] = attrgetter(*names, names[0])  # one name alone would give a bare value
    plan = tuple((f.name, f.default, _value_writer(hints[f.name])) for f in fields(cls))

    def write(instance: Any) -> Raw:
        raw = head.copy()
        for value, (name, default, writer) in zip(values(instance), plan, strict=False):
            if value is default or value == default:
                continue
            raw[name] = value if writer is None or value is None else writer(value)
        return raw

    return write


def _value_writer(hint: Any) -> Writer | None:
    """How a value of this type is written; None where it is JSON already."""
    hint = _without_none(hint)
    if hint is Decimal:
        return str
    if _is_shape(hint):
        return _writer(hint)
    if get_origin(hint) is tuple:
        item = _value_writer(get_args(hint)[0])
        return list if item is None else lambda values: [item(value) for value in values]
    return _as_dict if get_origin(hint) is Mapping else None


def _as_dict(value: Mapping[str, Any]) -> Raw:
    return cast(Raw, value) if type(value) is dict else dict(value)


# ── readers ──────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _reader(cls: Any) -> Reader:
    """A function from a raw object to an instance of the class. Fields it does not know are left out."""
    hints = _hints(cls)
    plan = tuple((f.name, f.default, _value_reader(hints[f.name])) for f in fields(cls))

    def read(raw: Any) -> Any:
        if type(raw) is not dict:
            raise ValueError(f"has {raw!r:.60} where {cls.__name__} belongs")
        values: list[Any] = []
        for name, default, reader in plan:
            if name in raw:
                values.append(reader(raw[name]))
            elif default is MISSING:
                raise KeyError(name)
            else:
                values.append(default)
        return cls(*values)

    return read


def _value_reader(hint: Any) -> Reader:
    """How a value of this type is read. Anything else than what was written is refused with `ValueError`."""
    bare = _without_none(hint)
    if bare is not hint:
        inner = _value_reader(bare)
        return lambda value: None if value is None else inner(value)
    if hint is object:
        return lambda value: value
    if hint is Decimal:
        return _read_decimal
    if _is_shape(hint):
        return _reader(hint)
    if get_origin(hint) is tuple:
        return _tuple_reader(_value_reader(get_args(hint)[0]))
    if get_origin(hint) is Literal:
        return _word_reader(frozenset(get_args(hint)))
    return _plain_reader(dict if get_origin(hint) is Mapping else hint)


def _plain_reader(kind: type[Any]) -> Reader:
    allowed = (float, int) if kind is float else (kind,)

    def read(value: Any) -> Any:
        if type(value) not in allowed:
            raise ValueError(f"has {value!r:.60} where a {kind.__name__} belongs")
        return value

    return read


def _word_reader(words: frozenset[str]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not str or value not in words:
            raise ValueError(f"has {value!r:.60}, which is none of {', '.join(sorted(words))}")
        return value

    return read


def _tuple_reader(item: Reader) -> Reader:
    def read(values: Any) -> Any:
        if type(values) is not list:
            raise ValueError(f"has {values!r:.60} where a list belongs")
        return tuple(map(item, cast("list[object]", values)))

    return read


def _read_decimal(value: Any) -> Decimal:
    try:
        return Decimal(value)
    except (InvalidOperation, TypeError) as error:
        raise ValueError(f"has {value!r:.60} where an amount belongs") from error


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────


def _hints(cls: Any) -> dict[str, Any]:
    """The fields' types. JSON values are `object` here: they are kept as they are."""
    return get_type_hints(cls, localns={"JSON": object})


def _is_shape(hint: Any) -> bool:
    return is_dataclass(hint)


def _without_none(hint: Any) -> Any:
    """`X` for `X | None`; anything else as it is."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    (bare,) = [part for part in get_args(hint) if part is not NoneType]
    return bare
