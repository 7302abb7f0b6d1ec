"""Bedrock Converse, with an API key and whole answers.

Its streams are not server-sent events, so they are not asked for. A history with calls needs the tools beside it, and
there is no way to offer tools and forbid their use: then the calls are told as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote

from capataz.events.facts import JSON, Fault, Usage
from capataz.faults.classify import classify_stream_error
from capataz.models.capabilities import Capabilities
from capataz.models.dialects.base import SENT, Encoder, Profile, Reader, Sent
from capataz.models.dialects.codec import SIXTY_FOUR, dumps, image_parts, wire_name
from capataz.models.dialects.groups import (
    GO_ON,
    NO_TEXT,
    SYSTEM_NOTE,
    Group,
    Heard,
    Piece,
    Pieces,
    WireCall,
    WireResult,
    joined,
    woven,
)
from capataz.models.dialects.params import cap, known, sample, settings
from capataz.models.dialects.reading import CUT_STREAM, asked, count, obj, objects, opaque, parsed, reply, text
from capataz.models.dialects.schemas import rooted, unique
from capataz.ports import ModelRequest, RawCall, Reply, ToolSpec

_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "filter",
    "content_filtered": "filter",
}


class BedrockConverse:
    """The dialect `bedrock`."""

    name = "bedrock"

    def path(self, model: str, streams: bool = True) -> str:
        return f"/model/{quote(model, safe='')}/converse"

    def headers(self, key: str | None) -> dict[str, str]:
        made = {"content-type": "application/json"}
        if key:
            made["authorization"] = f"Bearer {key}"
        return made

    def encoder(self, profile: Profile) -> Encoder:
        return ConverseEncoder(profile)

    def reader(self, profile: Profile, request: ModelRequest | None = None) -> Reader:
        return ConverseReader(profile, request)

    def whole(self, body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
        return converse_whole(body, profile, request)


@dataclass(slots=True)
class ConverseEncoder:
    """Bodies of one run; messages are encoded once, and again only when the tools come or go."""

    profile: Profile
    _able: Capabilities = field(default_factory=Capabilities)
    _flat: bool = False
    _made_for: tuple[str, bool] | None = None
    _pieces: Pieces | None = None
    _key: tuple[object, ...] = ()
    _ends: tuple[bytes, bytes] = (b"", b"")
    _notes: tuple[str, ...] = ()

    def body(self, request: ModelRequest) -> bytes:
        flat = not request.tools or request.tool_choice == "none"
        if (request.model, flat) != self._made_for or self._pieces is None:
            self._made_for, self._flat = (request.model, flat), flat
            self._able = known(request, self.profile)
            self._pieces, self._key = Pieces(SIXTY_FOUR, self._render), ()
        pieces = self._pieces.update(request.history)
        head, tail = self._around(request, pieces)
        parts = [piece.data for piece in pieces if piece.data]
        if not parts or pieces[-1].open:
            parts.append(dumps(_user([Heard("user", GO_ON)])))
        body = head + b",".join(parts) + tail
        request.memo[SENT] = Sent(0 if b'"bytes"' in body else len(body) // 4, self._notes)
        return body

    def _around(self, request: ModelRequest, pieces: Sequence[Piece]) -> tuple[bytes, bytes]:
        hoisted = pieces[0].system if pieces else ""
        bare = bool(pieces) and bool(pieces[0].group.said)
        texts, tools = (request.system, hoisted, bare), (tuple(request.tools), request.tool_choice)
        key = (*texts, *tools, request.max_output, request.temperature, dict(request.extra))
        if key != self._key:
            first = dumps(_user([Heard("user", GO_ON)])) + b"," if bare else b""
            tail = self._tail(request, joined((request.system, hoisted)))
            self._key, self._ends = key, (b'{"messages":[' + first, tail)
        return self._ends

    def _tail(self, request: ModelRequest, system: str) -> bytes:
        notes: list[str] = []
        made: dict[str, Any] = {}
        if system:
            made["system"] = [{"text": system}]
        if not self._flat:
            choice: dict[str, Any] = {"toolChoice": {"any": {}}} if request.tool_choice == "required" else {}
            made["toolConfig"] = {"tools": [_tool(tool) for tool in unique(request.tools)], **choice}
        asked_for = settings(request)
        sample(asked_for, self._able, request.model, False, notes)
        config: dict[str, Any] = {}
        for name, ours in (("temperature", "temperature"), ("top_p", "topP"), ("stop", "stopSequences")):
            if name in asked_for:
                config[ours] = asked_for.pop(name)
        most = cap(request)
        if most is not None:
            config["maxTokens"] = most
        if config:
            made["inferenceConfig"] = config
        made.update(asked_for)
        made.pop("messages", None)
        self._notes = tuple(notes)
        return b"]," + dumps(made)[1:] if made else b"]}"

    # ── the messages ─────────────────────────────────────────────────────────────────────────────────────

    def _render(self, group: Group) -> bytes:
        messages: list[dict[str, Any]] = []
        if group.said:
            messages.append({"role": "assistant", "content": self._assistant(group)})
        blocks = [self._result(result) for result in group.results]
        if self._flat:
            blocks += [_image(image) for image in group.images]
        blocks += _user(group.heard)["content"] if group.heard else []
        if blocks:
            messages.append({"role": "user", "content": blocks})
        return dumps(messages)[1:-1]

    def _assistant(self, group: Group) -> list[Any]:
        blocks: list[Any] = []
        for said in group.said:
            blocks += [block for block in woven(said, self.profile.name, _text, self._call) if self._good(block)]
        if not blocks or "reasoningContent" in blocks[-1]:
            blocks.append({"text": NO_TEXT})
        return blocks

    def _good(self, block: object) -> bool:
        """A block this dialect knows; reasoning only beside the calls it led to."""
        return isinstance(block, dict) and "@" not in block and not (self._flat and "reasoningContent" in block)

    def _call(self, call: WireCall, mark: Mapping[str, JSON]) -> dict[str, Any]:
        if self._flat:
            return {"text": f"[called {call.name} with {dumps(call.arguments).decode()}]"}
        return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}}

    def _result(self, result: WireResult) -> dict[str, Any]:
        if self._flat:
            return {"text": f"[{'error' if result.error else 'result'} of {result.name}] {result.text}"}
        content: list[dict[str, Any]] = [{"text": result.text}]
        if result.image:
            content.append(_image(result.image))
        status = "error" if result.error else "success"
        return {"toolResult": {"toolUseId": result.id, "content": content, "status": status}}


def _text(text: str, mark: Mapping[str, JSON]) -> dict[str, Any]:
    return {"text": text}


def _user(heard: Sequence[Heard]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    for item in heard:
        if item.text.strip():
            blocks.append({"text": f"{SYSTEM_NOTE} {item.text}" if item.role == "system" else item.text})
        if item.image:
            blocks.append(_image(item.image))
    return {"role": "user", "content": blocks}


def _image(url: str) -> dict[str, Any]:
    parts = image_parts(url)
    if parts is None:
        return {"text": "(an image that cannot be shown)"}
    return {"image": {"format": parts[0].rpartition("/")[2].replace("jpg", "jpeg"), "source": {"bytes": parts[1]}}}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    description, schema = rooted(tool)
    spec: dict[str, Any] = {"name": wire_name(tool.name), "inputSchema": {"json": schema}}
    if description.strip():
        spec["description"] = description
    return {"toolSpec": spec}


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class ConverseReader:
    """For callers that treat every answer as a stream: one event, the whole answer."""

    profile: Profile
    request: ModelRequest | None = None
    _found: Reply | Fault = CUT_STREAM

    def feed(self, event: str, data: bytes) -> None:
        self._found = converse_whole(data, self.profile, self.request)

    def finish(self) -> Reply | Fault:
        return self._found


def converse_whole(body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
    """Read an answer."""
    answer = parsed(body)
    if answer is None:
        return Fault("transient", "malformed-answer", "the answer is not JSON", status=200)
    stop, message = text(answer.get("stopReason")), obj(obj(answer.get("output")).get("message"))
    if not stop and ("message" in answer or "__type" in answer):
        return classify_stream_error(profile.name, answer)
    if stop in ("malformed_tool_use", "malformed_model_output"):
        return Fault("contract", "malformed-call", f"the model made a malformed call ({stop})", status=200)
    if not stop or not isinstance(message.get("content"), list):
        return Fault("transient", "unfinished-answer", "the answer has no stop reason or no content", status=200)
    said: list[str] = []
    thinking: list[str] = []
    calls: list[RawCall] = []
    kept: list[JSON] = []
    for block in objects(message["content"]):
        use = obj(block.get("toolUse"))
        if use:
            kept.append({"@": "call", "n": len(calls)})
            given = use.get("input")
            written = given if isinstance(given, str) else dumps(given if given is not None else {}).decode()
            calls.append(RawCall(text(use.get("toolUseId")), text(use.get("name")), written))
        elif "text" in block:
            said.append(text(block["text"]))
            kept.append({"@": "text"})
        else:
            thinking.append(text(obj(obj(block.get("reasoningContent")).get("reasoningText")).get("text")))
            kept.append(cast("JSON", block))
    return reply(
        asked(request),
        "".join(said),
        calls,
        _STOPS.get(stop, stop),
        _usage(answer.get("usage")),
        thinking="".join(thinking),
        opaque=opaque(profile.name, kept),
    )


def _usage(value: JSON) -> Usage:
    """As in the messages dialect, cached tokens come on top of the input."""
    usage = obj(value)
    if not usage:
        return Usage(reported=False)
    read, written = count(usage.get("cacheReadInputTokens")), count(usage.get("cacheWriteInputTokens"))
    return Usage(count(usage.get("inputTokens")) + read + written, count(usage.get("outputTokens")), read, written)
