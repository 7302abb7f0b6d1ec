"""The small tools every dialect shares: JSON that never fails, call arguments, ids and names that fit a provider.

Providers differ in what they refuse, and one refused byte loses the whole request. So each function here is total:
it gives something valid for any input, and the same for the same input. Nothing here may repair a cut call into one
that could run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

import orjson

from capataz.events.facts import JSON
from capataz.ports import RawCall

WRAPPED = "_unreadable_arguments"
"""Key under which arguments that are not a JSON object are kept, so that a history with them can be replayed."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_LONG_NUMBER = re.compile(r"\d{16,}")
_LITERAL_START = re.compile(r"(?:t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|-|\.\d*|\.?\d*[eE][+-]?|\.\d+[eE][+-]?)\Z")
_ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def bearer(key: str | None) -> dict[str, str]:
    """The headers of a JSON request, with the key where there is one.

    >>> bearer("k")
    {'content-type': 'application/json', 'authorization': 'Bearer k'}
    """
    made = {"content-type": "application/json"}
    return {**made, "authorization": f"Bearer {key}"} if key else made


def dumps(value: object) -> bytes:
    """Compact JSON of anything a history may hold. Whatever JSON cannot say is said as text."""
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        return json.dumps(_clean(value), ensure_ascii=False, separators=(",", ":")).encode()


def loads(data: bytes | str) -> Any:
    """JSON to Python. Raises `ValueError` on anything else."""
    return orjson.loads(data)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, (Sequence, set, frozenset)):
        return list(cast("Sequence[object]", value))
    return str(value)


def _clean(value: object, depth: int = 0) -> object:
    """The slow road: lone surrogates, numbers beyond 64 bits, keys that are not text, bottomless nesting."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if depth > 200:
        return "..."
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(_clean(str(key))): _clean(item, depth + 1) for key, item in items}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_clean(item, depth + 1) for item in cast("Sequence[object]", value)]
    return str(_clean(str(value)))


# ── arguments ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a model wrote as arguments, read. With a `problem` the call must not run and `value` only keeps the text."""

    value: dict[str, JSON]
    problem: Literal["cut", "not-json", "not-object"] | None = None


def read_arguments(raw: RawCall) -> Arguments:
    """Read the arguments of a call as they were written. An empty text means no arguments; nothing is repaired.

    >>> read_arguments(RawCall("1", "f", '{"a": 1}')).value
    {'a': 1}
    >>> read_arguments(RawCall("1", "f", '{"a": "hal')).problem
    'cut'
    """
    text = raw.arguments.strip()
    if not text and not raw.cut:
        return Arguments({})
    value, problem = _parsed(text)
    if raw.cut or problem is not None:
        return Arguments({WRAPPED: raw.arguments}, "cut" if raw.cut else problem)
    return Arguments(cast("dict[str, JSON]", value))


def _parsed(text: str) -> tuple[object, Literal["cut", "not-json", "not-object"] | None]:
    try:
        # The fast parser turns integers beyond 64 bits into floats: an order number would become another one.
        value = json.loads(text) if _LONG_NUMBER.search(text) else orjson.loads(text)
    except (ValueError, RecursionError):
        return None, "cut" if unterminated(text) else "not-json"
    if not isinstance(value, dict):
        return None, "not-object"
    return cast("object", value), None


def unterminated(text: str) -> bool:
    """Whether this is the beginning of JSON that was not written to its end, as opposed to wrong JSON.

    >>> unterminated('{"text": "half of'), unterminated('{"action": listt"}'), unterminated("{}")
    (True, False, False)
    """
    text = text.strip()
    if not text:
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string"):
            return True
        rest = text[error.pos :]
        if "escape" in error.msg:
            return len(rest) < 6 and '"' not in rest
        return not rest or _LITERAL_START.match(rest) is not None
    except (ValueError, RecursionError):
        return False
    return False


def is_cut(arguments: str) -> bool:
    """Whether the arguments of a call lack their end. Whole JSON is told apart fast."""
    if not arguments:
        return False
    try:
        orjson.loads(arguments)
    except ValueError:
        return unterminated(arguments)
    return False


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=4096)
def wire_name(name: str) -> str:
    """A tool's name as every provider accepts it: letters, digits, `_`, `-`, at most 64. Itself where it fits.

    >>> wire_name("find_order")
    'find_order'
    """
    if _NAME.match(name):
        return name
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name.encode("utf-8", "replace").decode())[:55]
    return f"{readable}_{_digest(name)[:8]}"


def neutral_names(names: Sequence[str]) -> dict[str, str]:
    """The way back: from the name on the wire to the name of the tool, for those that had to be renamed."""
    return {wire_name(name): name for name in names if wire_name(name) != name}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


# ── ids ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class IdRule:
    """Which call ids a provider takes. `fixed` means exactly that many letters and digits, always made by hashing."""

    pattern: re.Pattern[str]
    fixed: int | None = None

    def fit(self, id: str, taken: Callable[[str], bool], place: int) -> str:
        """The id for the wire: itself where it fits and is free, else one made from it and its place. Stable."""
        if self.fixed is None and not taken(id) and self.pattern.match(id):
            return id
        turn = 0
        while True:
            seed = id if turn == 0 and id and self.fixed else f"{id}\x00{place}\x00{turn}"
            made = _short(seed, self.fixed) if self.fixed else f"call_{_digest(seed)[:24]}"
            if not taken(made):
                return made
            turn += 1


def _short(seed: str, length: int) -> str:
    number, letters = int(_digest(seed), 16), ""
    for _ in range(length):
        number, rest = divmod(number, len(_ALPHANUMERIC))
        letters += _ALPHANUMERIC[rest]
    return letters


FORTY = IdRule(re.compile(r"[A-Za-z0-9_.:-]{1,40}\Z"))
SIXTY_FOUR = IdRule(re.compile(r"[A-Za-z0-9_-]{1,64}\Z"))
NINE = IdRule(re.compile(r"[A-Za-z0-9]{9}\Z"), fixed=9)


# ── images ───────────────────────────────────────────────────────────────────────────────────────────────

_DATA_URL = re.compile(r"data:([A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+);base64,([A-Za-z0-9+/=\s]+)\Z")


def image_parts(url: str) -> tuple[str, str] | None:
    """Media type and base64 text of a `data:` URL; None when it is something else."""
    found = _DATA_URL.match(url)
    return (found[1], found[2]) if found else None
