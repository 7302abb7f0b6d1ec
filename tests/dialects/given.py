"""What a case file says is given, made into neutral values: profiles, histories, requests.

A word that is not known fails the test: a case that is quietly skipped proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from capataz.events.facts import Call, Opaque
from capataz.memory.transcript import Message
from capataz.models.dialects import PROFILES, Profile, read_arguments
from capataz.models.dialects.base import SENT, Sent
from capataz.ports import ModelRequest, RawCall, ToolSpec

ALIASES = {
    "openai-chat": "openai",
    "openai-compatible": "llama.cpp",
    "openai_chat": "openai",
    "google": "gemini",
    "responses": "openai-responses",
    "llamacpp": "llama.cpp",
    "lmstudio": "llama.cpp",
}
Case = Mapping[str, Any]


def profile_of(case: Case) -> Profile:
    name = str(case["provider"])
    profile = PROFILES[ALIASES.get(name, name)]
    strict = any(tool.get("strict") for tool in case["given"].get("tools", []) if isinstance(tool, dict))
    return replace(profile, strict_tools=strict)


# ── given ────────────────────────────────────────────────────────────────────────────────────────────────


def call_of(call: Mapping[str, Any], position: int) -> Call:
    if "args_raw" in call:
        read = read_arguments(RawCall(str(call.get("id", "")), str(call["name"]), str(call["args_raw"])))
        return Call(0, position, str(call.get("id") or ""), str(call["name"]), read.value, problem=read.problem)
    return Call(0, position, str(call.get("id") or ""), str(call["name"]), call.get("args") or {})


def opaque_of(message: Mapping[str, Any], profile: Profile) -> Opaque | None:
    """Where thinking, reasoning and signatures of a case come from: from the provider whose form they have."""
    marks: list[Any] = [{"@": "text"}] if message.get("text") else []
    calls: list[Any] = message.get("calls") or []
    marks += [{"@": "call", "n": at} for at in range(len(calls))]
    thinking, reasoning = message.get("thinking"), message.get("reasoning") or message.get("reasoning_content")
    if thinking:
        blocks = [
            {"type": "redacted_thinking", "data": part["redacted"]}
            if "redacted" in part
            else {"type": "thinking", "thinking": part.get("text", ""), "signature": part.get("signature", "")}
            for part in thinking
        ]
        return Opaque("anthropic", orjson.dumps([*blocks, *marks]).decode())
    if isinstance(reasoning, str):
        return Opaque(profile.name, orjson.dumps([{"reasoning_content": reasoning}]).decode())
    if reasoning:
        items = [{"type": "reasoning", "summary": [], **item} for item in reasoning]
        return Opaque("openai-responses", orjson.dumps([*items, *marks]).decode())
    if any("signature" in call for call in calls):
        signed = [
            {**mark, "thoughtSignature": calls[mark["n"]]["signature"]}
            if mark["@"] == "call" and "signature" in calls[mark["n"]]
            else mark
            for mark in marks
        ]
        return Opaque("gemini", orjson.dumps(signed).decode())
    return None


def history_of(case: Case, profile: Profile) -> list[Message]:
    made: list[Message] = []
    for item in case["given"].get("history", []):
        role, text = item["role"], item.get("text") or ""
        if role == "tool":
            call = Call(-1, -1, str(item.get("call_id") or ""), str(item.get("name", "")), {})
            image = item.get("image")
            url = f"data:{image['media_type']};base64,{image['data']}" if isinstance(image, dict) else image
            result = item.get("result")
            shown = result if isinstance(result, str) else "" if result is None else orjson.dumps(result).decode()
            made.append(Message("tool", shown, call=call, error=bool(item.get("error")), image=url))
        else:
            calls = tuple(call_of(call, at) for at, call in enumerate(item.get("calls") or []))
            made.append(Message(role, text, calls, opaque=opaque_of(item, profile)))
    return made


def tools_of(case: Case) -> list[ToolSpec]:
    made: list[ToolSpec] = []
    for tool in case["given"].get("tools", []):
        if isinstance(tool, str):
            made.append(ToolSpec(tool, "", {"type": "object", "properties": {}}))
        else:
            made.append(ToolSpec(tool["name"], tool.get("description", ""), tool.get("schema") or {}))
    return made


def request_of(case: Case, profile: Profile) -> ModelRequest:
    given = case["given"]
    params = dict(given.get("params") or {})
    body = given.get("body")
    cap = params.pop(
        "max_tokens", given.get("max_tokens") or (body.get("max_tokens") if isinstance(body, dict) else None)
    )
    choice, temperature = params.pop("tool_choice", "auto"), params.pop("temperature", None)
    extra = {**params, **{name: given[name] for name in ("store",) if name in given}}
    if given.get("thinking") is True and profile.dialect == "anthropic":
        extra["thinking"] = {"type": "enabled", "budget_tokens": 2048}
    memo: dict[str, Any] = {}
    if "request_estimated_tokens" in given:
        memo[SENT] = Sent(given["request_estimated_tokens"])
    return ModelRequest(
        str(given.get("model", "m")),
        str(given.get("system", "")),
        history_of(case, profile),
        tools_of(case),
        choice,
        cap,
        temperature,
        extra,
        memo=memo,
    )
