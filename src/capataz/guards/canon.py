"""Saying when two calls, or two results, are the same although their bytes differ.

Key order, number spelling, path spelling, request ids and clocks are noise; everything else is meaning, white space
in arguments and plain digits above all. The work is done on sorted JSON bytes, and a pattern runs only where a cheap
look says there may be something to find. Nothing is kept: callers hold hashes, never texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

import orjson

from capataz.events.facts import JSON, Kind
from capataz.events.plain import shallow

HEAD = 1_024
"""Bytes at the start and at the end of a long result that are cleaned of noise; its middle counts as it is."""
OPENED = 16_384
"""Characters of a text that is opened if it looks like JSON."""
DEPTH = 64
"""Levels of a result that are looked at for noise."""
NODES = 512
"""Fields of a structured result that are looked at for noise."""

_CLOCK_KEY = re.compile(
    r"(?:ts|now|clock|time|timestamp|date_?time|server_?time|as_?of|expires|expires_?(?:at|in)|age|uptime|ttl|eta"
    r"|(?:\w*_)?(?:elapsed|waited|waiting|took|duration)(?:_?(?:s|ms|us|ns|secs?|seconds|min|minutes))?"
    r"|(?:\w+_)?(?:updated|created|checked|generated|fetched|queried|sampled|polled|started|finished|seen)_?(?:at|on)"
    r"|last_(?:seen|checked|poll|update|updated|beat)|heartbeat"
    r"|(?:x_)?(?:request|req|trace|span|correlation|invocation|session|connection|conn|call|query|attempt|process"
    r"|thread)(?:_?id)?|(?:p|ray_?)id|nonce|served_?by|server|backend|replica|upstream|via)",
    re.IGNORECASE,
)
_RECEIPT_KEY = re.compile(
    r"(?:\w+_?id|id|ref|reference|receipt|uuid|guid|rev|revision|version|seq|sequence|etag)", re.IGNORECASE
)
_ID_KEY = re.compile(r"\w*_?id", re.IGNORECASE)
_FRESH = re.compile(r"(?=.*\d)[0-9a-fA-F-]{6,}")
_NOISY_ARGUMENT = re.compile(
    r"(?:x_)?(?:request_?id|req_?id|trace_?id|span_?id|correlation_?id|idempotency_?key|client_?token|nonce"
    r"|reason|rationale|explanation|justification|thoughts?|thinking|reasoning)",
    re.IGNORECASE,
)


def _table(classes: Mapping[str, str]) -> bytes:
    """A byte table that shows every character of a class as one and the same mark."""
    table = bytearray(range(256))
    for mark, members in classes.items():
        for member in members:
            table[ord(member)] = ord(mark)
    return bytes(table)


_DIGITS, _HEXES = "0123456789", "0123456789abcdefABCDEF"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_OUTLINE = _table({"0": _DIGITS, **{letter.lower(): letter for letter in _LETTERS[26:]}})
_HEX_OUTLINE = _table({"0": _HEXES})
_BLOB_OUTLINE = _table({"0": _DIGITS + _LETTERS + "+/_-"})
_RUN_6, _RUN_10, _RUN_40 = "0" * 6, "0" * 10, "0" * 40
_CLOCK = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
    rb"|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?"
)
_EPOCH = re.compile(rb"1[4-9][0-9]{8}(?:[0-9]{3})?(?![0-9])")
_HEX = re.compile(
    rb"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    rb"|(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{10,})(?![0-9A-Za-z])"
)
_BLOB = re.compile(rb"(?=[A-Za-z0-9+/_-]{0,60}?[A-Z])(?=[A-Za-z0-9+/_-]{0,60}?[a-z])[A-Za-z0-9+/_-]{40,}={0,2}")
_SPAN = re.compile(
    rb"[0-9]+(?:\.[0-9]+)? ?(?:ms|us|ns|s|secs?|seconds?|m|mins?|minutes?|segundos?|segons?|secondes?|secondi?"
    rb"|[Ss]ekunden?|minutos?|minuts?|[Mm]inuten?|minut[io])\b"
)
_BEFORE_SPAN = (
    *(b" in ", b" for ", b"took ", b"took: ", b" after ", b"waited ", b"elapsed "),
    *(b" hace ", b" fa ", b" depuis ", b" seit ", b" da "),
)
_LABELLED = re.compile(
    rb"\b(?:request|req|ref|reference|trace|session|attempt|try|pid|rev|revision|correlation|conn|connection)"
    rb"(?:[ _-]?id)?[ :=#]{1,3}(?=[0-9a-f-]*[0-9])[0-9a-z-]+\b",
    re.IGNORECASE,
)
_LABEL_HINT = re.compile(
    r"(?:request|req|reference|ref|trace|session|attempt|try|pid|revision|rev|correlation|connection|conn)"
    r"(?:[ _-]?id)?[ :=#]{1,3}[0a-z-]{0,40}0"
)
_RECEIPT = re.compile(rb"(?<![0-9A-Za-z])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{6,}(?![0-9A-Za-z])")
_WHOLE = re.compile(rb"(?<=[:,\[])(-?[0-9]+)\.0+(?=[,\]}])")
_COMMAND_KEYS = frozenset(("command", "cmd", "code", "script"))
_LABEL_KEYS = frozenset(("description", "label", "title", "summary"))
_SEGMENTS = re.compile(r"\s*(?:;|&&)\s*")


@lru_cache(maxsize=4096)
def _noise_among(keys: tuple[str, ...]) -> frozenset[str]:
    """Which arguments of a call with these names are noise: ids of the request, reasons, and labels of a command."""
    noise = {key for key in keys if _NOISY_ARGUMENT.fullmatch(key)}
    if not _COMMAND_KEYS.isdisjoint(keys):
        noise |= _LABEL_KEYS.intersection(keys)
    return frozenset(noise)


@lru_cache(maxsize=4096)
def _noise_fields(keys: tuple[str, ...], kind: Kind) -> tuple[frozenset[str], frozenset[str]]:
    """Which fields of a result with these names are noise, and which are when what they hold looks drawn."""
    noise = {key for key in keys if _CLOCK_KEY.fullmatch(key)}
    if kind == "write" or kind == "message":
        noise |= {key for key in keys if _RECEIPT_KEY.fullmatch(key)}
    drawn = {key for key in keys if _ID_KEY.fullmatch(key)} if kind == "exec" else set[str]()
    return frozenset(noise), frozenset(drawn - noise)


def _dumps(value: JSON | Mapping[str, JSON]) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # numbers or texts that JSON libraries disagree on: still the same every time
        return repr(value).encode(errors="backslashreplace")


def digest(data: bytes) -> str:
    """Eight bytes in hex that name these bytes in every process; Python's own hash does not."""
    return blake2b(data, digest_size=8).hexdigest()


