"""Saying when two calls, or two results, are the same although their bytes differ.

Key order, number spelling, path spelling, request ids and clocks are noise; everything else is meaning, white space
in arguments and plain digits above all. The work is done on sorted JSON bytes, and a pattern runs only where a cheap
look says there may be something to find. Nothing is kept: callers hold hashes, never texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b

import orjson

from capataz.events.facts import ACTING, JSON, Kind

LONGEST = 16_384
"""Bytes of a result that are normalised; the rest counts as it is."""

_VALUE = rb'(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)'
_NOISY_ARGUMENT = re.compile(
    rb'"(?:x_)?(?:request_?id|req_?id|trace_?id|span_?id|correlation_?id|idempotency_?key|client_?token|nonce'
    rb"|reason|rationale|explanation|justification|thoughts?|thinking|reasoning)\":" + _VALUE,
    re.IGNORECASE,
)
_CLOCK_KEYS = (
    rb'"(?:ts|now|clock|time|timestamp|date_?time|server_?time|as_?of|expires|expires_?(?:at|in)|age|uptime|ttl|eta'
    rb"|(?:\w*_)?(?:elapsed|waited|waiting|took|duration)(?:_?(?:s|ms|us|ns|sec|secs|seconds|min|minutes))?"
    rb"|(?:\w+_)?(?:updated|created|checked|generated|fetched|queried|sampled|polled|started|finished|seen)_?(?:at|on)?"
    rb'|last_(?:seen|checked|poll|update|beat)|heartbeat)":'
)
_TRANSPORT_KEYS = (
    rb'"(?:x_)?(?:request|req|trace|span|correlation|invocation|session|connection|conn|call|query|attempt|process'
    rb'|thread)(?:_?id)?":|"(?:p|ray_?)id":|"(?:nonce|served_?by|server|backend|replica|upstream|via|attempt)":'
)
_NOISY_FIELD = re.compile(rb"(?:" + _CLOCK_KEYS + rb"|" + _TRANSPORT_KEYS + rb")" + _VALUE, re.IGNORECASE)
_RECEIPT_FIELD = re.compile(
    rb'"(?:\w+_?id|id|ref|reference|receipt|uuid|guid|rev|revision|version|seq|sequence|etag)":' + _VALUE, re.IGNORECASE
)
_FRESH_ID = re.compile(rb'"\w*_?id":"(?=[^"]*\d)[0-9a-f-]{6,}"', re.IGNORECASE)
_HEX_RECEIPT = re.compile(rb"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b", re.IGNORECASE)
_CLOCKS = (
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d(?:[.,]\d+)?"
    rb"|\b1[4-9]\d{8}(?:\d{3})?\b(?!\.)"
)
_RANDOMS = (
    rb"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    rb"|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{10,}\b"
    rb"|(?-i:(?=[A-Za-z0-9+/_-]{0,60}[A-Z])(?=[A-Za-z0-9+/_-]{0,60}[a-z])[A-Za-z0-9+/_-]{40,}={0,2})"
)
_LABELLED = (
    rb"\b(?:request|req|ref(?:erence)?|trace|session|attempt|try|pid|rev(?:ision)?|correlation|conn(?:ection)?)"
    rb"(?:[ _-]?id)?[ :=#]{1,3}(?=[0-9a-f-]*\d)[0-9a-z-]+\b"
)
_SPANS = rb"\b(?:in|after|took|elapsed|waited|for) \d+(?:\.\d+)? ?(?:ms|us|ns|s|secs?|seconds?|m|mins?|minutes?)\b"
_NOISE = re.compile(rb"|".join((_CLOCKS, _RANDOMS, _LABELLED, _SPANS)), re.IGNORECASE)
_WHOLE = re.compile(rb"(?<=[:,\[])(-?\d+)\.0+(?=[,\]}])")
_DIGIT = re.compile(rb"\d")
_COMMAND_KEYS = frozenset(("command", "cmd", "code", "script"))
_LABEL_KEYS = frozenset(("description", "label", "title", "summary"))
_SEGMENTS = re.compile(r"\s*(?:;|&&)\s*")
_ARGUMENT_HINTS = re.compile(
    rb'[\\;]|&&|\./|//|\.0[,\]}]|reason|ration|explan|justif|think|thought|_?id"|nonce|token|key"'
)


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
    data = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
    if not _LABEL_KEYS.isdisjoint(arguments) and not _COMMAND_KEYS.isdisjoint(arguments):
        arguments = {key: value for key, value in arguments.items() if key not in _LABEL_KEYS}
        data = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
    if _ARGUMENT_HINTS.search(data) is None:
        return data
    if b"\\" in data or b"/" in data or b";" in data or b"&&" in data:
        tidy = {key: _tidy(value) if isinstance(value, str) else value for key, value in arguments.items()}
        data = orjson.dumps(tidy, option=orjson.OPT_SORT_KEYS)
    data = _NOISY_ARGUMENT.sub(b"", data)
    return _WHOLE.sub(rb"\1", data)


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
    data = orjson.dumps(result, option=orjson.OPT_SORT_KEYS)
    if len(data) > LONGEST:
        return _denoise(data[:LONGEST], kind) + data[LONGEST:]
    if len(data) < 12 or (len(data) < 42 and _DIGIT.search(data) is None):
        return data
    return _denoise(data, kind)


def _denoise(data: bytes, kind: Kind) -> bytes:
    data = _NOISE.sub(b"~", data)
    if b'":' in data:
        data = _NOISY_FIELD.sub(b"", data)
        if kind in ACTING:
            data = _FRESH_ID.sub(b"", data)
            if kind != "exec":
                data = _RECEIPT_FIELD.sub(b"", data)
    if kind == "write" or kind == "message":
        data = _HEX_RECEIPT.sub(b"~", data)
    if b".0" in data:
        data = _WHOLE.sub(rb"\1", data)
    return data


_WORD = re.compile(r"[a-z0-9_]+(?:\.[0-9]+)?")
_IGNORED = frozenset(
    ("a", "an", "the", "is", "was", "are", "be", "of", "to", "in", "on", "at", "for", "and", "or", "error")
)


def error_words(result: JSON, arguments: Mapping[str, JSON], tool: str) -> frozenset[str]:
    """The words of an error message without noise and without what it only echoes of the call.

    >>> sorted(error_words("EACCES: permission denied, open '/root/k'", {"path": "/root/k"}, "read"))
    ['denied', 'eacces', 'open', 'permission']
    """
    text = result if isinstance(result, str) else orjson.dumps(result).decode()
    text = _NOISE.sub(b"~", text[:2048].encode()).decode(errors="replace")
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
