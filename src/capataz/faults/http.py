"""Answers of providers that are errors, put into their row: HTTP status, headers and body, in all their shapes.

The body knows better than the status: a quota that is used up comes as 429, an overload as 200. So the provider's own
code is looked up first, then the few known sentences, then the status. Total: anything lands in exactly one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import orjson

from capataz.events.facts import JSON, Fault, Row
from capataz.faults.overflow import read_overflow
from capataz.faults.taxonomy import CODES, HIDDEN, STATUSES, VAGUE
from capataz.faults.waiting import wait_hint
from capataz.faults.words import shown

_QUOTA = re.compile(
    r"exceeded your current quota|insufficient[ _](?:quota|credits?|balance|funds)|credit balance is too low|billing"
    r"|out of credits|quota (?:has been )?exhausted|(?:monthly|spending) (?:limit|cap|quota)|requires more credits"
    r"|free-models-per-day|add \d+ credits|payment required",
    re.IGNORECASE,
)
_SENTENCES: tuple[tuple[re.Pattern[str], Row, str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), row, reason)
    for pattern, row, reason in cast(
        "tuple[tuple[str, Row, str], ...]",
        (
            (r"no user query found", "invalid_input", "window-cut"),
            (r"credit balance is too low", "auth", "quota"),
            (r"api[_ -]?key (?:not valid|expired|is invalid)|(?:invalid|incorrect|missing) api[_ -]?key|invalid token"
             r"|token (?:has )?expired|invalid x-api-key",
             "auth", "authentication"),
            (r"user location is not supported|not (?:enabled|activated) for|has not been used in project|enable billing"
             r"|does not have access|not authorized to",
             "auth", "permission"),
            (r"content[_ ]filter|content management policy|content policy|safety (?:system|policy)|blocked by"
             r"|usage polic(?:y|ies)",
             "invalid_input", "content-filter"),
            (r"failed to (?:call a function|parse tool call)|malformed function call|tool call validation failed"
             r"|attempted to call tool .* which was not",
             "contract", "malformed-call"),
            (r"(?:unsupported|unrecognized|unknown|deprecated|not permitted)\W{1,3}(?:request )?"
             r"(?:parameter|argument|value|field)"
             r"|(?:parameter|argument|field|temperature|top_p|top_k|max_tokens)\W[^.]{0,60}"
             r"(?:not supported|unsupported|not permitted|deprecated|does not support|not allowed)"
             r"|unsupported_(?:parameter|value)"
             r"|does not support (?:the )?(?:parameter )?['`\"]?(?:temperature|top_p|top_k|max_tokens|system)"
             r"|extra inputs are not permitted|may not both be specified|cannot both be specified",
             "invalid_input", "unsupported-parameter"),
        ),
    )
)  # fmt: skip
_PER_DAY = re.compile(r"\b(?:tokens|requests|limit|quota)\b.{0,30}\bper[ -]day\b|daily (?:limit|quota)", re.IGNORECASE)
_TOO_BIG = re.compile(r"request too large|must be reduced in order to run", re.IGNORECASE)


_CODED = ("code", "Code", "reason", "status", "type", "__type", "error_type")


@dataclass(frozen=True, slots=True)
class Told:
    """What a body says about an error, whatever its shape."""

    message: str = ""
    codes: tuple[str, ...] = ()
    """The provider's words for it, most telling first, lower case."""
    status: int | None = None
    """A status given in the body."""
    body: JSON = None
    error: bool = False
    """The body says at all that there is an error."""


