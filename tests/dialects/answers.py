"""What the pure functions make of the answers and errors in the case files.

The files write answers in a short form; here they are written out as the provider sends them.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

import orjson

from capataz.events.facts import Fault
from capataz.faults.classify import classify_exception, classify_http, classify_stop
from capataz.models.dialects import DIALECTS, calls_in_text, read_arguments
from capataz.ports import RawCall, Reply
from tests.dialects.given import Case, profile_of, request_of, tools_of


def whole_body(body: dict[str, Any], dialect: str) -> dict[str, Any]:
    """The short form of an answer in the case files, written out as the provider sends it."""
    if dialect != "openai" or {"choices", "error", "object", "detail"} & body.keys():
        return body
    message: dict[str, Any] = {"role": "assistant", "content": body.get("content")}
    for name in ("refusal", "reasoning_content", "function_call"):
        if name in body:
            message[name] = body[name]
    if "tool_calls" in body:
        message["tool_calls"] = [
            call if "function" in call else {"id": call.get("id"), "type": "function", "function": _function(call)}
            for call in body["tool_calls"]
        ]
    choice = {"index": 0, "message": message, "finish_reason": body.get("finish_reason", "stop")}
    return {"id": "x", "model": "m", "choices": [choice], "usage": body.get("usage")}


def _function(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": call.get("name"), "arguments": call.get("arguments")}


def answered(case: Case) -> Reply | Fault:
    """What the pure functions make of the answer in this case."""
    given, profile = case["given"], profile_of(case)
    dialect, request = DIALECTS[profile.dialect], request_of(case, profile)
    if "exception" in given:
        return classify_exception(exception_of(given["exception"]))
    if "stream" in given or "stream_tool_deltas" in given:
        reader = dialect.reader(profile, request)
        for event, data in events_of(given, profile.dialect):
            reader.feed(event, data)
        return reader.finish()
    status, body = int(given.get("http", 200)), given.get("body", "")
    if not 200 <= status < 300:
        return classify_http(status, given.get("headers", {}), body, profile.name, now=given.get("now"))
    if not isinstance(body, dict):
        return dialect.whole(body.encode() if isinstance(body, str) else orjson.dumps(body), profile, request)
    return dialect.whole(orjson.dumps(whole_body(body, profile.dialect)), profile, request)


def exception_of(text: str) -> BaseException:
    """An exception as the libraries raise it: its type by name, real where it is built in."""
    name, _, message = text.partition(":")
    module, _, kind = name.strip().rpartition(".")
    built_in = getattr(builtins, kind, None)
    if built_in is None and kind == "JSONDecodeError":
        return orjson.JSONDecodeError(message.strip(), "{", 0)
    known = built_in or type(kind, (Exception,), {"__module__": module})
    made = known(message.strip())
    assert isinstance(made, BaseException)
    return made


def events_of(given: Mapping[str, Any], dialect: str) -> list[tuple[str, bytes]]:
    """The short form of a stream, written out as events."""
    if "stream_tool_deltas" in given:
        made: list[tuple[str, Any]] = []
        for delta in given["stream_tool_deltas"]:
            part: dict[str, Any] = {key: delta[key] for key in ("index", "id", "type") if key in delta}
            part["function"] = {key: delta[key] for key in ("name", "arguments") if key in delta}
            made.append(("", {"choices": [{"index": 0, "delta": {"tool_calls": [part]}, "finish_reason": None}]}))
        made.append(
            ("", {"choices": [{"index": 0, "delta": {}, "finish_reason": given.get("finish_reason", "tool_calls")}]})
        )
        return [(event, orjson.dumps(data)) for event, data in made] + [("", b"[DONE]")]
    found: list[tuple[str, bytes]] = []
    for item in given["stream"]:
        found += [_event(item, dialect)] if item != "EOF" else []
    return found


_SHORT: dict[str, Any] = {
    "message_start": {"message": {"id": "m", "model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}},
    "content_block_start": {"index": 0, "content_block": {"type": "text", "text": ""}},
    "content_block_delta": {"index": 0, "delta": {"type": "text_delta", "text": "half an ans"}},
    "content_block_stop": {"index": 0},
    "message_stop": {},
    "ping": {},
    "response.created": {"response": {"id": "r", "status": "in_progress", "output": []}},
    "response.in_progress": {"response": {"id": "r", "status": "in_progress", "output": []}},
    "response.completed": {"response": {"id": "r", "status": "completed", "output": []}},
    "response.failed": {"response": {"id": "r", "status": "failed", "output": []}},
    "response.incomplete": {"response": {"id": "r", "status": "incomplete", "output": []}},
}


def _event(item: Any, dialect: str) -> tuple[str, bytes]:
    if not isinstance(item, str):
        data = item.get("data", item)
        return str(item.get("event", data.get("type", ""))), orjson.dumps(data)
    kind, _, code = item.partition(" ")
    error = {"type": code, "code": code, "message": code}
    if kind == "error":
        return "error", orjson.dumps({"type": "error", "error": error})
    if kind not in _SHORT:
        if kind == "[DONE]":
            return "", b"[DONE]"
        if dialect == "openai" and kind in ("delta", "chunk", "content"):
            return "", orjson.dumps({"choices": [{"index": 0, "delta": {"content": code or "some"}}]})
        if dialect == "openai" and kind in ("finish", "finish_reason"):
            return "", orjson.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": code}]})
        raise NotImplementedError(f"the stream event {item!r} is not known")
    data = {"type": kind, **_SHORT[kind]}
    if code and "response" in data:
        data["response"] = {**data["response"], "error": error}
    return kind, orjson.dumps(data)


def _outcomes(case: Case, found: Reply) -> dict[str, bool]:
    """The words of the case files, of an answer."""
    said, fine = written(case, found), runnable(found, case)
    cut = any(call.cut for call in found.calls)
    return {
        "continue": found.stop == "pause",
        "refused": found.stop in ("refusal", "filter") and not found.calls,
        "tool_calls": bool(fine),
        "tool_error": bool(found.calls) and not fine and not cut,
        "call_in_text": bool(said) and not any(call.cut for call in said),
        "gate_failed": not found.calls,
        "warning": bool(found.warnings),
        "usage": found.usage.reported,
        "text": bool(found.text.strip()) and not found.calls,
        "truncated": not fine and (cut or found.stop == "length" or any(call.cut for call in said)),
        "malformed_call": False,
    }


def is_outcome(case: Case, outcome: str, found: Reply | Fault) -> bool:
    """Whether an answer is what a case calls `outcome`."""
    if isinstance(found, Reply):
        return _outcomes(case, found)[outcome]
    reasons = {
        "truncated": ("truncated-stream", "unfinished-answer", "truncated-call"),
        "malformed_call": ("malformed-call",),
        "refused": ("refusal", "content-filter"),
    }
    return found.reason in reasons.get(outcome, ())


def written(case: Case, found: Reply) -> tuple[RawCall, ...]:
    return calls_in_text(found.text, [tool.name for tool in tools_of(case)])


def runnable(found: Reply, case: Case) -> list[RawCall]:
    """The calls that may run: whole, readable, of a tool that was offered (where the case says which were)."""
    offered = [tool.name for tool in tools_of(case)]
    return [
        call for call in found.calls if read_arguments(call).problem is None and (not offered or call.name in offered)
    ]


def row_of(case: Case, found: Reply | Fault) -> str | None:
    """The row an answer lands in, by the taxonomy: its own fault, or that of how it ended."""
    if isinstance(found, Fault):
        return found.row
    bad = [call for call in (*found.calls, *written(case, found)) if call not in runnable(found, case)]
    cut = any(call.cut for call in bad)
    fault = classify_stop(found.stop, found.text, cut=cut)
    return fault.row if fault else "contract" if bad else None
