"""Gemini, `generateContent`.

Its own ideas: results do not share a content with text and are as many as the calls; the schema of a tool knows only
a few words; a signature belongs to the very part it came with; and an answer may end in a malformed call that looks
like an empty success.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from capataz.events.facts import JSON, Fault
from capataz.models.dialects.base import Encoder, Profile, Reader
from capataz.models.dialects.codec import dumps, image_parts, wire_name
from capataz.models.dialects.compose import Around, Composer
from capataz.models.dialects.gemini_read import SIGNATURE, GeminiReader, gemini_whole
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
from capataz.models.dialects.schemas import subset, unique
from capataz.ports import ModelRequest, Reply, ToolSpec

UNSIGNED = "skip_thought_signature_validator"
"""The provider's own word for a call that was not made by it, where it demands a signature."""
_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_CONFIG = {"temperature": "temperature", "top_p": "topP", "top_k": "topK", "stop": "stopSequences", "seed": "seed"}


class Gemini:
    """The dialect `gemini`."""

    name = "gemini"

    def path(self, model: str, streams: bool = True) -> str:
        place = f"/{model}" if "/" in model else f"/models/{model}"
        return f"{quote(place)}:{'streamGenerateContent?alt=sse' if streams else 'generateContent'}"

    def headers(self, key: str | None) -> dict[str, str]:
        made = {"content-type": "application/json"}
        if key:
            made["x-goog-api-key"] = key
        return made

    def encoder(self, profile: Profile) -> Encoder:
        return GeminiEncoder(profile)

    def reader(self, profile: Profile, request: ModelRequest | None = None) -> Reader:
        return GeminiReader(profile, request)

    def whole(self, body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
        return gemini_whole(body, profile, request)


@dataclass(slots=True)
class GeminiEncoder(Composer):
    """Bodies of one run. The model's name is in the path, not in the body."""

    def go_on(self) -> bytes:
        return dumps(_user([Heard("user", GO_ON)]))

    def head(self, around: Around) -> bytes:
        return b'{"contents":[' + (self.go_on() + b"," if around.bare else b"")

    def tail(self, around: Around) -> bytes:
        request = around.request
        made: dict[str, Any] = {}
        if around.system:
            made["systemInstruction"] = {"parts": [{"text": around.system}]}
        if request.tools:
            made["tools"] = [{"functionDeclarations": [_tool(tool) for tool in unique(request.tools)]}]
            if request.tool_choice != "auto":
                made["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[request.tool_choice]}}
        asked = settings(request, "contents")
        sample(asked, self.able, request.model, False, around.notes)
        config: dict[str, Any] = {ours: asked.pop(name) for name, ours in _CONFIG.items() if name in asked}
        most = cap(request)
        if most is not None:
            config["maxOutputTokens"] = most
        own = asked.pop("generationConfig", None)
        config.update(own if isinstance(own, dict) else {})
        if config:
            made["generationConfig"] = config
        made.update(asked)
        return b"]," + dumps(made)[1:] if made else b"]}"

    # ── the contents ─────────────────────────────────────────────────────────────────────────────────────

    def render(self, group: Group) -> bytes:
        contents: list[dict[str, Any]] = []
        if group.said:
            contents.append({"role": "model", "parts": self._model_parts(group)})
        if group.results:
            contents.append({"role": "user", "parts": [_result(result) for result in group.results]})
        shown = [Heard("user", "", image) for image in group.images]
        if shown:
            shown.insert(0, Heard("user", "(images from the results)"))
        if shown or group.heard:
            contents.append(_user([*shown, *group.heard]))
        return dumps(contents)[1:-1]

    def _model_parts(self, group: Group) -> list[Any]:
        parts: list[Any] = []
        for said in group.said:
            parts += [part for part in woven(said, self.profile.name, _text, _call) if _good(part)]
        calls = [part for part in parts if "functionCall" in part]
        if calls and self.able.call_signatures and SIGNATURE not in calls[0]:
            calls[0][SIGNATURE] = UNSIGNED
        return parts or [{"text": NO_TEXT}]


def _good(part: object) -> bool:
    """A part this dialect knows; never a thought without its signature, which means nothing to anybody."""
    if not isinstance(part, dict):
        return False
    known = cast("dict[str, JSON]", part)
    if known.get("thought") is True:
        return SIGNATURE in known
    return "@" not in known


def _signed(part: dict[str, Any], mark: Mapping[str, JSON]) -> dict[str, Any]:
    return {**part, SIGNATURE: mark[SIGNATURE]} if SIGNATURE in mark else part


def _text(text: str, mark: Mapping[str, JSON]) -> dict[str, Any]:
    return _signed({"text": text}, mark)


def _call(call: WireCall, mark: Mapping[str, JSON]) -> dict[str, Any]:
    return _signed({"functionCall": {"name": call.name, "args": call.arguments}}, mark)


def _result(result: WireResult) -> dict[str, Any]:
    kind = "error" if result.error else "result"
    return {"functionResponse": {"name": result.name, "response": {kind: result.text}}}


def _user(heard: Sequence[Heard]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for item in heard:
        if item.text.strip():
            parts.append({"text": f"{SYSTEM_NOTE} {item.text}" if item.role == "system" else item.text})
        if item.image:
            parts.append(_image(item.image))
    return {"role": "user", "parts": parts}


def _image(url: str) -> dict[str, Any]:
    parts = image_parts(url)
    if parts is not None:
        return {"inlineData": {"mimeType": parts[0], "data": parts[1]}}
    if url.startswith(("http://", "https://", "gs://")):
        return {"fileData": {"fileUri": url}}
    return {"text": "(an image that cannot be shown)"}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    made: dict[str, Any] = {"name": wire_name(tool.name), "description": tool.description}
    schema = subset(cast("JSON", dict(tool.schema)))
    if schema.get("properties"):
        made["parameters"] = {**schema, "type": "object"}
    return made