def classify_http(
    status: int,
    headers: Mapping[str, str],
    body: bytes | str | JSON,
    provider: str = "",
    now: float | None = None,
) -> Fault:
    """The row of an error a provider answered with. Total; never raises.

    A status of 200 (or 0, where there was none) means that the error stood in the body. `now` (seconds since the
    epoch) is only used to turn a date into a wait, and only where the headers carry no date of their own.

    >>> classify_http(429, {"retry-after": "2"}, {"error": {"code": "rate_limit_exceeded"}}).wait
    2.0
    """
    low = {str(name).lower(): str(value) for name, value in headers.items()}
    told = read_body(body, low)
    real = told.status if not 300 <= status < 600 and told.status is not None else status
    row, reason = _row(real, told, provider)
    message = _message(real, told, reason)
    retries: int | None = None
    again = low.get("x-should-retry", "").strip().lower()
    if again == "true" and row in ("invalid_input", "unknown") and _by_status_alone(real, told):
        row, reason = "transient", "provider-says-retry"
    elif again == "false" and row in ("transient", "rate_limit", "unknown"):
        retries = 0
    wait = wait_hint(low, told.body, told.message, now) if row in ("transient", "rate_limit", "unknown") else None
    if row == "rate_limit" and wait is None and _PER_DAY.search(told.message):
        row, reason = "auth", "quota"
    room = _room(told.message) if reason == "output-reserve-too-large" else None
    return Fault(row, reason, message, status=real or None, wait=wait, retries=retries, room=room)


def classify_stream_error(provider: str, payload: bytes | str | JSON) -> Fault:
    """The row of an error that came inside a stream or a body with status 200: by its own type, not by the 200."""
    return classify_http(200, {}, payload, provider)


def classify_stop(stop: str, text: str = "", *, cut: bool = False) -> Fault | None:
    """The fault in how a whole answer ended, if there is one: refused, filtered, or cut off in the middle of a call.

    `stop` is the neutral word of a `Reply`; `cut` says that one of its calls has no end.
    """
    if stop == "refusal":
        return Fault("invalid_input", "refusal", shown(f"the model refused: {text}" if text else "the model refused"))
    if stop == "filter":
        return Fault("invalid_input", "content-filter", "the provider filtered the answer")
    if cut:
        return Fault("contract", "truncated-call", "the answer was cut off in the middle of a tool call")
    return None


def _room(message: str) -> int | None:
    """The output that would have fitted; half of what was asked for, where the window is not named."""
    overflow = read_overflow(message)
    if overflow is None:
        return None
    room = overflow.room()
    return overflow.output // 2 if room is None and overflow.output is not None else room


# ── the row ──────────────────────────────────────────────────────────────────────────────────────────────


def _row(status: int, told: Told, provider: str) -> tuple[Row, str]:
    told_status = STATUSES.get(status) or (("transient", "server-error") if 500 <= status < 600 else None)
    special = _special(status, told)
    if special is not None:
        return special
    for code in told.codes:
        found = CODES.get(code)
        if found is None or (found[1] in VAGUE and told_status is not None):
            continue
        if found[1] in HIDDEN and status in (401, 403):
            continue
        return found
    if told_status is not None:
        return told_status
    if not 200 <= status < 300 and status != 0:
        return "unknown", "unknown-status"
    if told.error:
        return "unknown", "unknown-error"
    return "transient", "malformed-answer" if told.body is None else "empty-answer"


def _special(status: int, told: Told) -> tuple[Row, str] | None:
    """What only the sentence or the details tell apart."""
    if _daily(told.body):
        return "auth", "quota"
    if status in (200, 0, 400, 413, 422, 500) or "context-too-long" in _reasons(told):
        overflow = read_overflow(told.message)
        if overflow is not None:
            return "invalid_input", "output-reserve-too-large" if overflow.reserve else "context-too-long"
    if status == 413 or (status == 429 and _TOO_BIG.search(told.message)):
        return "invalid_input", "too-large"
    google = isinstance(told.body, dict) and "resource_exhausted" in told.codes
    if status in (429, 403, 400, 200, 0) and not google and _QUOTA.search(told.message):
        return "auth", "quota"
    if status in (429, 529) and not {"quota", "overloaded"} & _reasons(told):
        return None
    for pattern, row, reason in _SENTENCES:
        if pattern.search(told.message) and (status < 500 or reason in ("window-cut", "malformed-call")):
            return row, reason
    return None


def _reasons(told: Told) -> set[str]:
    return {CODES[code][1] for code in told.codes if code in CODES}


def _by_status_alone(status: int, told: Told) -> bool:
    known = [CODES[code][1] for code in told.codes if code in CODES]
    return status in (400, 404, 422) or status not in STATUSES if all(name in VAGUE for name in known) else False


