"""Anthropic messages as the provider enforces them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import cast

from capataz.testing.wire.parts import (
    Findings,
    Obj,
    check_list,
    check_name,
    check_number,
    check_root,
    check_unique,
    full,
    objects,
    read,
    walk,
)

_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_NO_SAMPLING = re.compile(r"claude-opus-4[-.][78](\D|$)")
_ONE_SAMPLER = re.compile(r"claude-(opus-4[-.][1-9](\D|$)|(sonnet|haiku)-4[-.][5-9](\D|$))")
_KINDS = {
    "user": ("text", "image", "document", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "web_search_tool_result"),
}


def check_anthropic(body: bytes | str | Obj) -> list[str]:
    """What Anthropic would refuse in this body; nothing when it is fine."""
    found = Findings()
    made = read(body, found)
    if made is None:
        return found
    found.need(full(made.get("model")), "no model")
    found.need(isinstance(made.get("max_tokens"), int) and made["max_tokens"] > 0, "no max_tokens")
    messages = check_list(made.get("messages"), "messages", found)
    _settings(made, found)
    _tools(made, messages, found)
    _system(made.get("system"), found)
    _turns(messages, found)
    for at, message in enumerate(messages):
        _message(message, f"messages[{at}]", found)
    _pairs(messages, found)
    marks = [node for node in walk(made) if "cache_control" in node]
    found.need(len(marks) <= 4, f"{len(marks)} cache marks, at most 4")
    for node in marks:
        empty = node.get("type") == "text" and not full(node.get("text"))
        found.need(
            not empty and "thinking" not in str(node.get("type")), "a cache mark on thinking or on an empty text"
        )
    return found


def _settings(made: Obj, found: Findings) -> None:
    model = str(made.get("model"))
    check_number(made, "temperature", 0, 1, found)
    check_number(made, "top_p", 0, 1, found)
    thinking = cast("Obj", made.get("thinking") or {})
    if thinking.get("type") in ("enabled", "adaptive"):
        found.need(made.get("temperature", 1) == 1, "thinking excludes temperature")
        found.need("top_k" not in made, "thinking excludes top_k")
        choice = cast("Obj", made.get("tool_choice") or {}).get("type", "auto")
        found.need(choice in ("auto", "none"), "thinking excludes a forced tool choice")
        budget = thinking.get("budget_tokens")
        if isinstance(budget, int):
            found.need(budget >= 1024, "a thinking budget below 1024")
            found.need(made.get("max_tokens", 0) > budget, "max_tokens not above the thinking budget")
    if _NO_SAMPLING.search(model):
        found.need(not {"temperature", "top_p", "top_k"} & made.keys(), f"{model} refuses samplers")
    if _ONE_SAMPLER.search(model):
        found.need(not {"temperature", "top_p"} <= made.keys(), f"{model} refuses temperature with top_p")


def _tools(made: Obj, messages: list[Obj], found: Findings) -> None:
    if "tools" not in made:
        found.need("tool_choice" not in made, "tool_choice without tools")
        used = any(block.get("type") in ("tool_use", "tool_result") for block in walk(messages))
        found.need(not used, "calls in the history and no tools")
        return
    tools = check_list(made["tools"], "tools", found)
    for at, tool in enumerate(tools):
        check_name(tool.get("name"), f"tools[{at}]", found)
        check_root(tool.get("input_schema"), f"tools[{at}]", found)
    check_unique([tool.get("name") for tool in tools], "tool names", found)
    choice = made.get("tool_choice", {"type": "auto"})
    kinds = ("auto", "any", "tool", "none")
    found.need(isinstance(choice, dict) and cast("Obj", choice).get("type") in kinds, f"tool_choice is {choice!r}")


def _system(system: object, found: Findings) -> None:
    if isinstance(system, list):
        for block in check_list(cast("object", system), "system", found):
            found.need(block.get("type") == "text" and full(block.get("text")), "an empty system block")
    elif system is not None:
        found.need(full(system), "an empty system text")


def _turns(messages: list[Obj], found: Findings) -> None:
    roles = [message.get("role") for message in messages]
    found.need(set(roles) <= {"user", "assistant"}, f"roles {sorted(set(map(str, roles)))}")
    found.need(not roles or roles[0] == "user", "the first turn is not the user's")
    for one, two in pairwise(roles):
        found.need(one != two, f"two turns of {one} in a row")
    last = objects(messages[-1].get("content")) if messages else []
    paused = bool(last) and last[-1].get("type") not in ("text", "thinking", "tool_use")
    found.need(not roles or roles[-1] == "user" or paused, "the last turn is the assistant's")


def _message(message: Obj, where: str, found: Findings) -> None:
    role, content = str(message.get("role")), message.get("content")
    if isinstance(content, str):
        found.need(full(content), f"{where}: empty content")
        return
    blocks = check_list(content, f"{where}.content", found)
    for at, block in enumerate(blocks):
        found.need(block.get("type") in _KINDS.get(role, ()), f"{where}: a block of type {block.get('type')!r}")
        _block(block, f"{where}.content[{at}]", found)
    kinds = [str(block.get("type")) for block in blocks]
    if role == "assistant" and kinds:
        found.need("thinking" not in kinds[-1], f"{where}: the last block is thinking")
    results = [kind == "tool_result" for kind in kinds]
    found.need(results == sorted(results, reverse=True), f"{where}: results behind other blocks")


def _block(block: Obj, where: str, found: Findings) -> None:
    kind = block.get("type")
    if kind == "text":
        found.need(full(block.get("text")), f"{where}: an empty text block")
    elif kind == "thinking":
        found.need(full(block.get("signature")), f"{where}: thinking without signature")
    elif kind == "redacted_thinking":
        found.need(full(block.get("data")), f"{where}: redacted thinking without data")
    elif kind == "tool_use":
        found.need(_ID.match(str(block.get("id"))), f"{where}: the call id {block.get('id')!r}")
        found.need(isinstance(block.get("input"), dict), f"{where}: input is not an object")
        check_name(block.get("name"), where, found)
    elif kind == "tool_result":
        content = block.get("content")
        inner = objects(cast("object", content))
        ok = full(content) or (inner and all(item.get("type") != "text" or full(item.get("text")) for item in inner))
        found.need(ok, f"{where}: an empty result")
    elif kind == "image":
        source = cast("Obj", block.get("source") or {})
        found.need(full(source.get("data")) or full(source.get("url")), f"{where}: an image without data")


def _pairs(messages: list[Obj], found: Findings) -> None:
    """Every call is answered in the very next turn, every answer has its call in the turn before."""
    seen: list[object] = []
    open_ids: list[str] = []
    for at, message in enumerate(messages):
        blocks = objects(message.get("content"))
        answers = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
        found.need(sorted(answers) == sorted(open_ids), f"messages[{at}]: results {answers} for calls {open_ids}")
        open_ids = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        seen += open_ids
    found.need(not open_ids, f"the last calls {open_ids} were not answered")
    check_unique(seen, "call ids", found)
