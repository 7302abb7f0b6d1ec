"""Anthropic messages.

What it is strict about: all results of one turn in one user turn directly behind it; no empty text anywhere; thinking
first, byte for byte, and never without its signature; the last word must be the user's; a forced choice and thinking
exclude each other; and an output cap is demanded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from capataz.events.facts import JSON, Fault
from capataz.models.dialects.anthropic_read import MessagesReader, messages_whole
from capataz.models.dialects.base import Encoder, Profile, Reader
from capataz.models.dialects.codec import dumps, image_parts, wire_name
from capataz.models.dialects.compose import Around, Composer
from capataz.models.dialects.groups import (
    GO_ON,
    NO_TEXT,
    SYSTEM_NOTE,
    Group,
    Heard,
    Piece,
    Said,
    WireCall,
    WireResult,
    opaque_items,
    woven,
)
from capataz.models.dialects.params import cap, sample, settings
from capataz.models.dialects.schemas import rooted, unique
from capataz.ports import ModelRequest, Reply, ToolSpec

MARK = b',"cache_control":{"type":"ephemeral"}'
OUTPUT = 8192
"""Tokens asked for where neither the caller nor the table says how many: the dialect demands a number."""
PAUSED = "paused"
"""Mark, kept with a paused turn: it goes back unchanged, with nothing behind it."""


class AnthropicMessages:
    """The dialect `anthropic`."""

    name = "anthropic"

    def path(self, model: str, streams: bool = True) -> str:
        return "/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        made = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
        if key:
            made["x-api-key"] = key
        return made

    def encoder(self, profile: Profile) -> Encoder:
        return MessagesEncoder(profile)

    def reader(self, profile: Profile, request: ModelRequest | None = None) -> Reader:
        return MessagesReader(profile, request)

    def whole(self, body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
        return messages_whole(body, profile, request)


@dataclass(frozen=True, slots=True)
class _Look:
    """What the settings depend on in the history: names to declare, and whether thinking may begin here."""

    names: tuple[str, ...]
    bound: bool


@dataclass(slots=True)
class MessagesEncoder(Composer):
    """Bodies of one run; cache marks are laid in when joining."""

    def go_on(self) -> bytes:
        return dumps(_user([Heard("user", GO_ON)]))

    def look(self, request: ModelRequest, pieces: Sequence[Piece]) -> _Look:
        # A history with calls is refused without tools: the names it speaks of have to be declared.
        names = set[str]().union(*(piece.names for piece in pieces)) if not request.tools else set[str]()
        bound = bool(pieces) and _unthought(pieces[-1], self.profile.name)
        return _Look(tuple(sorted(names)), bound)

    def wants_user(self, last: Piece) -> bool:
        return last.open and not _paused(last, self.profile.name)

    def finish(self, parts: list[bytes]) -> list[bytes]:
        return _marked(parts) if self.profile.cache_marks else parts

    # ── around the messages ──────────────────────────────────────────────────────────────────────────────

    def head(self, around: Around) -> bytes:
        first = self.go_on() + b"," if around.bare else b""
        return b'{"model":' + dumps(around.request.model) + b',"messages":[' + first

    def tail(self, around: Around) -> bytes:
        request, look = around.request, around.more
        made: dict[str, Any] = {}
        tools = [_tool(tool) for tool in unique(request.tools)]
        tools = tools or [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in look.names]
        if around.system:
            made["system"] = [_text(around.system)]
        if tools:
            made["tools"] = tools
        if self.profile.cache_marks and made and "cache_control" not in request.extra:
            made["system" if around.system else "tools"][-1]["cache_control"] = {"type": "ephemeral"}
        made["max_tokens"] = cap(request) or self.able.output or OUTPUT
        made["stream"] = self.profile.streams
        made.update(settings(request, "messages"))
        thinks = _thinking(made, look.bound, around.notes)
        if tools:
            _choose(made, request, thinks, around.notes)
        sample(made, self.able, request.model, thinks, around.notes)
        return b"]," + dumps(made)[1:]

    # ── the messages ─────────────────────────────────────────────────────────────────────────────────────

    def render(self, group: Group) -> bytes:
        messages: list[dict[str, Any]] = []
        if group.said:
            messages.append({"role": "assistant", "content": self._assistant(group)})
        blocks: list[Any] = [_result(result) for result in group.results]
        blocks += _user(group.heard)["content"] if group.heard else []
        if blocks:
            messages.append({"role": "user", "content": blocks})
        return dumps(messages)[1:-1]

    def _assistant(self, group: Group) -> list[Any]:
        blocks: list[Any] = []
        for said in group.said:
            blocks += [block for block in woven(said, self.profile.name, _text, _use) if _good(block)]
        if not blocks or _kind(blocks[-1]) in ("thinking", "redacted_thinking"):
            blocks.append(_text(NO_TEXT))
        return blocks


def _text(text: str, mark: Mapping[str, JSON] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _use(call: WireCall, mark: Mapping[str, JSON]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}


def _kind(block: object) -> str:
    kind = cast("dict[str, JSON]", block).get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def _good(block: object) -> bool:
    """Not our own mark, and no thinking whose signature is missing."""
    kind = _kind(block)
    if kind == "thinking":
        return bool(cast("dict[str, JSON]", block).get("signature"))
    if kind == "redacted_thinking":
        return bool(cast("dict[str, JSON]", block).get("data"))
    return bool(kind)


def _result(result: WireResult) -> dict[str, Any]:
    content: Any = result.text
    if result.image:
        content = [{"type": "text", "text": result.text}, _image(result.image)]
    made: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id, "content": content}
    if result.error:
        made["is_error"] = True
    return made


def _image(url: str) -> dict[str, Any]:
    parts = image_parts(url)
    if parts is not None:
        return {"type": "image", "source": {"type": "base64", "media_type": parts[0], "data": parts[1]}}
    if url.startswith(("http://", "https://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "text", "text": "(an image that cannot be shown)"}


def _user(heard: Sequence[Heard]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    for item in heard:
        if item.text.strip():
            blocks.append(
                {"type": "text", "text": f"{SYSTEM_NOTE} {item.text}" if item.role == "system" else item.text}
            )
        if item.image:
            blocks.append(_image(item.image))
    return {"role": "user", "content": blocks}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    description, schema = rooted(tool)
    return {"name": wire_name(tool.name), "description": description, "input_schema": schema}


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────


def _thinking(made: dict[str, Any], bound: bool, notes: list[str]) -> bool:
    """Fit the settings to thinking, where it is asked for; False where it is off. `bound`: it cannot begin here."""
    asked = made.get("thinking")
    kind = _kind(asked)
    if kind in ("", "disabled"):
        return False
    if bound:
        # In the middle of a turn of calls thinking must have begun with the turn; after a change of provider it
        # has not.
        del made["thinking"]
        notes.append("thinking was not sent: the open turn began without it")
        return False
    for name in ("temperature", "top_k"):
        if name in made and made[name] != 1:
            del made[name]
            notes.append(f"{name} was not sent: it excludes thinking")
    budget = cast("dict[str, JSON]", asked).get("budget_tokens")
    if isinstance(budget, int) and made["max_tokens"] <= budget:
        made["max_tokens"] += budget
    return True


def _choose(made: dict[str, Any], request: ModelRequest, thinks: bool, notes: list[str]) -> None:
    """The tool choice, unless the caller's own parameters name one; a forced one excludes thinking."""
    choice = "none" if not request.tools else {"required": "any"}.get(request.tool_choice, request.tool_choice)
    if choice != "auto":
        made.setdefault("tool_choice", {"type": choice})
    if thinks and _kind(made.get("tool_choice")) in ("any", "tool"):
        del made["tool_choice"]
        notes.append("the forced tool choice was not sent: it excludes thinking")


def _unthought(piece: Piece, provider: str) -> bool:
    """An open turn of calls that did not begin with thinking of this provider's."""
    said: tuple[Said, ...] = piece.group.said
    if not piece.group.calls or piece.group.heard:
        return False
    return not any(_good(item) and "thinking" in _kind(item) for item in opaque_items(said[0].message, provider))


def _paused(piece: Piece, provider: str) -> bool:
    said = piece.group.said
    return bool(said) and {"@": PAUSED} in opaque_items(said[-1].message, provider)


def _marked(parts: list[bytes]) -> list[bytes]:
    """Mark the ends of the last two user turns: three marks with that of the settings, one less than allowed."""
    for at in range(len(parts) - 1, max(-1, len(parts) - 3), -1):
        part = parts[at]
        if part.endswith(b"}]}") and part.rfind(b'{"role":"user"') > part.rfind(b'{"role":"assistant"'):
            parts[at] = part[:-3] + MARK + part[-3:]
    return parts
