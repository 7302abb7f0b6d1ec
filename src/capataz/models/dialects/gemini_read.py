"""Answers of Gemini, streamed or whole: the same pieces, one or many.

Snapshots of the usage may lose a field on the way; a malformed call is reported by a finish reason that many take for
a normal end; a blocked prompt has no candidates at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import orjson

from capataz.events.facts import JSON, Fault, Usage
from capataz.faults.classify import classify_stream_error
from capataz.models.dialects.base import Profile
from capataz.models.dialects.codec import dumps
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

SIGNATURE = "thoughtSignature"
_STOPS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE"), "filter"
    ),
}
_MALFORMED = frozenset(("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"))


@dataclass(slots=True)
class GeminiReader:
    """Reads one stream; a whole answer is a stream of one."""

    profile: Profile
    request: ModelRequest | None = None
    _parts: list[dict[str, JSON]] = field(default_factory=list[dict[str, JSON]])
    _usage: dict[str, JSON] = field(default_factory=dict[str, JSON])
    _stop: str = ""
    _why: str = ""
    _model: str = ""
    _id: str = ""
    _fault: Fault | None = None

    def feed(self, event: str, data: bytes) -> None:
        if self._fault is not None or not data or data.strip() == b"[DONE]":
            return
        chunk = parsed(data)
        if chunk is None:
            self._fault = _listed(self.profile.name, data)
        elif chunk.get("error") or event == "error":
            self._fault = classify_stream_error(self.profile.name, chunk)
        else:
            self.take(chunk)

    def take(self, chunk: dict[str, JSON]) -> None:
        self._model = text(chunk.get("modelVersion")) or self._model
        self._id = text(chunk.get("responseId")) or self._id
        self._usage.update(
            {name: value for name, value in obj(chunk.get("usageMetadata")).items() if value is not None}
        )
        blocked = text(obj(chunk.get("promptFeedback")).get("blockReason"))
        if blocked:
            self._stop, self._why = "SAFETY", f"the prompt was blocked: {blocked}"
        for candidate in objects(chunk.get("candidates"))[:1]:
            self._parts += objects(obj(candidate.get("content")).get("parts"))
            self._stop = text(candidate.get("finishReason")) or self._stop
            self._why = text(candidate.get("finishMessage")) or self._why

    @property
    def failed(self) -> bool:
        return self._fault is not None

    def finish(self) -> Reply | Fault:
        if self._fault is not None:
            return self._fault
        if not self._stop:
            return CUT_STREAM
        if self._stop in _MALFORMED:
            return Fault("contract", "malformed-call", f"the model made a malformed call ({self._stop})", status=200)
        return self._reply()

    def _reply(self) -> Reply:
        said: list[str] = []
        thinking: list[str] = []
        calls: list[RawCall] = []
        kept: list[JSON] = []
        for part in self._parts:
            signed: dict[str, JSON] = {SIGNATURE: part[SIGNATURE]} if SIGNATURE in part else {}
            call = obj(part.get("functionCall"))
            if call:
                kept.append({"@": "call", "n": len(calls), **signed})
                given = call.get("args")
                calls.append(RawCall(text(call.get("id")), text(call.get("name")), dumps(given or {}).decode()))
            elif part.get("thought") is True:
                thinking.append(text(part.get("text")))
                if signed:
                    kept.append(cast("JSON", part))
            elif "text" in part:
                said.append(text(part.get("text")))
                if signed or {"@": "text"} not in kept:
                    kept.append({"@": "text", **signed})
            else:
                kept.append(cast("JSON", part))
        stop = _STOPS.get(self._stop, self._stop.lower())
        return reply(
            asked(self.request),
            "".join(said) or (self._why if stop == "filter" else ""),
            [] if stop == "filter" else calls,
            stop,
            gemini_usage(self._usage),
            id=self._id,
            model=self._model,
            thinking="".join(thinking),
            opaque=opaque(self.profile.name, _tidy(kept)),
        )


def _tidy(kept: list[JSON]) -> list[JSON]:
    """Text is one part when it goes back: a signature on any piece of it moves to that part."""
    marks = [item for item in kept if isinstance(item, dict) and item.get("@") == "text"]
    signed = next((mark for mark in reversed(marks) if SIGNATURE in mark), None)
    first = True
    made: list[JSON] = []
    for item in kept:
        if isinstance(item, dict) and item.get("@") == "text":
            if first:
                made.append(signed or item)
            first = False
        else:
            made.append(item)
    return made


def _listed(provider: str, data: bytes) -> Fault:
    """Errors of a stream may come as a list of one."""
    try:
        value = cast("JSON", orjson.loads(data))
    except ValueError:
        return BROKEN_STREAM
    return classify_stream_error(provider, value)


def gemini_whole(body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
    """Read an answer that came in one piece."""
    answer = parsed(body)
    if answer is None:
        fault = _listed(profile.name, body)
        if fault.reason == "malformed-chunk":
            return Fault("transient", "malformed-answer", "the answer is not JSON", status=200)
        return fault
    if answer.get("error"):
        return classify_stream_error(profile.name, answer)
    reader = GeminiReader(profile, request)
    reader.take(answer)
    found = reader.finish()
    if found is CUT_STREAM:
        return Fault("transient", "unfinished-answer", "the answer has no finished candidate", status=200)
    return found


def gemini_usage(usage: dict[str, JSON]) -> Usage:
    """Input includes what came from the cache; thinking is counted apart from the answer and belongs to the output."""
    if not usage:
        return Usage(reported=False)
    thoughts = count(usage.get("thoughtsTokenCount"))
    return Usage(
        count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount")),
        count(usage.get("candidatesTokenCount")) + thoughts,
        count(usage.get("cachedContentTokenCount")),
        0,
        thoughts,
    )
