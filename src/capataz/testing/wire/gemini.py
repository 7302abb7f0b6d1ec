"""Gemini's generateContent as the provider enforces it."""

from __future__ import annotations

import re
from typing import cast

from capataz.testing.wire.parts import (
    Findings,
    Obj,
    check_cap,
    check_list,
    check_name,
    check_number,
    check_unique,
    full,
    read,
)

_WORDS = (
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties "
    "minLength maxLength pattern anyOf propertyOrdering items minimum maximum example default"
)
_KNOWN = frozenset(_WORDS.split())
_TYPES = frozenset(("string", "number", "integer", "boolean", "array", "object"))
_PARTS = ("text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult")
_FIELDS = frozenset(
    ("contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings", "cachedContent")
)


def check_gemini(body: bytes | str | Obj, model: str = "") -> list[str]:
    """What Gemini would refuse in this body; nothing when it is fine. `model` is the one in the path."""
    found = Findings()
    made = read(body, found)
    if made is None:
        return found
    found.need(made.keys() <= _FIELDS, f"unknown fields {sorted(made.keys() - _FIELDS)}")
    config = cast("Obj", made.get("generationConfig") or {})
    check_number(config, "temperature", 0, 2, found)
    check_number(config, "topP", 0, 1, found)
    check_cap(config, "maxOutputTokens", found)
    system = cast("Obj", made.get("systemInstruction") or {})
    if system:
        for part in check_list(system.get("parts"), "systemInstruction.parts", found):
            found.need(full(part.get("text")), "an empty system instruction")
    _tools(made, found)
    contents = check_list(made.get("contents"), "contents", found)
    for at, content in enumerate(contents):
        _content(content, f"contents[{at}]", found)
    _order(contents, found)
    if re.search(r"(^|/)gemini-3", model):
        for at, content in enumerate(contents):
            first = next((part for part in _parts(content) if "functionCall" in part), None)
            found.need(
                first is None or full(first.get("thoughtSignature")), f"contents[{at}]: a call without signature"
            )
    return found


def _parts(content: Obj) -> list[Obj]:
    parts = content.get("parts")
    return cast("list[Obj]", parts) if isinstance(parts, list) else []


def _tools(made: Obj, found: Findings) -> None:
    if "tools" not in made:
        found.need("toolConfig" not in made, "toolConfig without tools")
        return
    names: list[object] = []
    for tool in check_list(made["tools"], "tools", found):
        for at, one in enumerate(check_list(tool.get("functionDeclarations"), "functionDeclarations", found)):
            check_name(one.get("name"), f"functionDeclarations[{at}]", found)
            names.append(one.get("name"))
            if "parameters" in one:
                _schema(one["parameters"], f"functionDeclarations[{at}].parameters", found)
                root = cast("Obj", one["parameters"])
                found.need(root.get("type") == "object", f"functionDeclarations[{at}]: the root is no object")
                found.need(root.get("properties"), f"functionDeclarations[{at}]: an object without properties")
    check_unique(names, "tool names", found)


def _schema(node: object, where: str, found: Findings) -> None:
    if not found.need(isinstance(node, dict), f"{where} is not a schema"):
        return
    schema = cast("Obj", node)
    found.need(schema.keys() <= _KNOWN, f"{where}: {sorted(schema.keys() - _KNOWN)} are not known")
    kind = schema.get("type")
    found.need(kind in _TYPES or (kind is None and "anyOf" in schema), f"{where}: the type {kind!r}")
    values = schema.get("enum")
    if values is not None:
        texts = isinstance(values, list) and all(full(value) for value in cast("list[object]", values))
        found.need(kind == "string" and texts, f"{where}: fixed values that are not text")
    found.need(kind != "array" or "items" in schema, f"{where}: a list that does not say what is in it")
    properties = cast("Obj", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    found.need(set(required) <= properties.keys(), f"{where}: required and not there: {required}")
    for name, item in properties.items():
        _schema(item, f"{where}.{name}", found)
    if "items" in schema:
        _schema(schema["items"], f"{where}.items", found)
    for at, item in enumerate(cast("list[object]", schema.get("anyOf") or [])):
        _schema(item, f"{where}.anyOf[{at}]", found)


def _content(content: Obj, where: str, found: Findings) -> None:
    role = content.get("role")
    found.need(role in ("user", "model"), f"{where}: role {role!r}")
    parts = check_list(content.get("parts"), f"{where}.parts", found)
    kinds: set[str] = set()
    for part in parts:
        kind = [name for name in _PARTS if name in part]
        found.need(len(kind) == 1, f"{where}: a part of kinds {kind}")
        kinds.update(kind)
        found.need("text" not in part or full(part["text"]) or "thoughtSignature" in part, f"{where}: an empty text")
        if "functionCall" in part:
            call = cast("Obj", part["functionCall"])
            check_name(call.get("name"), where, found)
            found.need(isinstance(call.get("args"), dict), f"{where}: args are not an object")
            found.need(role == "model", f"{where}: a call by the user")
        if "functionResponse" in part:
            answer = cast("Obj", part["functionResponse"])
            found.need(isinstance(answer.get("response"), dict), f"{where}: a response that is not an object")
            found.need(role == "user", f"{where}: a response by the model")
    found.need(kinds == {"functionResponse"} or "functionResponse" not in kinds, f"{where}: results mixed with text")


def _order(contents: list[Obj], found: Findings) -> None:
    found.need(not contents or contents[0].get("role") == "user", "the first content is not the user's")
    found.need(not contents or contents[-1].get("role") == "user", "the last content is not the user's")
    asked: list[object] = []
    for at, content in enumerate(contents):
        parts = _parts(content)
        answers = [cast("Obj", part["functionResponse"]).get("name") for part in parts if "functionResponse" in part]
        found.need(answers == asked, f"contents[{at}]: results {answers} for calls {asked}")
        asked = [cast("Obj", part["functionCall"]).get("name") for part in parts if "functionCall" in part]
        model_twice = at and content.get("role") == "model" == contents[at - 1].get("role")
        found.need(not model_twice, f"contents[{at}]: two contents of the model in a row")
    found.need(not asked, f"the last calls {asked} were not answered")
