"""Bedrock Converse, with an API key and whole answers.

Its streams are not server-sent events, so they are not asked for. A history with calls needs the tools beside it, and
there is no way to offer tools and forbid their use: then the calls are told as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from capataz.events.facts import JSON, Fault, Usage
from capataz.faults.classify import classify_stream_error
from capataz.models.dialects.base import Encoder, Profile, Reader
from capataz.models.dialects.codec import bearer, dumps, image_parts, wire_name
from capataz.models.dialects.compose import Around, Composer
from capataz.models.dialects.groups import (
    GO_ON,
    NO_TEXT,
    SYSTEM_NOTE,
    Group,
    Heard,
    WireCall,
    WireResult,
    woven,
)
from capataz.models.dialects.params import cap, sample, settings
from capataz.models.dialects.reading import CUT_STREAM, asked, count, obj, objects, opaque, parsed, reply, text
from capataz.models.dialects.schemas import rooted, unique
from capataz.ports import ModelRequest, RawCall, Reply, ToolSpec

_CONFIG = {"temperature": "temperature", "top_p": "topP", "stop": "stopSequences"}
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
        return bearer(key)

    def encoder(self, profile: Profile) -> Encoder:
        return ConverseEncoder(profile)

    def reader(self, profile: Profile, request: ModelRequest | None = None) -> Reader:
        return ConverseReader(profile, request)

    def whole(self, body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
        return converse_whole(body, profile, request)


@dataclass(slots=True)
class ConverseEncoder(Composer):
    """Bodies of one run. `mode`: no tools are offered, so calls and results are told as text."""

    def mode_of(self, request: ModelRequest) -> bool:
        return not request.tools or request.tool_choice == "none"

    def go_on(self) -> bytes:
        return dumps(_user([Heard("user", GO_ON)]))

    def head(self, around: Around) -> bytes:
        return b'{"messages":[' + (self.go_on() + b"," if around.bare else b"")

    def tail(self, around: Around) -> bytes:
        request = around.request
        made: dict[str, Any] = {}
        if around.system:
            made["system"] = [{"text": around.system}]
        if not self.mode:
            choice: dict[str, Any] = {"toolChoice": {"any": {}}} if request.tool_choice == "required" else {}
            made["toolConfig"] = {"tools": [_tool(tool) for tool in unique(request.tools)], **choice}
        asked_for = settings(request, "messages")
        sample(asked_for, self.able, request.model, False, around.notes)
        config: dict[str, Any] = {ours: asked_for.pop(name) for name, ours in _CONFIG.items() if name in asked_for}
        most = cap(request)
        if most is not None:
            config["maxTokens"] = most
        if config:
            made["inferenceConfig"] = config
        made.update(asked_for)
        return b"]," + dumps(made)[1:] if made else b"]}"

    # ── the messages ─────────────────────────────────────────────────────────────────────────────────────

    def render(self, group: Group) -> bytes:
        messages: list[dict[str, Any]] = []
        if group.said:
            messages.append({"role": "assistant", "content": self._assistant(group)})
        blocks = [self._result(result) for result in group.results]
        if self.mode:
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
        return isinstance(block, dict) and "@" not in block and not (self.mode and "reasoningContent" in block)

    def _call(self, call: WireCall, mark: Mapping[str, JSON]) -> dict[str, Any]:
        if self.mode:
            return {"text": f"[called {call.name} with {dumps(call.arguments).decode()}]"}
        return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}}

    def _result(self, result: WireResult) -> dict[str, Any]:
        if self.mode:
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

    @property
    def failed(self) -> bool:
        return False

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
