"""OpenAI Responses, always without stored state: the history travels with each request.

Reasoning goes back encrypted or not at all: an item known only by its id is "not found", and a model that does not
reason refuses any. Calls and results are items of their own; the answer is only complete when its status says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from capataz.events.facts import JSON, Fault
from capataz.models.dialects.base import Encoder, Profile, Reader
from capataz.models.dialects.codec import bearer, dumps, wire_name
from capataz.models.dialects.compose import Around, Composer
from capataz.models.dialects.groups import (
    GO_ON,
    NO_TEXT,
    SYSTEM_NOTE,
    Group,
    Heard,
    WireCall,
    joined,
    woven,
)
from capataz.models.dialects.params import cap, effort, sample, settings
from capataz.models.dialects.responses_read import ResponsesReader, responses_whole
from capataz.models.dialects.schemas import can_be_strict, rooted, unique
from capataz.ports import ModelRequest, Reply, ToolSpec

ENCRYPTED = "reasoning.encrypted_content"


class OpenAIResponses:
    """The dialect `openai-responses`."""

    name = "openai-responses"

    def path(self, model: str, streams: bool = True) -> str:
        return "/responses"

    def headers(self, key: str | None) -> dict[str, str]:
        return bearer(key)

    def encoder(self, profile: Profile) -> Encoder:
        return ResponsesEncoder(profile)

    def reader(self, profile: Profile, request: ModelRequest | None = None) -> Reader:
        return ResponsesReader(profile, request)

    def whole(self, body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
        return responses_whole(body, profile, request)


@dataclass(slots=True)
class ResponsesEncoder(Composer):
    """Bodies of one run. `mode`: the provider stores the answers, so that ids mean something."""

    def mode_of(self, request: ModelRequest) -> bool:
        return request.extra.get("store") is True

    def go_on(self) -> bytes:
        return dumps(_user([Heard("user", GO_ON)]))

    def head(self, around: Around) -> bytes:
        return b'{"model":' + dumps(around.request.model) + b',"input":['

    def tail(self, around: Around) -> bytes:
        request = around.request
        made: dict[str, Any] = {}
        if around.system:
            made["instructions"] = around.system
        if request.tools:
            made["tools"] = [self._tool(tool) for tool in unique(request.tools)]
            if request.tool_choice != "auto":
                made["tool_choice"] = request.tool_choice
        most = cap(request)
        if most is not None:
            made["max_output_tokens"] = most
        made["store"] = False
        made["stream"] = self.profile.streams
        made.update(settings(request, "input"))
        if self.able.reasoning and not self.mode:
            include = cast("list[JSON]", made.get("include") or [])
            made["include"] = [*include, *([] if ENCRYPTED in include else [ENCRYPTED])]
        sample(made, self.able, request.model, effort(made), around.notes)
        return b"]," + dumps(made)[1:]

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        description, schema = rooted(tool)
        strict = self.profile.strict_tools and can_be_strict(cast("JSON", dict(tool.schema)))
        name = wire_name(tool.name)
        # Without a word here this dialect is strict, and a schema that strict mode cannot take is refused.
        return {"type": "function", "name": name, "description": description, "parameters": schema, "strict": strict}

    # ── the items ────────────────────────────────────────────────────────────────────────────────────────

    def render(self, group: Group) -> bytes:
        items: list[Any] = []
        for said in group.said:
            items += [item for item in woven(said, self.profile.name, _text, _call) if self._good(item)]
        while items and _kind(items[-1]) == "reasoning":
            items.pop()  # Reasoning whose answer never came is refused.
        if group.said and not items:
            items.append(_text(NO_TEXT, {}))
        for result in group.results:
            items.append({"type": "function_call_output", "call_id": result.id, "output": result.text})
        heard = [Heard("user", "", image) for image in group.images]
        if heard:
            items.append(_user([Heard("user", "(images from the results)"), *heard]))
        items += [_heard(item) for item in group.heard]
        return dumps(items)[1:-1]

    def _good(self, item: object) -> bool:
        """Reasoning only with its content, and only for a model that reasons."""
        if _kind(item) != "reasoning":
            return _kind(item) in ("message", "function_call")
        return self.able.reasoning and (self.mode or bool(cast("dict[str, JSON]", item).get("encrypted_content")))


def _kind(item: object) -> str:
    kind = cast("dict[str, JSON]", item).get("type") if isinstance(item, dict) else None
    return kind if isinstance(kind, str) else ""


def _text(text: str, mark: Mapping[str, JSON]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text}


def _call(call: WireCall, mark: Mapping[str, JSON]) -> dict[str, Any]:
    arguments = dumps(call.arguments).decode()
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _heard(item: Heard) -> dict[str, Any]:
    if item.role == "system":
        return _user([Heard("user", f"{SYSTEM_NOTE} {item.text}", item.image)])
    return _user([item])


def _user(heard: Sequence[Heard]) -> dict[str, Any]:
    if not any(item.image for item in heard):
        return {"type": "message", "role": "user", "content": joined(item.text for item in heard)}
    parts: list[dict[str, Any]] = []
    for item in heard:
        if item.text.strip():
            parts.append({"type": "input_text", "text": item.text})
        if item.image:
            parts.append({"type": "input_image", "image_url": item.image, "detail": "auto"})
    return {"type": "message", "role": "user", "content": parts}