def _daily(body: JSON) -> bool:
    """A quota per day (Gemini says so in the details): it does not come back in minutes."""
    for item in _objects(body):
        for violation in _objects(item.get("violations")):
            if re.search(r"per_?day", f"{violation.get('quotaId')} {violation.get('quotaMetric')}", re.IGNORECASE):
                return True
    return False


def _objects(node: JSON, depth: int = 0) -> Iterator[dict[str, JSON]]:
    if depth > 8:
        return
    if isinstance(node, dict):
        yield node
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _objects(item, depth + 1)


def _message(status: int, told: Told, reason: str) -> str:
    text = shown(told.message)
    overflow = read_overflow(told.message) if reason in ("output-reserve-too-large", "context-too-long") else None
    if overflow is not None and overflow.words() != ",":
        said = "the output reserve does not fit" if overflow.reserve else "the context is too long"
        return f"{said}: {overflow.words().rstrip(',')} (tokens)"
    if text:
        return text
    words = ", ".join(code for code in told.codes if code in CODES)
    return f"{words or reason.replace('-', ' ')}{f' (HTTP {status})' if status else ''}"


# ── the body ─────────────────────────────────────────────────────────────────────────────────────────────


def read_body(body: bytes | str | JSON, headers: Mapping[str, str] | None = None) -> Told:
    """Find the error in a body: nested, flat, in a list, as text, as a page."""
    value, text = _value(body)
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), None)
    codes = [_code(headers.get("x-amzn-errortype", "").split(":")[0])] if headers else []
    if not isinstance(value, dict):
        page = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return Told(page[1] if page else "" if "<html" in text.lower() else text, tuple(filter(None, codes)))
    errors = list(_errors(value))
    status = next((int(number) for error in errors if (number := _status(error)) is not None), None)
    message = next((found for error in errors if (found := _text(error))), "")
    for error in errors:
        codes += [
            _code(error.get(name)) for name in ("code", "Code", "reason", "status", "type", "__type", "error_type")
        ]
    codes += [_code(item.get("reason")) for item in _objects(value.get("error")) if "domain" in item or "@type" in item]
    told_error = len(errors) > 1 or any(name in value for name in ("message", "detail", "code", "errors"))
    return Told(message, tuple(dict.fromkeys(filter(None, codes))), status, value, told_error)


def _value(body: bytes | str | JSON) -> tuple[JSON, str]:
    if not isinstance(body, (bytes, str)):
        return body, ""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    try:
        return cast("JSON", orjson.loads(body)), text
    except ValueError:
        return None, text


def _errors(value: dict[str, JSON]) -> Iterator[dict[str, JSON]]:
    """The places an error may stand in, innermost first."""
    for name in ("error", "response", "errors", "detail", "innererror"):
        inner = value.get(name)
        if isinstance(inner, list):
            inner = inner[0] if inner else None
        if name == "response" and not (isinstance(inner, dict) and isinstance(inner.get("error"), dict)):
            continue
        if isinstance(inner, dict):
            yield from _errors(inner)
        elif isinstance(inner, str) and inner:
            yield from _texted(inner)
    yield value


def _texted(text: str) -> Iterator[dict[str, JSON]]:
    """An error that is only text; some gateways put the JSON of another there."""
    inner, _ = _value(text) if text.lstrip().startswith("{") else (None, "")
    if isinstance(inner, dict):
        yield from _errors(inner)
    else:
        yield {"message": text, "code": text if len(text) < 60 else None}


def _text(error: dict[str, JSON]) -> str:
    for name in ("message", "Message", "msg", "detail", "error_description", "error_message"):
        text = error.get(name)
        if isinstance(text, str) and text:
            raw = error.get("metadata")
            more = raw.get("raw") if isinstance(raw, dict) else None
            return f"{text}: {more}" if isinstance(more, str) and more else text
    return ""


def _status(error: dict[str, JSON]) -> int | None:
    for name in ("code", "status", "status_code", "statusCode", "http_status"):
        value = error.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
            return value
    return None


def _code(value: JSON) -> str:
    if not isinstance(value, str):
        return ""
    return re.sub(r"[\s-]+", "_", value.rsplit("#", 1)[-1].strip().lower())
