"""Chat completions as the strictest of its servers takes them."""

from __future__ import annotations

import json
import re
from itertools import pairwise
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
    objects,
    read,
)

_REASONING = re.compile(r"(^|/)(o[134](-|$)|gpt-5(-mini|-nano|-pro|-codex|-\d|$))")
_CAPPED = re.compile(r"(^|/)(o[134](-|$)|gpt-5)")
_NINE = re.compile(r"[A-Za-z0-9]{9}\Z")


def check_openai_chat(body: bytes | str | Obj, server: str = "openai") -> list[str]:
    """What OpenAI, or the server of that name, would refuse in this body; nothing when it is fine.

    `server`: "openai" and kin; "mistral" adds its own rules; "llama.cpp", "vllm", "ollama" and "strict" those of
    strict templates.
    """
    found = Findings()
    made = read(body, found)
    if made is None:
        return found
    found.need(full(made.get("model")), "no model")
    messages = check_list(made.get("messages"), "messages", found)
    _settings(made, found)
    _tools(made, found)
    _order(messages, found)
    for at, message in enumerate(messages):
        _message(message, f"messages[{at}]", found)
    if server == "mistral":
        _mistral(messages, found)
    if server in ("mistral", "llama.cpp", "vllm", "ollama", "strict"):
        _strict(messages, found)
    return found


def _settings(made: Obj, found: Findings) -> None:
    check_number(made, "temperature", 0, 2, found)
    check_number(made, "top_p", 0, 1, found)
    check_cap(made, "max_tokens", found)
    check_cap(made, "max_completion_tokens", found)
    model = str(made.get("model"))
    if _REASONING.search(model):
        for name in ("temperature", "top_p"):
            found.need(name not in made or made[name] == 1, f"{model} refuses {name}")
    if _CAPPED.search(model):
        found.need("max_tokens" not in made, f"{model} wants max_completion_tokens")
    if "stream_options" in made:
        found.need(made.get("stream") is True, "stream_options without stream")
    for name, value in made.items():
        if name not in ("stop", "tools"):
            found.need(value is not None, f"{name} is null")


def _tools(made: Obj, found: Findings) -> None:
    if "tools" not in made:
        found.need("tool_choice" not in made, "tool_choice without tools")
        return
    tools = check_list(made["tools"], "tools", found)
    for at, tool in enumerate(tools):
        function = cast("Obj", tool.get("function") or {})
        found.need(tool.get("type") == "function", f"tools[{at}] is not of type function")
        check_name(function.get("name"), f"tools[{at}]", found)
        check_root(function.get("parameters"), f"tools[{at}]", found)
        found.need(isinstance(function.get("description", ""), str), f"tools[{at}]: the description is no text")
    check_unique([cast("Obj", tool.get("function") or {}).get("name") for tool in tools], "tool names", found)
    choice = made.get("tool_choice", "auto")
    found.need(choice in ("auto", "none", "required") or isinstance(choice, dict), f"tool_choice is {choice!r}")


def _message(message: Obj, where: str, found: Findings) -> None:
    role, content = message.get("role"), message.get("content")
    if not found.need(role in ("system", "developer", "user", "assistant", "tool"), f"{where}: role {role!r}"):
        return
    found.need(content is not None, f"{where}: content is null")
    if isinstance(content, list):
        found.need(role != "tool", f"{where}: a tool message is text only")
        for part in check_list(cast("object", content), f"{where}.content", found):
            _part(part, where, found)
    else:
        found.need(isinstance(content, str), f"{where}: content is neither text nor a list")
        empty = not full(content) and not message.get("tool_calls")
        found.need(not empty, f"{where}: an empty {role} message")
    found.need("tool_calls" not in message or role == "assistant", f"{where}: only the assistant calls tools")


def _part(part: Obj, where: str, found: Findings) -> None:
    kind = part.get("type")
    if kind == "text":
        found.need(full(part.get("text")), f"{where}: an empty text part")
    elif kind == "image_url":
        url = cast("Obj", part.get("image_url") or {}).get("url")
        found.need(full(url), f"{where}: an image without address")
    else:
        found.append(f"{where}: a part of type {kind!r}")


def _order(messages: list[Obj], found: Findings) -> None:
    """Each call has its answer right behind it, each answer its call."""
    open_ids: list[str] = []
    seen: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        if message.get("role") == "tool":
            id = str(message.get("tool_call_id"))
            if found.need(id in open_ids, f"{where}: a result without its call right before it ({id})"):
                open_ids.remove(id)
            continue
        found.need(not open_ids, f"{where}: calls {open_ids} were not answered")
        open_ids = []
        for call in objects(message.get("tool_calls")):
            open_ids.append(_call(call, where, found))
        seen += open_ids
        if "tool_calls" in message:
            found.need(open_ids, f"{where}: an empty list of calls")
    found.need(not open_ids, f"the last calls {open_ids} were not answered")
    check_unique(cast("list[object]", seen), "call ids", found)


def _call(call: Obj, where: str, found: Findings) -> str:
    function = cast("Obj", call.get("function") or {})
    id = call.get("id")
    found.need(isinstance(id, str) and 0 < len(id) <= 40, f"{where}: the call id {id!r} is not 1 to 40 characters")
    found.need(call.get("type") == "function", f"{where}: a call that is not of type function")
    check_name(function.get("name"), where, found)
    arguments = function.get("arguments")
    try:
        value: Any = json.loads(arguments) if isinstance(arguments, str) else None
    except ValueError:
        value = None
    found.need(isinstance(value, dict), f"{where}: arguments are not the text of a JSON object: {arguments!r}")
    return str(id)


def _mistral(messages: list[Obj], found: Findings) -> None:
    for at, message in enumerate(messages):
        for call in objects(message.get("tool_calls")):
            found.need(_NINE.match(str(call.get("id"))), f"messages[{at}]: an id that is not 9 letters and digits")
        if at and messages[at - 1].get("role") == "tool":
            found.need(message.get("role") in ("tool", "assistant"), f"messages[{at}]: a user right behind a tool")


def _strict(messages: list[Obj], found: Findings) -> None:
    """Templates that count: a system message in front at most, then user and assistant in turns."""
    turns = [message for message in messages if message.get("role") != "tool"]
    roles = [str(message.get("role")) for message in turns]
    if roles and roles[0] == "system":
        turns, roles = turns[1:], roles[1:]
    found.need("system" not in roles, "a system message that is not the first")
    found.need(not roles or roles[0] == "user", "the first to speak is not the user")
    for one, two in pairwise(messages):
        same = one.get("role") == two.get("role") and one.get("role") != "tool"
        found.need(not same, f"two messages of role {one.get('role')} in a row")
    found.need(not messages or messages[-1].get("role") != "assistant", "the last to speak is the assistant")
