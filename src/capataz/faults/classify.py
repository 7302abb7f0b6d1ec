"""What an error means: every error there is, put into exactly one row of the taxonomy.

Total and pure: no error is unforeseen, none is raised, nothing is looked up anywhere but in the arguments. Exceptions
are known by the names of their types and by what they carry, since the libraries that raise them may not be imported
here. What comes out is short and masked; a stack trace never does.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from capataz.events.facts import JSON, Fault, Row
from capataz.faults.http import classify_http, classify_stop, classify_stream_error
from capataz.faults.taxonomy import CODES, EXCEPTIONS
from capataz.faults.words import shown
from capataz.mistakes import ModelRefused

__all__ = [
    "ToolFaults",
    "classify_exception",
    "classify_http",
    "classify_mcp",
    "classify_stop",
    "classify_stream_error",
    "classify_text",
]

Origin = Literal["model", "tool", "mcp", "store", "ours"]


@dataclass(frozen=True, slots=True)
class ToolFaults:
    """A user's own exceptions and their rows; the nearest base class counts. A value, passed in where it is needed.

    >>> ToolFaults({KeyError: "invalid_input"}).row(KeyError("x"))
    'invalid_input'
    """

    rows: Mapping[type[BaseException], Row] = field(default_factory=dict[type[BaseException], Row])

    def row(self, exc: BaseException) -> Row | None:
        return next((self.rows[kind] for kind in type(exc).__mro__ if kind in self.rows), None)


def classify_exception(
    exc: BaseException, origin: Origin = "model", faults: ToolFaults | None = None, words: str | None = None
) -> Fault:
    """The row of an exception from a model client, a tool, an MCP session, a store or ourselves.

    `faults` are the user's own. Then: a fault it already carries, an answer it carries (status, headers, body), its
    number where the system gave one, the names of its types, and what it was raised from. `words` are the message
    where its own text cannot be trusted to be had: an exception of the user's may raise when it is asked for it.
    """
    said = words if words is not None else _said(exc)
    own = faults.row(exc) if faults is not None else None
    if own is not None:
        return Fault(own, "registered", said, origin=origin)
    seen: set[int] = set()
    fault: Fault | None = None
    link: BaseException | None = exc
    while link is not None and id(link) not in seen and fault is None:
        seen.add(id(link))
        fault = _one(link, origin, faults)
        link = link.__cause__
    if fault is None:
        return Fault("unknown", "unknown-exception", said, origin=origin)
    return replace(fault, message=said, origin=origin)


def _one(exc: BaseException, origin: Origin, faults: ToolFaults | None) -> Fault | None:
    if isinstance(exc, ModelRefused):
        return exc.fault
    if isinstance(exc, BaseExceptionGroup):
        inner = [classify_exception(item, origin, faults) for item in cast("tuple[BaseException, ...]", exc.exceptions)]
        return next((fault for fault in inner if fault.row != "unknown"), inner[0])
    return _answered(exc) or _numbered(exc) or _named(exc, origin)


def _answered(exc: BaseException) -> Fault | None:
    """Exceptions of HTTP clients carry the answer they stand for."""
    response = cast("object", getattr(exc, "response", None))
    if isinstance(response, dict):
        return _aws(cast("dict[str, JSON]", response))
    places = [cast("object", getattr(exc, name, None)) for name in ("status_code", "status", "code")]
    places += [cast("object", getattr(response, name, None)) for name in ("status_code", "status")]
    places += [_STATUS_OF.get(kind.__name__) for kind in type(exc).__mro__]
    status = next((place for place in places if _is_status(place)), None)
    if status is None:
        return None
    headers = cast("object", getattr(exc, "headers", None) or getattr(response, "headers", None))
    body = cast("object", getattr(exc, "body", None))
    usable = cast("Mapping[str, str]", headers) if isinstance(headers, Mapping) else dict[str, str]()
    text = cast("JSON", body) if isinstance(body, (str, dict, list)) and body else str(exc)
    return classify_http(cast("int", status), usable, text)


def _aws(response: dict[str, JSON]) -> Fault | None:
    """The form of the AWS clients: the answer as a dict, its status inside."""
    meta = response.get("ResponseMetadata")
    status = meta.get("HTTPStatusCode") if isinstance(meta, dict) else None
    headers = meta.get("HTTPHeaders") if isinstance(meta, dict) else None
    usable = cast("Mapping[str, str]", headers) if isinstance(headers, dict) else dict[str, str]()
    return classify_http(cast("int", status), usable, response.get("Error")) if _is_status(status) else None


# Names the clients of providers give to statuses: the text may still say more, as "quota" behind a rate limit.
_STATUS_OF: Mapping[str, int] = {
    "BadRequestError": 400,
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "ConflictError": 409,
    "RequestTooLargeError": 413,
    "UnprocessableEntityError": 422,
    "RateLimitError": 429,
    "InternalServerError": 500,
    "ServiceUnavailableError": 503,
    "DeadlineExceededError": 504,
    "OverloadedError": 529,
}


def _is_status(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600


_ERRNOS: Mapping[str, tuple[Row, str]] = {
    "ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ENETUNREACH EHOSTUNREACH ENETDOWN ENOTCONN ESHUTDOWN EHOSTDOWN EIO": (
        "transient",
        "connection",
    ),
    "ETIMEDOUT": ("transient", "timeout"),
    "EAGAIN EBUSY EINTR EDEADLK ETXTBSY": ("transient", "busy"),
    "EMFILE ENFILE ENOMEM ENOBUFS": ("transient", "resources"),
    "EACCES EPERM EROFS": ("auth", "permission"),
    "ENOENT ENOTDIR EISDIR ENXIO ENODEV": ("invalid_input", "not-found"),
    "EEXIST EINVAL ENAMETOOLONG ENOTEMPTY": ("invalid_input", "invalid-value"),
    "ENOSPC EDQUOT": ("auth", "quota"),
}
_BY_NUMBER = {name: row for names, row in _ERRNOS.items() for name in names.split()}


def _numbered(exc: BaseException) -> Fault | None:
    found = _BY_NUMBER.get(errno.errorcode.get(exc.errno, "")) if isinstance(exc, OSError) and exc.errno else None
    return Fault(found[0], found[1], "") if found else None


# Mistakes in values and types: of our own code where we are the callers, of the model's arguments in a tool.
_ADAPTER = frozenset(("ValueError", "LookupError", "ValidationError", "UnicodeError", "DataError", "IntegrityError"))


def _named(exc: BaseException, origin: Origin) -> Fault | None:
    ours = origin in ("model", "ours", "store", "mcp")
    for kind in type(exc).__mro__:
        name = kind.__name__
        if name == "JSONDecodeError":
            if origin in ("model", "mcp", "store"):
                return Fault("transient", "malformed-answer", "")
            return Fault("invalid_input", "invalid-value", "")
        if name == "OperationalError" and re.search(r"no such|syntax|unknown|does not exist", str(exc), re.IGNORECASE):
            return Fault("contract", "bug", "", retries=0)
        if ours and name in _ADAPTER:
            return Fault("contract", "adapter", "", retries=0)
        found = EXCEPTIONS.get(name)
        if found is not None:
            row, reason = found
            return Fault(row, "adapter" if ours and reason == "bug" else reason, "", retries=_tries(row, reason))
    return _mistaken(exc)


def _tries(row: Row, reason: str) -> int | None:
    return 0 if row == "contract" or reason == "cancelled" else None


def _mistaken(exc: BaseException) -> Fault | None:
    """Our own exceptions, by name, so that a store of somebody else's may raise its kin."""
    for kind in type(exc).__mro__:
        found = _OWN.get(kind.__name__)
        if found is not None:
            row, reason, retries = found
            return Fault(row, reason, "", retries=retries)
    return None


