"""Answers of OpenAI Responses, streamed or whole.

The last event of a stream carries the whole answer, so the parts before it are only signs of life. Only a status of
"completed" is complete; a failure names its code inside an answer of status 200.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from capataz.events.facts import JSON, Fault, Usage
from capataz.faults.classify import classify_stream_error
from capataz.models.dialects.base import Profile
from capataz.models.dialects.reading import (
    BROKEN_STREAM,
    CUT_STREAM,
    asked,
    count,
    obj,
    objects,
    opaque,
    parsed,
    reply,
    text,
)
from capataz.ports import ModelRequest, RawCall, Reply

_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed", "response.cancelled"))
_CUTS = {"max_output_tokens": "length", "max_tokens": "length", "content_filter": "filter"}


@dataclass(slots=True)
class ResponsesReader:
    """Reads one stream."""

    profile: Profile
    request: ModelRequest | None = None
    _items: dict[int, dict[str, JSON]] = field(default_factory=dict[int, dict[str, JSON]])
    _answer: dict[str, JSON] | None = None
    _fault: Fault | None = None

    def feed(self, event: str, data: bytes) -> None:
        # Nearly all events are deltas, and what they say comes again whole: they are not worth parsing.
        if self._fault is not None or event.endswith(".delta") or not data or data.strip() == b"[DONE]":
            return
        chunk = parsed(data)
        if chunk is None:
            self._fault = BROKEN_STREAM
            return
        kind = text(chunk.get("type")) or event
        if kind == "error" or (chunk.get("error") and not kind.startswith("response.")):
            self._fault = classify_stream_error(self.profile.name, chunk)
        elif kind == "response.output_item.done":
            self._items[count(chunk.get("output_index"))] = obj(chunk.get("item"))
        elif kind in _ENDS:
            self._answer = obj(chunk.get("response"))

    @property
    def failed(self) -> bool:
        return self._fault is not None

    def finish(self) -> Reply | Fault:
        if self._fault is not None:
            return self._fault
        if self._answer is None:
            return CUT_STREAM
        if not self._answer.get("output") and self._items:
            self._answer["output"] = cast("JSON", [item for _, item in sorted(self._items.items())])
        return _reply(self._answer, self.profile, self.request)


def responses_whole(body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
    """Read an answer that came in one piece."""
    answer = parsed(body)
    if answer is None:
        return Fault("transient", "malformed-answer", "the answer is not JSON", status=200)
    return _reply(answer, profile, request)


def _reply(answer: dict[str, JSON], profile: Profile, request: ModelRequest | None) -> Reply | Fault:
    status = text(answer.get("status"))
    if answer.get("error") or status == "failed":
        fault = classify_stream_error(profile.name, {"error": answer.get("error") or {"code": "response_failed"}})
        return (
            fault if fault.reason != "unknown-error" else Fault("transient", "server-error", fault.message, status=200)
        )
    reason = text(obj(answer.get("incomplete_details")).get("reason"))
    if status not in ("completed", "incomplete") or not isinstance(answer.get("output"), list):
        return Fault("transient", "unfinished-answer", f"the answer is {status or 'without status'}", status=200)
    said: list[str] = []
    refusals: list[str] = []
    thinking: list[str] = []
    calls: list[RawCall] = []
    kept: list[JSON] = []
    for item in objects(answer["output"]):
        kind = item.get("type")
        if kind == "message":
            _spoken(item, said, refusals)
            kept.append({"@": "text"})
        elif kind == "function_call":
            kept.append({"@": "call", "n": len(calls)})
            cut = item.get("status") == "incomplete"
            id, written = text(item.get("call_id")) or text(item.get("id")), text(item.get("arguments"))
            calls.append(RawCall(id, text(item.get("name")), written, cut))
        elif kind == "reasoning":
            thinking += [text(part.get("text")) for part in objects(item.get("summary"))]
            kept.append({name: value for name, value in item.items() if name != "status"})
    stop = _CUTS.get(reason, reason or "length") if status == "incomplete" else "calls" if calls else "stop"
    if refusals and stop != "length":
        said, stop, calls = said or refusals, "refusal", []
    usage, model = responses_usage(answer.get("usage")), text(answer.get("model"))
    return reply(
        asked(request),
        "".join(said),
        calls,
        stop,
        usage,
        id=text(answer.get("id")),
        model=model,
        thinking="\n\n".join(thinking),
        opaque=opaque(profile.name, kept),
    )


def _spoken(item: dict[str, JSON], said: list[str], refusals: list[str]) -> None:
    for part in objects(item.get("content")):
        if part.get("type") == "refusal":
            refusals.append(text(part.get("refusal")))
        else:
            said.append(text(part.get("text")))


def responses_usage(value: JSON) -> Usage:
    """Input includes what came from the cache."""
    usage = obj(value)
    if not usage:
        return Usage(reported=False)
    inside, outside = obj(usage.get("input_tokens_details")), obj(usage.get("output_tokens_details"))
    return Usage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(inside.get("cached_tokens")),
        count(inside.get("cache_write_tokens")),
        count(outside.get("reasoning_tokens")),
    )
