"""OpenAI chat completions, and the many servers that speak it more or less.

The servers differ in what they refuse of a history: null contents, ids of another length, a user right behind a tool,
two of the same role in a row. Those differences are in the profile and the capability table; the text here is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from capataz.events.facts import JSON, Fault
from capataz.models.dialects.base import Encoder, Profile, Reader
from capataz.models.dialects.codec import FORTY, NINE, IdRule, bearer, dumps, wire_name
from capataz.models.dialects.compose import Around, Composer
from capataz.models.dialects.groups import (
    GO_ON,
    NO_TEXT,
    SYSTEM_NOTE,
    Group,
    Heard,
    WireCall,
    joined,
    opaque_items,
)
from capataz.models.dialects.openai_read import ChatReader, chat_whole
from capataz.models.dialects.params import cap, effort, sample, settings
from capataz.models.dialects.reading import obj
from capataz.models.dialects.schemas import can_be_strict, rooted, unique
from capataz.ports import ModelRequest, Reply, ToolSpec

GOT_RESULTS = "(results received)"
"""Stands between results and a user message, where a server wants the assistant to have spoken in between."""


UNDERSTOOD = "(understood)"
"""Stands behind instructions that had to be given as the user's, where user and assistant take turns."""


class OpenAIChat:
    """The dialect `openai`."""

    name = "openai"

    def path(self, model: str, streams: bool = True) -> str:
        return "/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        return bearer(key)

    def encoder(self, profile: Profile) -> Encoder:
        return ChatEncoder(profile)

    def reader(self, profile: Profile, request: ModelRequest | None = None) -> Reader:
        return ChatReader(profile, request)

    def whole(self, body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
        return chat_whole(body, profile, request)


@dataclass(slots=True)
class ChatEncoder(Composer):
    """Bodies of one run."""

    def ids(self) -> IdRule:
        return NINE if self.profile.nine_letter_ids or self.able.nine_letter_ids else FORTY

    def go_on(self) -> bytes:
        return dumps({"role": "user", "content": GO_ON})

    def _alternates(self) -> bool:
        return self.profile.alternates or self.able.alternates

    # ── around the messages ──────────────────────────────────────────────────────────────────────────────

    def head(self, around: Around) -> bytes:
        first: list[dict[str, JSON]] = []
        if around.system:
            first.append({"role": self.able.system, "content": around.system})
        if self._alternates():
            # Whoever speaks next must not be of the role that spoke last.
            spoke = first[-1]["role"] if first else "system"
            if around.bare and spoke != "user":
                first.append({"role": "user", "content": GO_ON})
            elif spoke == "user" and not around.bare:
                first.append({"role": "assistant", "content": UNDERSTOOD})
        head = b'{"model":' + dumps(around.request.model) + b',"messages":['
        return head + b"".join(dumps(message) + b"," for message in first)

    def tail(self, around: Around) -> bytes:
        request = around.request
        made: dict[str, Any] = {}
        if request.tools and (self.profile.choice_none or request.tool_choice != "none"):
            made["tools"] = [self._tool(tool) for tool in unique(request.tools)]
            if request.tool_choice != "auto":
                made["tool_choice"] = request.tool_choice
        most = cap(request)
        if most is not None:
            made[self.able.output_name] = most
        if self.profile.streams:
            made["stream"] = True
            if self.profile.stream_usage:
                made["stream_options"] = {"include_usage": True}
        made.update(settings(request, "messages"))
        sample(made, self.able, request.model, effort(made), around.notes)
        return b"]}" if not made else b"]," + dumps(made)[1:]

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        description, schema = rooted(tool)
        made: dict[str, Any] = {"name": wire_name(tool.name), "description": description, "parameters": schema}
        if self.profile.strict_tools and can_be_strict(cast("JSON", dict(tool.schema))):
            made["strict"] = True
        return {"type": "function", "function": made}

    # ── the messages ─────────────────────────────────────────────────────────────────────────────────────

    def render(self, group: Group) -> bytes:
        messages: list[dict[str, Any]] = []
        if group.said:
            messages.append(self._assistant(group))
        messages += [{"role": "tool", "tool_call_id": done.id, "content": done.text} for done in group.results]
        heard = self._heard(group)
        if heard and group.results and not (self.profile.user_after_tool and self.able.user_after_tool):
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
        if item.role == "system" and self.able.system == "system":
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
