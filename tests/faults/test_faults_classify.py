"""Every error lands in exactly one row, and what it says is fit to be shown."""

from __future__ import annotations

import asyncio
import errno
import re
import sqlite3
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from capataz.events.facts import JSON, Fault, Row
from capataz.faults.classify import (
    ToolFaults,
    classify_exception,
    classify_http,
    classify_mcp,
    classify_stop,
    classify_stream_error,
    classify_text,
)
from capataz.faults.taxonomy import CODES
from capataz.mistakes import Fenced, ModelRefused, StoreError, Unreadable
from capataz.models.capabilities import capabilities, offered_entry
from capataz.tools.faulting import fault_of

ROWS = set(get_args(Row)) - {"ours"}
words = st.one_of(st.sampled_from(sorted(CODES)), st.text(max_size=8), st.integers(-5, 600), st.none(), st.booleans())
bodies = st.recursive(
    words,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "code",
                    "type",
                    "message",
                    "status",
                    "details",
                    "detail",
                    "errors",
                    "reason",
                    "violations",
                    "quotaId",
                    "retryDelay",
                    "metadata",
                    "headers",
                    "response",
                    "raw",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
headers = st.dictionaries(
    st.sampled_from(
        [
            "retry-after",
            "Retry-After-Ms",
            "date",
            "x-should-retry",
            "x-ratelimit-reset-tokens",
            "x-x",
            "x-ratelimit-remaining-tokens",
            "x-amzn-errortype",
            "anthropic-ratelimit-tokens-reset",
        ]
    ),
    st.one_of(
        st.sampled_from(
            [
                "1",
                "-1",
                "nan",
                "inf",
                "6m0s",
                "true",
                "false",
                "Mon, 30 Nov 2026 10:00:00 GMT",
                "2026-11-30T10:00:00Z",
                "1e400",
                "9" * 40,
                "ThrottlingException:http://x",
            ]
        ),
        st.text(max_size=9),
    ),
    max_size=4,
)


def sound(fault: Fault) -> None:
    assert fault.row in ROWS
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", fault.reason)
    assert len(fault.message) <= 400
    assert "\n" not in fault.message
    assert fault.wait is None or 0 <= fault.wait < float("inf")
    assert fault.retries in (None, 0)


@given(
    status=st.one_of(st.integers(0, 999), st.sampled_from([200, 400, 401, 403, 404, 413, 429, 500, 503, 529])),
    headers=headers,
    body=st.one_of(bodies, bodies.map(orjson.dumps), st.binary(max_size=30), st.text(max_size=30)),
    now=st.sampled_from([None, 0.0, 1.8e9]),
)
@settings(max_examples=600, deadline=None)
def test_any_answer_lands_in_one_row(status: int, headers: dict[str, str], body: Any, now: float | None) -> None:
    fault = classify_http(status, headers, body, now=now)
    sound(fault)
    assert fault == classify_http(status, headers, body, now=now)
    sound(classify_stream_error("openai", body))


EXCEPTIONS: list[BaseException] = [
    Exception(),
    Exception("x"),
    ValueError(),
    TypeError("f() got"),
    KeyError("k"),
    KeyboardInterrupt(),
    SystemExit(3),
    asyncio.CancelledError(),
    TimeoutError(),
    OSError(),
    OSError(errno.ECONNREFUSED, "no"),
    PermissionError(13, "no"),
    FileNotFoundError(2, "no", "x"),
    UnicodeDecodeError("utf-8", b"", 0, 1, "r"),
    RecursionError(),
    MemoryError(),
    StopIteration(),
    GeneratorExit(),
    sqlite3.OperationalError("database is locked"),
    StoreError(),
    Fenced(),
    ExceptionGroup("g", [ValueError("a"), ConnectionError("b")]),
    BaseExceptionGroup("g", [KeyboardInterrupt()]),
]


@pytest.mark.parametrize("exc", EXCEPTIONS, ids=lambda exc: type(exc).__name__)
@pytest.mark.parametrize("origin", ["model", "tool", "mcp", "store", "ours"])
def test_any_exception_lands_in_one_row(exc: BaseException, origin: Any) -> None:
    fault = classify_exception(exc, origin)
    sound(fault)
    assert fault.origin == origin
    assert fault.message


@given(
    name=st.text(min_size=1, max_size=12), text=st.text(max_size=30), module=st.sampled_from(["httpx", "aiohttp", "x"])
)
def test_any_foreign_exception_lands_in_one_row(name: str, text: str, module: str) -> None:
    kind = type(name.replace("\x00", "_"), (Exception,), {"__module__": module})
    sound(classify_exception(kind(text)))


@given(code=st.one_of(st.none(), st.integers(-33000, 10)), text=st.text(max_size=30), data=bodies)
def test_any_mcp_error_lands_in_one_row(code: int | None, text: str, data: Any) -> None:
    sound(classify_mcp(code, text, data))
    sound(classify_text(text))


# ── exceptions ───────────────────────────────────────────────────────────────────────────────────────────


def named(name: str, text: str = "x", **fields: Any) -> Exception:
    made: Exception = type(name, (Exception,), {})(text)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


ANSWER = type("Answer", (), {"status_code": 429, "headers": {"retry-after": "3"}})()
AWS = {"Error": {"Code": "ThrottlingException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}


@pytest.mark.parametrize(
    ("exc", "origin", "row", "retries"),
    [
        (named("RemoteProtocolError"), "model", "transient", None),
        (named("RateLimitError", "Error code: 429 - rate_limit_exceeded"), "model", "rate_limit", None),
        (named("RateLimitError", "Error code: 429 - {'code': 'insufficient_quota'}"), "model", "auth", None),
        (named("OverloadedError", "Overloaded"), "model", "transient", None),
        (named("AuthenticationError", "invalid x-api-key"), "model", "auth", None),
        (named("ServerDisconnectedError"), "model", "transient", None),
        (named("ClientConnectorCertificateError"), "model", "auth", None),
        (orjson.JSONDecodeError("x", "{", 0), "model", "transient", None),
        (orjson.JSONDecodeError("x", "{", 0), "tool", "invalid_input", None),
        (TypeError("unexpected keyword"), "model", "contract", 0),
        (ValueError("max_tokens"), "model", "contract", 0),
        (ValueError("no such order"), "tool", "invalid_input", None),
        (TypeError("bug"), "tool", "contract", 0),
        (PermissionError("no"), "tool", "auth", None),
        (FileNotFoundError("no"), "tool", "invalid_input", None),
        (ConnectionRefusedError("no"), "tool", "transient", None),
        (TimeoutError(), "tool", "transient", None),
        (OSError(errno.ENOSPC, "full"), "tool", "auth", None),
        (OSError(errno.EMFILE, "many"), "tool", "transient", None),
        (sqlite3.OperationalError("database is locked"), "store", "transient", None),
        (sqlite3.OperationalError("no such table: x"), "store", "contract", 0),
        (sqlite3.IntegrityError("UNIQUE"), "tool", "invalid_input", None),
        (Fenced("x"), "store", "contract", 0),
        (Unreadable("x"), "store", "contract", 0),
        (StoreError("x"), "store", "transient", None),
        (RuntimeError("?"), "tool", "unknown", None),
        (
            named("HTTPStatusError", response=type("R", (), {"status_code": 429, "headers": {"retry-after": "3"}})()),
            "tool",
            "rate_limit",
            None,
        ),
        (named("ClientResponseError", status=403), "tool", "auth", None),
        (
            named(
                "ClientError",
                response={"Error": {"Code": "ThrottlingException"}, "ResponseMetadata": {"HTTPStatusCode": 400}},
            ),
            "tool",
            "rate_limit",
            None,
        ),
        (ExceptionGroup("g", [RuntimeError("?"), ConnectionError("b")]), "tool", "transient", None),
        (ModelRefused(Fault("auth", "quota", "no money")), "model", "auth", None),
    ],
)
def test_exceptions_by_what_they_are(exc: BaseException, origin: Any, row: str, retries: int | None) -> None:
    fault = classify_exception(exc, origin)
    assert (fault.row, fault.retries) == (row, retries), fault


def test_what_an_exception_was_raised_from_counts_when_it_says_nothing_itself() -> None:
    class ShopDown(Exception):
        pass

    error = ShopDown("the shop is down")
    error.__cause__ = ConnectionResetError("reset")
    assert classify_exception(error, "tool").row == "transient"
    error.__cause__ = None
    assert classify_exception(error, "tool").row == "unknown"
    assert classify_exception(error, "tool", ToolFaults({ShopDown: "rate_limit"})).row == "rate_limit"
    assert classify_exception(error, "tool", ToolFaults({Exception: "auth", ShopDown: "contract"})).row == "contract"


def test_an_exception_whose_text_is_broken_is_still_an_error() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert classify_exception(Broken(), "tool", words="Broken").message == "Broken"
    assert fault_of(Broken(), "Broken").reason == "unknown-exception"


# ── length ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "reason", "room"),
    [
        (
            "requested 16384 output tokens and your prompt contains 16385 input tokens",
            "output-reserve-too-large",
            8192,
        ),
        (
            "This model's maximum context length is 32768 tokens. However, you requested 16384 "
            "output tokens and your prompt contains at least 16385 input tokens, for a total of at "
            "least 32769 tokens.",
            "output-reserve-too-large",
            16319,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum "
            "context length is 32768 tokens and your request has 16385 input tokens (16384 > 32768 "
            "- 16385).",
            "output-reserve-too-large",
            16319,
        ),
        (
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease "
            "input length or `max_tokens` and try again",
            "output-reserve-too-large",
            9936,
        ),
        (
            "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude-3-5",
            "output-reserve-too-large",
            8192,
        ),
        (
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, "
            "whereas you provided 100000.",
            "output-reserve-too-large",
            16384,
        ),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 "
            "tokens (5000 in the messages, 4000 in the completion).",
            "output-reserve-too-large",
            3128,
        ),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 "
            "tokens (8100 in the messages, 900 in the completion).",
            "context-too-long",
            None,
        ),
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            "context-too-long",
            None,
        ),
        ("prompt is too long: 210000 tokens > 200000 maximum", "context-too-long", None),
        ("the request exceeds the available context size, try increasing it", "context-too-long", None),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "context-too-long",
            None,
        ),
        ("Input is too long for requested model.", "context-too-long", None),
        (
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "context-too-long",
            None,
        ),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "unsupported-parameter",
            None,
        ),
        ("temperature: may not be used with this model", "invalid-request", None),
    ],
)
def test_a_long_history_and_a_large_reserve_are_told_apart(text: str, reason: str, room: int | None) -> None:
    fault = classify_http(400, {}, {"error": {"message": text}})
    assert (fault.row, fault.reason, fault.room) == ("invalid_input", reason, room), fault