_OWN: Mapping[str, tuple[Row, str, int | None]] = {
    "Fenced": ("contract", "fenced", 0),
    "Unreadable": ("contract", "unreadable-store", 0),
    "Misuse": ("contract", "misuse", 0),
    "StoreError": ("transient", "store", None),
    "OSError": ("transient", "system", None),
    "Error": ("unknown", "unknown-exception", None),
}


def _said(exc: BaseException) -> str:
    """Type and text of an exception, masked."""
    if isinstance(exc, ModelRefused):
        return exc.fault.message
    text = str(exc)
    if isinstance(exc, KeyError) and text:
        text = f"no {text}"
    return shown(f"{type(exc).__name__}: {text}" if text.strip() else type(exc).__name__)


# ── MCP, and errors that are only text ───────────────────────────────────────────────────────────────────

_RPC: Mapping[int, tuple[Row, str]] = {
    -32700: ("contract", "protocol"),
    -32600: ("contract", "protocol"),
    -32601: ("contract", "unknown-tool"),
    -32602: ("invalid_input", "invalid-value"),
    -32603: ("unknown", "server-error"),
    -32000: ("transient", "connection"),
    -32001: ("transient", "timeout"),
    -32002: ("invalid_input", "not-found"),
    -32042: ("auth", "permission"),
    -32800: ("unknown", "cancelled"),
}

