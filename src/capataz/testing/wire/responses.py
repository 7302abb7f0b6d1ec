"""OpenAI Responses as the provider enforces it, without stored state."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from capataz.testing.wire.parts import (
    Findings,
    Obj,
    check_cap,
    check_list,
    check_name,
    check_number,
    check_root,
    check_unique,
    full,
    read,
)

_REASONS = re.compile(r"(^|/)(o[134](-|$)|gpt-5)")
_NO_SAMPLING = re.compile(r"(^|/)(o[134](-|$)|gpt-5(-mini|-nano|-pro|-codex|-\d|$))")


def check_responses(body: bytes | str | Obj) -> list[str]:
    """What OpenAI would refuse in this body; nothing when it is fine."""
    found = Findings()
    made = read(body, found)
    if made is None:
        return found
    model = str(made.get("model"))
    found.need(full(made.get("model")), "no model")
    for name in ("messages", "max_tokens", "max_completion_tokens", "system"):
        found.need(name not in made, f"{name} is no parameter here")
    check_number(made, "temperature", 0, 2, found)
    check_number(made, "top_p", 0, 1, found)
    check_cap(made, "max_output_tokens", found)
    found.need("instructions" not in made or full(made["instructions"]), "empty instructions")
    if _NO_SAMPLING.search(model):
        for name in ("temperature", "top_p"):
            found.need(name not in made or made[name] == 1, f"{model} refuses {name}")
    include = cast("list[object]", made.get("include") or [])
    encrypted = "reasoning.encrypted_content" in include
    found.need(not encrypted or _REASONS.search(model), f"{model} does not reason: no encrypted content to include")
    _tools(made, found)
    items = check_list(made.get("input"), "input", found)
    for at, item in enumerate(items):
        _item(item, f"input[{at}]", found)
    _order(items, made.get("store") is True, bool(_REASONS.search(model)), found)
    return found


def _tools(made: Obj, found: Findings) -> None:
    if "tools" not in made:
        found.need(made.get("tool_choice", "none") == "none", "tool_choice without tools")
        return
    tools = check_list(made["tools"], "tools", found)
    for at, tool in enumerate(tools):
        found.need(tool.get("type") == "function", f"tools[{at}] is not of type function")
        check_name(tool.get("name"), f"tools[{at}]", found)
        check_root(tool.get("parameters"), f"tools[{at}]", found)
    check_unique([tool.get("name") for tool in tools], "tool names", found)


def _item(item: Obj, where: str, found: Findings) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        _message(item, where, found)
    elif kind == "function_call":
        check_name(item.get("name"), where, found)
        try:
            value: Any = json.loads(str(item.get("arguments")))
        except ValueError:
            value = None
        found.need(isinstance(value, dict), f"{where}: arguments are not the text of a JSON object")
        _id(item.get("call_id"), where, found)
    elif kind == "function_call_output":
        found.need(full(item.get("output")), f"{where}: an empty output")
        _id(item.get("call_id"), where, found)
    elif kind == "reasoning":
        found.need(isinstance(item.get("summary"), list), f"{where}: reasoning without summary")
    else:
        found.append(f"{where}: an item of type {kind!r}")


def _id(id: object, where: str, found: Findings) -> None:
    found.need(isinstance(id, str) and 0 < len(id) <= 64, f"{where}: the call id {id!r} is not 1 to 64 characters")


def _message(item: Obj, where: str, found: Findings) -> None:
    role, content = item.get("role"), item.get("content")
    found.need(role in ("user", "assistant", "system", "developer"), f"{where}: role {role!r}")
    if not isinstance(content, list):
        found.need(full(content), f"{where}: an empty message")
        return
    kinds = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
    for part in check_list(cast("object", content), f"{where}.content", found):
        found.need(part.get("type") in kinds, f"{where}: a part of type {part.get('type')!r}")
        found.need("text" not in part or full(part["text"]), f"{where}: an empty part")
        if part.get("type") == "input_image":
            found.need(full(part.get("image_url")), f"{where}: an image without address")


def _order(items: list[Obj], stored: bool, reasons: bool, found: Findings) -> None:
    """Every call has one output behind it; reasoning is followed by what it led to."""
    calls = [item.get("call_id") for item in items if item.get("type") == "function_call"]
    check_unique(calls, "call ids", found)
    seen: set[object] = set()
    answered: list[object] = []
    for at, item in enumerate(items):
        if item.get("type") == "function_call":
            seen.add(item.get("call_id"))
        elif item.get("type") == "function_call_output":
            found.need(item.get("call_id") in seen, f"input[{at}]: an output without its call before it")
            answered.append(item.get("call_id"))
        elif item.get("type") == "reasoning":
            found.need(reasons, f"input[{at}]: reasoning for a model that does not reason")
            found.need(stored or full(item.get("encrypted_content")), f"input[{at}]: reasoning known only by its id")
            after = items[at + 1] if at + 1 < len(items) else {}
            led = after.get("type") in ("reasoning", "function_call") or after.get("role") == "assistant"
            found.need(led, f"input[{at}]: reasoning without what it led to")
    check_unique(answered, "outputs", found)
    found.need(set(calls) == set(answered), f"calls {calls} with outputs {answered}")