# ── waits ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("headers", "body", "wait"),
    [
        ({"retry-after-ms": "350", "retry-after": "1"}, None, 0.35),
        ({"Retry-After": "7.5"}, None, 7.5),
        ({"retry-after": "Mon, 30 Nov 2026 10:00:45 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, None, 45),
        ({"retry-after": "Mon, 30 Nov 2026 09:59:00 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, None, 0),
        ({"retry-after": "soon"}, None, None),
        (
            {},
            {"error": {"details": [{"@type": "t/google.rpc.RetryInfo", "retryDelay": "45.837912345s"}]}},
            45.837912345,
        ),
        ({}, {"error": {"details": [{"metadata": {"quotaResetDelay": "373.8ms"}}]}}, 0.3738),
        ({"x-ratelimit-reset-tokens": "6m0s"}, None, 360),
        ({"x-ratelimit-reset-requests": "7.66s", "x-ratelimit-reset-tokens": "76ms"}, None, 7.66),
        (
            {
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-requests": "9",
                "x-ratelimit-reset-tokens": "76ms",
                "x-ratelimit-remaining-tokens": "0",
            },
            None,
            0.076,
        ),
        (
            {"anthropic-ratelimit-tokens-reset": "2026-11-30T10:00:30Z", "date": "Mon, 30 Nov 2026 10:00:00 GMT"},
            None,
            30,
        ),
        ({"x-ratelimit-reset": "1796032830000", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, None, 30),
        ({"retry-after": "2", "x-ratelimit-reset-tokens": "6m0s"}, None, 2),
        ({}, {"error": {"message": "Rate limit reached. Please try again in 1m2.5s."}}, 62.5),
        ({}, {"error": {"metadata": {"headers": {"Retry-After": "4"}}, "code": 429}}, 4),
        ({}, {"error": {"message": "busy"}, "retry_after": 9}, 9),
        ({}, None, None),
    ],
)
def test_every_form_of_waiting_hint(headers: dict[str, str], body: Any, wait: float | None) -> None:
    fault = classify_http(429, headers, body)
    assert fault.row == "rate_limit"
    assert fault.wait == (wait if wait is None else pytest.approx(wait))


def test_a_provider_may_say_itself_whether_to_try_again() -> None:
    assert classify_http(500, {"x-should-retry": "false"}, "").retries == 0
    assert classify_http(404, {"x-should-retry": "true"}, "").row == "transient"
    assert classify_http(401, {"x-should-retry": "true"}, "").row == "auth"
    assert classify_http(429, {"x-should-retry": "true"}, {"error": {"code": "insufficient_quota"}}).row == "auth"


# ── answers that are refusals, MCP, secrets ──────────────────────────────────────────────────────────────


def test_how_an_answer_ended() -> None:
    assert classify_stop("stop") is None
    assert classify_stop("length") is None
    for stop, cut, row in (
        ("refusal", False, "invalid_input"),
        ("filter", False, "invalid_input"),
        ("length", True, "contract"),
    ):
        fault = classify_stop(stop, "no", cut=cut)
        assert fault is not None
        assert fault.row == row


@pytest.mark.parametrize(
    ("code", "text", "row"),
    [
        (-32601, "Method not found", "contract"),
        (-32602, "Invalid params", "invalid_input"),
        (-32001, "Request timed out", "transient"),
        (-32000, "Connection closed", "transient"),
        (-32603, "permission denied", "auth"),
        (-32603, "boom", "unknown"),
        (None, "permission denied", "auth"),
        (None, "rate limit exceeded", "rate_limit"),
        (None, "File not found", "invalid_input"),
        (None, "weird", "unknown"),
        (None, "token expired", "auth"),
        (None, "connection reset by peer", "transient"),
    ],
)
def test_mcp_errors(code: int | None, text: str, row: str) -> None:
    fault = classify_mcp(code, text)
    assert (fault.row, fault.origin) == (row, "mcp")


@pytest.mark.parametrize(
    "text",
    [
        "GET https://x.example/v1?key=sk-test-LEAK-0001 failed",
        "authorization: Bearer tok-LEAK-0002",
        '{"authorization": "Bearer tok-LEAK-0002"}',
        "could not connect to postgres://u:pw-LEAK-0003@h/db",
        "redis://:LEAK-secret@h:6379",
        "api_key=LEAK12345 rejected",
        "Incorrect API key provided: sk-proj-LEAKabcdefgh.",
        "password: 'LEAK-hunter2'",
        "x-goog-api-key: AIzaLEAKLEAKLEAKLEAKLEAKLEAK",
        "token eyJLEAKLEAK.eyJLEAKLEAK.sigLEAK",
        "AKIALEAKLEAKLEAK1234",
        "client_secret=LEAK; grant=x",
        "-----BEGIN RSA PRIVATE KEY-----\nLEAK\n-----END RSA PRIVATE KEY-----",
        "aws_secret_access_key = LEAK/abc+def",
    ],
)
def test_no_credential_gets_into_a_fault(text: str) -> None:
    faults = [
        classify_http(400, {}, {"error": {"message": text}}),
        classify_http(500, {}, text),
        classify_exception(RuntimeError(text), "tool"),
        classify_stream_error("openai", {"error": {"message": text, "code": "server_error"}}),
        classify_mcp(None, text),
    ]
    assert not any("LEAK" in fault.message for fault in faults), faults


def test_no_stack_trace_gets_into_a_fault() -> None:
    trace = "Traceback (most recent call last):\n  File \"/srv/app.py\", line 3, in f\n    g()\nKeyError: 'order'\n"
    assert classify_exception(RuntimeError(trace), "tool").message == "KeyError: 'order'"
    assert "app.py" not in classify_http(500, {}, trace).message


# ── capabilities ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_model_accepts_everything() -> None:
    able = capabilities("something-new-7b")
    assert (able.temperature, able.top_p, able.both_samplers, able.output_name) == ("yes", "yes", True, "max_tokens")
    assert capabilities("something-new-7b", ({"match": "^something", "temperature": "never"},)).temperature == "never"


def test_a_refusal_that_names_a_parameter_is_offered_as_an_entry() -> None:
    body: JSON = {"error": {"message": "Unsupported parameter: 'temperature' is not supported with this model."}}
    entry = offered_entry("new-1", classify_http(400, {}, body))
    assert entry == "[[model]]\nmatch = '^new-1$'\ntemperature = \"never\""
    assert offered_entry("new-1", classify_http(500, {}, body)) is None