_TEXTS: tuple[tuple[re.Pattern[str], Row, str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), row, reason)
    for pattern, row, reason in cast(
        "tuple[tuple[str, Row, str], ...]",
        (
            (r"rate.?limit|too many requests|throttl|\b429\b", "rate_limit", "rate-limit"),
            (r"quota|insufficient (?:funds|credit)|payment required|billing", "auth", "quota"),
            (r"unauthori[sz]ed|unauthenticated|not logged in|(?:invalid|expired|missing).{0,20}(?:token|api.?key"
             r"|credential)|(?:token|credential|session).{0,20}expired|authentication|\b401\b",
             "auth", "authentication"),
            (r"permission|forbidden|access denied|denied|not allowed|\b403\b", "auth", "permission"),
            (r"timed? ?out|timeout|deadline", "transient", "timeout"),
            (r"connection|unavailable|temporar|try again|overloaded|unreachable|network|reset by peer|\b50[0234]\b",
             "transient", "connection"),
            (r"(?:unknown|no such) tool|tool .{0,40}not found|method not found", "contract", "unknown-tool"),
            (r"not found|no such|does not exist|\b404\b", "invalid_input", "not-found"),
            (r"invalid|validation|required|missing|must be|malformed|bad request|expected|unsupported|\b4(?:00|22)\b",
             "invalid_input", "invalid-value"),
        ),
    )
)  # fmt: skip


def classify_text(text: str, origin: Origin = "tool") -> Fault:
    """The row of an error that is only text, as a tool server's error result: by what it says."""
    words = shown(text)
    code = CODES.get(text.strip().lower())
    if code is not None:
        return Fault(code[0], code[1], words, origin=origin)
    for pattern, row, reason in _TEXTS:
        if pattern.search(text[:4000]):
            return Fault(row, reason, words, origin=origin)
    return Fault("unknown", "unknown-error", words or "an error without a word", origin=origin)


def classify_mcp(code: int | None, message: str = "", data: JSON = None) -> Fault:
    """The row of an MCP error: a JSON-RPC code, or None for a result that carries the error flag.

    An internal error (-32603) and codes of the server's own are read by their text.
    """
    found = _RPC.get(code) if code is not None else None
    said = message if data is None else f"{message} {data if isinstance(data, str) else ''}".strip()
    if found is not None and code != -32603:
        return Fault(found[0], found[1], shown(said) or f"MCP error {code}", origin="mcp")
    by_text = classify_text(said, "mcp")
    if by_text.row == "unknown" and found is not None:
        return Fault(found[0], found[1], shown(said) or f"MCP error {code}", origin="mcp")
    return by_text
