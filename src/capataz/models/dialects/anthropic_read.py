"""Answers of Anthropic messages, streamed or whole.

A stream may stop in the middle and still look healthy: the end mark is a stop reason, and without one nothing has
finished. Errors arrive inside a stream that began with 200. Thinking is kept byte for byte, with its place in the
turn. What the provider calls input leaves the cache out; ours counts it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from capataz.events.facts import JSON, Fault, Usage
from capataz.faults.classify import classify_stream_error
from capataz.models.dialects.base import Asked, Profile
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

_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}


@dataclass(slots=True)
class _Block:
    """A block that is still growing. `fields` are those of its start."""

    fields: dict[str, JSON]
    parts: list[str] = field(default_factory=list[str])
    signature: list[str] = field(default_factory=list[str])
    ended: bool = False

    def whole(self) -> dict[str, JSON]:
        """The block as it would stand in an answer that was not streamed."""
        made, grown = dict(self.fields), "".join(self.parts)
        kind = made.get("type")
        if kind == "thinking":
            made["thinking"] = text(made.get("thinking")) + grown
            if self.signature:
                made["signature"] = "".join(self.signature)
        elif kind == "text":
            made["text"] = text(made.get("text")) + grown
        elif grown:
            made["input"] = parsed(grown.encode()) or {}
        return made


@dataclass(slots=True)
class MessagesReader:
    """Reads one stream."""

    profile: Profile
    request: ModelRequest | None = None
    _blocks: dict[int, _Block] = field(default_factory=dict[int, _Block])
    _usage: dict[str, JSON] = field(default_factory=dict[str, JSON])
    _stop: str = ""
    _message: dict[str, JSON] = field(default_factory=dict[str, JSON])
    _refusal: str = ""
    _fault: Fault | None = None

    def feed(self, event: str, data: bytes) -> None:
        if self._fault is not None or not data or data.strip() == b"[DONE]":
            return
        chunk = parsed(data)
        if chunk is None:
            self._fault = BROKEN_STREAM
            return
        kind = text(chunk.get("type")) or event
        if kind == "content_block_delta":
            self._grow(chunk)
        elif kind == "content_block_start":
            self._blocks[count(chunk.get("index"))] = _Block(obj(chunk.get("content_block")))
        elif kind == "content_block_stop":
            block = self._blocks.get(count(chunk.get("index")))
            if block is not None:
                block.ended = True
        elif kind == "message_start":
            message = obj(chunk.get("message"))
            self._message = message
            self._count(message.get("usage"))
        elif kind == "message_delta":
            self._end(chunk)
        elif kind == "error" or "error" in chunk:
            self._fault = classify_stream_error(self.profile.name, chunk)

    def _grow(self, chunk: dict[str, JSON]) -> None:
        block, delta = self._blocks.get(count(chunk.get("index"))), obj(chunk.get("delta"))
        if block is None:
            self._fault = Fault("transient", "malformed-chunk", "a part belongs to no block of the stream", status=200)
            return
        for name in ("text", "partial_json", "thinking"):
            if delta.get(name):
                block.parts.append(text(delta[name]))
        if delta.get("signature"):
            block.signature.append(text(delta["signature"]))

    def _end(self, chunk: dict[str, JSON]) -> None:
        delta = obj(chunk.get("delta"))
        self._stop = text(delta.get("stop_reason")) or self._stop
        self._refusal = text(obj(delta.get("stop_details")).get("explanation")) or self._refusal
        self._count(chunk.get("usage"))

    def _count(self, usage: JSON) -> None:
        """Later snapshots win, but one that lacks a field takes nothing away."""
        self._usage.update({name: value for name, value in obj(usage).items() if value is not None})

    @property
    def failed(self) -> bool:
        return self._fault is not None

    def finish(self) -> Reply | Fault:
        if self._fault is not None:
            return self._fault
        if not self._stop:
            return CUT_STREAM
        blocks = [block for _, block in sorted(self._blocks.items())]
        raw = [_raw(block) if block.fields.get("type") == "tool_use" else None for block in blocks]
        return _reply(
            asked(self.request),
            self.profile,
            [block.whole() for block in blocks],
            self._stop,
            self._usage,
            self._message,
            [call for call in raw if call is not None],
            self._refusal,
        )


def _raw(block: _Block) -> RawCall:
    """The arguments as they were written: a block that was never closed is cut, whatever its text looks like."""
    given = block.fields.get("input")
    written = "".join(block.parts) or (dumps(given).decode() if given else "")
    return RawCall(text(block.fields.get("id")), text(block.fields.get("name")), written, not block.ended)


def messages_whole(body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
    """Read an answer that came in one piece."""
    answer = parsed(body)
    if answer is None:
        return Fault("transient", "malformed-answer", "the answer is not JSON", status=200)
    if answer.get("type") == "error" or answer.get("error"):
        return classify_stream_error(profile.name, answer)
    stop = text(answer.get("stop_reason"))
    if not stop or not isinstance(answer.get("content"), list):
        return Fault("transient", "unfinished-answer", "the answer has no stop reason or no content", status=200)
    blocks = objects(answer["content"])
    calls = [
        RawCall(text(block.get("id")), text(block.get("name")), _written(block.get("input")))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    refusal = text(obj(answer.get("stop_details")).get("explanation"))
    return _reply(asked(request), profile, blocks, stop, obj(answer.get("usage")), answer, calls, refusal)


def _written(value: JSON) -> str:
    return "" if value is None else value if isinstance(value, str) else dumps(value).decode()


def _reply(
    words: Asked,
    profile: Profile,
    blocks: list[dict[str, JSON]],
    stop: str,
    usage: dict[str, JSON],
    message: dict[str, JSON],
    calls: list[RawCall],
    refusal: str,
) -> Reply:
    said = [text(block.get("text")) for block in blocks if block.get("type") == "text"]
    thinking = [text(block.get("thinking")) for block in blocks if block.get("type") == "thinking"]
    end = _STOPS.get(stop, stop)
    kept = _kept(blocks)
    if end == "pause":
        kept.append({"@": "paused"})
    return reply(
        words,
        "".join(said) or (refusal if end == "refusal" else ""),
        [] if end == "refusal" else calls,
        end,
        messages_usage(usage),
        id=text(message.get("id")),
        model=text(message.get("model")),
        thinking="".join(thinking),
        opaque=opaque(profile.name, kept, always=end == "pause"),
    )


def _kept(blocks: list[dict[str, JSON]]) -> list[JSON]:
    """The turn with marks where our own text and calls stand, everything else as it came."""
    items: list[JSON] = []
    calls = 0
    for block in blocks:
        kind = block.get("type")
        if kind == "text":
            items.append({"@": "text"})
        elif kind == "tool_use":
            items.append({"@": "call", "n": calls})
            calls += 1
        else:
            items.append(cast("JSON", block))
    return items


def messages_usage(usage: dict[str, JSON]) -> Usage:
    """Cached tokens come on top of this dialect's input; ours includes them."""
    if not usage:
        return Usage(reported=False)
    read, written = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    return Usage(count(usage.get("input_tokens")) + read + written, count(usage.get("output_tokens")), read, written)
