"""How long a provider asks to be left alone, in seconds, whichever way it says so.

The hints are looked at in a fixed order and the first readable one counts. Nothing here knows how long we are willing
to wait: that is the budget's business. The clock comes in as data, and only HTTP dates need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from math import isfinite
from typing import cast

from capataz.events.facts import JSON

_UNIT = r"(ms|milliseconds?|µs|us|ns|d|h|m|s|seconds?|secs?|minutes?|mins?|hours?|days?)"
_PART = re.compile(rf"(\d+(?:\.\d+)?)\s*{_UNIT}(?![a-z])", re.IGNORECASE)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SAID = re.compile(
    r"(?:try again|retry|wait|available again|reset)\w*\s+(?:your request\s+)?(?:after|in|for|at least)?\s*"
    rf"(?:about\s+)?((?:\d+(?:\.\d+)?\s*{_UNIT}\s*)+)(?![a-z])",
    re.IGNORECASE,
)
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?\Z")
_HTTP = re.compile(
    r"(?:\w+,\s*)?(\d{1,2})[ -](\w{3})[ -](\d{2}|\d{4})\s+(\d\d):(\d\d):(\d\d)\s*(?:GMT|UTC|Z|[+-]0000)\Z"
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def wait_hint(headers: Mapping[str, str], body: JSON, message: str = "", now: float | None = None) -> float | None:
    """Seconds to wait; None when there is no readable hint. `headers` have lower-case names.

    Order: `retry-after-ms`, `retry-after` (seconds, then HTTP date), the body's own fields, `x-ratelimit-reset-*`
    and kin, then the words of the message.
    """
    today = _date(headers.get("date", ""))
    now = today if today is not None else now
    for seconds in _hints(headers, body, message, now):
        if seconds is not None and isfinite(seconds):
            return max(0.0, seconds)
    return None


def _hints(headers: Mapping[str, str], body: JSON, message: str, now: float | None) -> Iterator[float | None]:
    milliseconds = _number(headers.get("retry-after-ms", "") or headers.get("x-ms-retry-after-ms", ""))
    yield None if milliseconds is None or milliseconds < 0 else milliseconds / 1000
    after = headers.get("retry-after", "").strip()
    seconds = _number(after)
    yield seconds if seconds is not None and seconds >= 0 else None
    yield from _until(_date(after), now)
    yield duration(after) if after and seconds is None else None
    yield from _body(body)
    yield _resets(headers, now)
    for inner in _inner_headers(body):
        yield from _hints(inner, None, "", now)
    said = _SAID.search(message)
    yield duration(said[1]) if said else None


def _until(moment: float | None, now: float | None) -> Iterator[float | None]:
    if moment is not None and now is not None:
        yield max(0.0, moment - now)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _date(text: str) -> float | None:
    """Seconds since the epoch of an HTTP date or an ISO 8601 moment."""
    text = text.strip()
    iso, http = _ISO.match(text), _HTTP.match(text)
    try:
        if iso:
            return _moment([int(iso[part]) for part in range(1, 7)], _zone(iso[7]))
        if http:
            year, month = int(http[3]), _MONTHS.index(http[2].lower()) + 1
            rest = [int(http[part]) for part in (1, 4, 5, 6)]
            return _moment([year if year > 99 else year + 2000, month, *rest], UTC)
    except (ValueError, OverflowError):
        return None
    return None


def _moment(parts: list[int], zone: timezone) -> float:
    year, month, day, hour, minute, second = parts
    return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=zone).timestamp()


def _zone(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:])
    return timezone((1 if text[0] == "+" else -1) * timedelta(hours=hours, minutes=minutes))


def duration(text: str) -> float | None:
    """Seconds of `6m0s`, `7.66s`, `76ms`, `45.837912345s`, `1h2m`; a bare number is seconds.

    >>> duration("6m0s"), duration("76ms"), duration("soon")
    (360.0, 0.076, None)
    """
    text = text.strip()
    bare = _number(text)
    if bare is not None:
        return bare
    rest = _PART.sub("", text).strip()
    if not text or rest.strip(" ,and."):
        return None
    total = 0.0
    for match in _PART.finditer(text):
        unit = match[2].lower()
        if unit not in _UNITS:
            unit = "ms" if unit.startswith("milli") else unit[0]
        total += float(match[1]) * _UNITS[unit]
    return total


def _body(body: JSON) -> Iterator[float | None]:
    """Gemini's RetryInfo first, then its quota reset delay, then the plain fields of others."""
    details = [item for item in _walk(body) if isinstance(item, dict)]
    for item in details:
        yield _duration(item.get("retryDelay"))
    for item in details:
        yield _duration(item.get("quotaResetDelay"))
    for item in details:
        for name in ("retry_after", "retryAfter", "retry_after_seconds", "retryAfterSeconds"):
            yield _duration(item.get(name))
        milliseconds = item.get("retry_after_ms")
        yield milliseconds / 1000 if isinstance(milliseconds, (int, float)) else None


def _duration(value: JSON) -> float | None:
    if isinstance(value, dict):
        seconds, nanos = value.get("seconds", 0), value.get("nanos", 0)
        whole = _number(str(seconds))
        return None if whole is None else whole + (nanos / 1e9 if isinstance(nanos, (int, float)) else 0)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return duration(value) if isinstance(value, str) else None


def _walk(node: JSON, depth: int = 0) -> Iterator[JSON]:
    if depth > 8:
        return
    yield node
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _walk(item, depth + 1)


def _inner_headers(body: JSON) -> Iterator[Mapping[str, str]]:
    """Some gateways quote the headers of the provider behind them in the body."""
    for item in _walk(body):
        if isinstance(item, dict) and isinstance(item.get("headers"), dict):
            yield {name.lower(): str(value) for name, value in cast("dict[str, JSON]", item["headers"]).items()}


def _resets(headers: Mapping[str, str], now: float | None) -> float | None:
    """The reset of what is used up; where none says so, the longest."""
    used: list[float] = []
    every: list[float] = []
    for name, value in headers.items():
        seconds = _reset(value, now) if "ratelimit" in name and "reset" in name else None
        if seconds is not None:
            every.append(seconds)
            left = _number(headers.get(name.replace("reset", "remaining"), ""))
            if left is not None and left <= 0:
                used.append(seconds)
    return max(used or every, default=None)


def _reset(value: str, now: float | None) -> float | None:
    """A duration, or a moment: a date, seconds or milliseconds since the epoch."""
    number = _number(value)
    if number is not None and number > 1e9:
        moment = number / 1000 if number > 1e11 else number
        return None if now is None else max(0.0, moment - now)
    span = duration(value)
    if span is not None:
        return span if span >= 0 else None
    until = _date(value)
    return None if until is None or now is None else max(0.0, until - now)
