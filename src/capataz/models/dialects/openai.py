"""OpenAI chat completions, and the many servers that speak it more or less.

The servers differ in what they refuse of a history: null contents, ids of another length, a user right behind a tool,
two of the same role in a row. Those differences are in the profile and the capability table; the text here is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from capataz.events.facts import JSON, Fault
from capataz.models.capabilities import Capabilities
from capataz.models.dialects.base import SENT, Encoder, Profile, Reader, Sent
from capataz.models.dialects.codec import FORTY, NINE, dumps, wire_name
from capataz.models.dialects.groups import (
    GO_ON,
    NO_TEXT,
    SYSTEM_NOTE,
    Group,
    Heard,
    Piece,
    Pieces,
    WireCall,
    joined,
    opaque_items,
)
from capataz.models.dialects.openai_read import ChatReader, chat_whole
from capataz.models.dialects.params import cap, effort, known, sample, settings
from capataz.models.dialects.reading import obj
from capataz.models.dialects.schemas import can_be_strict, rooted, unique
from capataz.ports import ModelRequest, Reply, ToolSpec

GOT_RESULTS = "(results received)"
"""Stands between results and a user message, where a server wants the assistant to have spoken in between."""


class OpenAIChat:
    """The dialect `openai`."""

    name = "openai"

    def path(self, model: str, streams: bool = True) -> str:
        return "/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        made = {"content-type": "application/json"}
        if key:
            made["authorization"] = f"Bearer {key}"
        return made

    def encoder(self, profile: Profile) -> Encoder:
        return ChatEncoder(profile)

    def reader(self, profile: Profile, request: ModelRequest | None = None) -> Reader:
        return ChatReader(profile, request)

    def whole(self, body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
        return chat_whole(body, profile, request)


@dataclass(slots=True)
class ChatEncoder:
    """Bodies of one run. What stays the same between two calls (settings, tools, old messages) is kept as bytes."""

    profile: Profile
    _able: Capabilities = field(default_factory=Capabilities)
    _model: str | None = None
    _pieces: Pieces | None = None
    _key: tuple[object, ...] = ()
    _ends: tuple[bytes, bytes] = (b"", b"")
    _notes: tuple[str, ...] = ()

    def body(self, request: ModelRequest) -> bytes:
        if request.model != self._model or self._pieces is None:
            self._model, self._able = request.model, known(request, self.profile)
            nine = self.profile.nine_letter_ids or self._able.nine_letter_ids
            self._pieces, self._key = Pieces(NINE if nine else FORTY, self._render), ()
        pieces = self._pieces.update(request.history)
        head, tail = self._around(request, pieces)
        parts = [piece.data for piece in pieces if piece.data]
        if not parts or pieces[-1].open:
            parts.append(dumps({"role": "user", "content": GO_ON}))
        body = head + b",".join(parts) + tail
        request.memo[SENT] = Sent(0 if b'"image_url"' in body else len(body) // 4, self._notes)
        return body

    def _alternates(self) -> bool:
        return self.profile.alternates or self._able.alternates

    # ── around the messages ──────────────────────────────────────────────────────────────────────────────

    def _around(self, request: ModelRequest, pieces: Sequence[Piece]) -> tuple[bytes, bytes]:
        hoisted = pieces[0].system if pieces else ""
        bare = self._alternates() and bool(pieces) and bool(pieces[0].group.said)
        texts, tools = (request.system, hoisted, bare), (tuple(request.tools), request.tool_choice)
        key = (*texts, *tools, request.max_output, request.temperature, dict(request.extra))
        if key != self._key:
            self._key, self._ends = key, (self._head(request, hoisted, bare), self._tail(request))
        return self._ends

    def _head(self, request: ModelRequest, hoisted: str, bare: bool) -> bytes:
        first: list[dict[str, JSON]] = []
        system = joined((request.system, hoisted))
        if system:
            first.append({"role": self._able.system, "content": system})
        if bare:
            first.append({"role": "user", "content": GO_ON})
        head = b'{"model":' + dumps(request.model) + b',"messages":['
        return head + b"".join(dumps(message) + b"," for message in first)

    def _tail(self, request: ModelRequest) -> bytes:
        notes: list[str] = []
        made: dict[str, Any] = {}
        if request.tools and (self.profile.choice_none or request.tool_choice != "none"):
            made["tools"] = [self._tool(tool) for tool in unique(request.tools)]
            if request.tool_choice != "auto":
                made["tool_choice"] = request.tool_choice
        most = cap(request)
        if most is not None:
            made[self._able.output_name] = most
        if self.profile.streams:
            made["stream"] = True
            if self.profile.stream_usage:
                made["stream_options"] = {"include_usage": True}
        made.update(settings(request))
        sample(made, self._able, request.model, effort(made), notes)
        for name in ("model", "messages"):
            made.pop(name, None)
        self._notes = tuple(notes)
        return b"]}" if not made else b"]," + dumps(made)[1:]

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        description, schema = rooted(tool)
        made: dict[str, Any] = {"name": wire_name(tool.name), "description": description, "parameters": schema}
        if self.profile.strict_tools and can_be_strict(cast("JSON", dict(tool.schema))):
            made["strict"] = True
        return {"type": "function", "function": made}

    # ── the messages ─────────────────────────────────────────────────────────────────────────────────────

    def _render(self, group: Group) -> bytes:
        messages: list[dict[str, Any]] = []
        if group.said:
            messages.append(self._assistant(group))
        messages += [{"role": "tool", "tool_call_id": done.id, "content": done.text} for done in group.results]
        heard = self._heard(group)
        if heard and group.results and not (self.profile.user_after_tool and self._able.user_after_tool):
            messages.append({"role": "assistant", "content": GOT_RESULTS})
        return dumps(messages + heard)[1:-1]

    def _assistant(self, group: Group) -> dict[str, Any]:
        calls = group.calls
        text = group.text
        made: dict[str, Any] = {"role": "assistant", "content": text if text or calls else NO_TEXT}
        if calls:
            made["tool_calls"] = [_call(call) for call in calls]
            # Reasoning belongs to a turn with calls: without them it is refused by some and ignored by the others.
            for said in group.said:
                for item in opaque_items(said.message, self.profile.name):
                    made.update({name: value for name, value in obj(item).items() if name in self.profile.kept_fields})
        return made

    def _heard(self, group: Group) -> list[dict[str, Any]]:
        """Tool messages are text only: their images follow in a user message, behind all results."""
        heard = list(group.heard)
        if group.images:
            shown = ", ".join(dict.fromkeys(result.name for result in group.results if result.image))
            heard[:0] = [Heard("user", f"(images from {shown})" if not at else "", image)
                         for at, image in enumerate(group.images)]  # fmt: skip
        if not (self._alternates() or group.images):
            return [self._one(item) for item in heard]
        return [_user([self._tagged(item) for item in heard])] if heard else []

    def _one(self, item: Heard) -> dict[str, Any]:
        if item.role == "system" and self._able.system == "system":
            return {"role": "system", "content": item.text}
        return _user([self._tagged(item)])

    def _tagged(self, item: Heard) -> Heard:
        return Heard("user", f"{SYSTEM_NOTE} {item.text}", item.image) if item.role == "system" else item


def _call(call: WireCall) -> dict[str, Any]:
    arguments = dumps(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _user(heard: Sequence[Heard]) -> dict[str, Any]:
    if not any(item.image for item in heard):
        return {"role": "user", "content": joined(item.text for item in heard)}
    parts: list[dict[str, Any]] = []
    for item in heard:
        if item.text.strip():
            parts.append({"type": "text", "text": item.text})
        if item.image:
            parts.append({"type": "image_url", "image_url": {"url": item.image}})
    return {"role": "user", "content": parts}