def argument_bytes(arguments: Mapping[str, JSON]) -> bytes:
    """Sorted JSON of the arguments with the noise taken out.

    >>> argument_bytes({"b": 1.0, "a": "./x"}) == argument_bytes({"a": "x", "b": 1})
    True
    """
    if not arguments:
        return b"{}"
    if noise := _noise_among(tuple(arguments)):
        arguments = {key: value for key, value in arguments.items() if key not in noise}
    try:
        data = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        data = _dumps(arguments)
    if not _is_untidy(data.decode("latin-1")):
        return data
    data = _dumps({key: _tidy(value) if isinstance(value, str) else value for key, value in arguments.items()})
    return _WHOLE.sub(rb"\1", data) if b".0" in data else data


def meaningful(arguments: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The arguments without those that are noise by their name."""
    noise = _noise_among(tuple(arguments))
    return {key: value for key, value in arguments.items() if key not in noise} if noise else arguments


def _is_untidy(text: str) -> bool:
    """Written out and on text, since it runs for every call: looking into bytes takes five times as long."""
    if "/" in text and ("./" in text or "//" in text or '/"' in text):
        return True
    return "\\" in text or ";" in text or ".0" in text or "&&" in text


def _tidy(text: str) -> str:
    """One spelling for a path; one copy of a command that only repeats itself."""
    if ";" in text or "&&" in text:
        parts = _SEGMENTS.split(text.strip())
        kept = [part for at, part in enumerate(parts) if part and part not in parts[:at]] if len(parts) < 64 else parts
        return text if len(kept) == len(parts) else "; ".join(kept)
    if len(text) > 512 or " " in text or "\n" in text or "://" in text or ("/" not in text and "\\" not in text):
        return text
    path = text.replace("\\", "/")
    while "//" in path:
        path = path.replace("//", "/")
    while "/./" in path:
        path = path.replace("/./", "/")
    path = path.removeprefix("./")
    return path.rstrip("/") or path


def result_bytes(result: JSON, kind: Kind) -> bytes:
    """JSON of the result with clocks, request ids and, after an act, its fresh receipt ids taken out.

    What a write or message answers with is a receipt: a new id or revision number in it is not news. What a read
    answers with is data: only fields and patterns that are noise by their nature are dropped there.

    >>> result_bytes({"ok": True, "request_id": "a1"}, "read") == result_bytes({"ok": True, "request_id": "b2"}, "read")
    True
    """
    shown = _opened(result)
    if isinstance(shown, str):
        data = shown.encode(errors="surrogatepass")
    elif isinstance(shown, dict | list):
        data = _dumps(_cleaned(shown, kind, [NODES], DEPTH))
    else:
        data = _dumps(shown)
    if len(data) < 6:
        return data
    if len(data) <= 2 * HEAD:
        return denoised(data, kind == "write" or kind == "message")
    return denoised(data[:HEAD], False) + data[HEAD:-HEAD] + denoised(data[-HEAD:], False)


def _opened(value: JSON) -> JSON:
    """What a text holds that is JSON itself, as tools answer that can only answer texts; else the value as it is."""
    if not isinstance(value, str) or value[:1] not in ("{", "[") or len(value) > OPENED:
        return value
    try:
        held: JSON = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return held if shallow(held, DEPTH) else value


def _cleaned(value: JSON, kind: Kind, left: list[int], depth: int) -> JSON:
    """The value without its noise fields; the very same object where there are none.

    `left` bounds the fields that are looked at, `depth` the levels: whoever answers may nest as he likes.
    """
    if not depth:
        return value
    if isinstance(value, dict):
        left[0] -= len(value)
        return _cleaned_object(value, kind, left, depth)
    if isinstance(value, list):
        for place, item in enumerate(value):
            if isinstance(item, dict | list):
                if left[0] <= 0:
                    break
                cleaned = _cleaned(item, kind, left, depth - 1)
                if cleaned is not item:
                    others = (_cleaned(other, kind, left, depth - 1) for other in value[place + 1 :])
                    return [*value[:place], cleaned, *others]
    return value


def _cleaned_object(value: dict[str, JSON], kind: Kind, left: list[int], depth: int) -> JSON:
    noise, drawn = _noise_fields(tuple(value), kind)
    if noise:
        value = {key: item for key, item in value.items() if key not in noise or isinstance(item, dict | list)}
    for key in drawn:
        item = value[key]
        if isinstance(item, str) and _FRESH.fullmatch(item):
            value = {other: held for other, held in value.items() if other != key}
    for key, held in value.items():
        item = _opened(held)
        if isinstance(item, dict | list) and left[0] > 0:
            cleaned = _cleaned(item, kind, left, depth - 1)
            if cleaned is not held:
                value = {**value, key: cleaned}
    return value


def denoised(data: bytes, receipt: bool) -> bytes:
    """Text without clocks, durations, random ids and numbered labels. `receipt` drops short hex ids as well.

    A pattern is tried only where the outline of the text shows that it may be there: looking for a fixed run of bytes
    is many times faster than a pattern that fails.
    """
    outline = data.translate(_OUTLINE).decode("latin-1")
    if len(data) >= 40 and _RUN_40 in data.translate(_BLOB_OUTLINE).decode("latin-1"):
        data = _BLOB.sub(b"~", data)
    if "0" not in outline:
        return data
    if "00:00" in outline:
        data = _CLOCK.sub(b"~", data)
    if _RUN_10 in outline:
        data = _EPOCH.sub(b"~", data)
    data = _without_ids(data, receipt)
    if " 0" in outline and _has_span(outline):
        data = _SPAN.sub(_span, data)
    if _has_label(outline) and _LABEL_HINT.search(outline):
        data = _LABELLED.sub(b"~", data)
    return _WHOLE.sub(rb"\1", data) if ".0" in outline and b".0" in data else data


def _span(found: re.Match[bytes]) -> bytes:
    """A time is a duration where a word before it says so; elsewhere it may be what was asked for."""
    start = found.start()
    before = found.string[max(0, start - 9) : start].lower()
    return b"~" if before.endswith(_BEFORE_SPAN) or before in (b"in ", b"for ", b"after ") else found.group()


def _has_span(outline: str) -> bool:
    return (
        "in 0" in outline
        or "for 0" in outline
        or "took" in outline
        or "after 0" in outline
        or "waited 0" in outline
        or "elapsed 0" in outline
        or "hace 0" in outline
        or "fa 0" in outline
        or "depuis 0" in outline
        or "seit 0" in outline
        or "da 0" in outline
    )


def _has_label(outline: str) -> bool:
    return (
        ("re" in outline and ("req" in outline or "ref" in outline or "rev" in outline))
        or "trace" in outline
        or "session" in outline
        or "attempt" in outline
        or "try" in outline
        or "pid" in outline
        or "correl" in outline
        or "conn" in outline
    )


def _without_ids(data: bytes, receipt: bool) -> bytes:
    outline = data.translate(_HEX_OUTLINE).decode("latin-1")
    if _RUN_6 not in outline:
        return data
    if _RUN_10 in outline or "00000000-0000" in outline:
        data = _HEX.sub(b"~", data)
    return _RECEIPT.sub(b"~", data) if receipt else data


_WORD = re.compile(r"[a-z0-9_]+(?:\.[0-9]+)?")
_IGNORED = frozenset(
    ("a", "an", "the", "is", "was", "are", "be", "of", "to", "in", "on", "at", "for", "and", "or", "error")
)


def error_words(result: JSON, arguments: Mapping[str, JSON], tool: str) -> frozenset[str]:
    """The words of an error message without noise and without what it only echoes of the call.

    >>> sorted(error_words("EACCES: permission denied, open '/root/k'", {"path": "/root/k"}, "read"))
    ['denied', 'eacces', 'open', 'permission']
    """
    shown = _opened(result)
    data = shown.encode(errors="replace") if isinstance(shown, str) else _dumps(_cleaned(shown, "exec", [NODES], DEPTH))
    text = denoised(data[: 2 * HEAD], False).decode(errors="replace")
    for value in (tool, *arguments.values()):
        if isinstance(value, str) and 2 <= len(value) <= 256:
            text = text.replace(value, " ")
    return frozenset(_WORD.findall(text.lower())) - _IGNORED


def same_words(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two messages say the same thing in nearly the same words (six in ten of all of them).

    >>> same_words(frozenset({"field", "missing", "failed"}), frozenset({"field", "missing", "failed", "required"}))
    True
    """
    if one == other:
        return True
    common = len(one & other)
    return common * 10 >= 6 * (len(one) + len(other) - common)


_ABSENT = frozenset(("404", "enoent", "nosuchkey", "missing"))


def names_absence(words: frozenset[str]) -> bool:
    """Whether an error says that something is not there.

    >>> names_absence(frozenset({"no", "such", "file"})), names_absence(frozenset({"permission", "denied"}))
    (True, False)
    """
    return (
        not _ABSENT.isdisjoint(words)
        or ("not" in words and ("found" in words or "exist" in words))
        or ("no" in words and "such" in words)
        or ("unknown" in words and "tool" not in words)
        or ("doesn" in words and "exist" in words)
    )
