"""What the wire checks share. Findings are sentences: where it is, and what a real provider would refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
Obj = dict[str, Any]


class Findings(list[str]):
    """Sentences, gathered."""

    def need(self, so: object, words: str) -> bool:
        """Note `words` unless it is so; gives back whether it is."""
        if not so:
            self.append(words)
        return bool(so)


def read(body: bytes | str | Obj, found: Findings) -> Obj | None:
    """The body as an object; strict JSON, without the numbers JSON does not have."""
    if isinstance(body, dict):
        return body
    try:
        value = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        found.append(f"the body is not JSON: {error}")
        return None
    if not isinstance(value, dict):
        found.append("the body is not an object")
        return None
    return cast("Obj", value)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def objects(value: object) -> list[Obj]:
    """The objects of a list, whatever else it holds."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Obj", item) for item in items if isinstance(item, dict)]


def check_list(value: object, where: str, found: Findings) -> list[Obj]:
    """A list of objects, all of it."""
    every = cast("list[object]", value) if isinstance(value, list) else []
    if not found.need(every, f"{where} is not a list with something in it"):
        return []
    items = objects(every)
    found.need(len(items) == len(every), f"{where} holds something that is not an object")
    return items


def check_name(name: object, where: str, found: Findings) -> None:
    ok = isinstance(name, str) and TOOL_NAME.match(name)
    found.need(ok, f"{where}: the name {name!r} is not 1 to 64 letters, digits, _ or -")


def check_unique(names: Sequence[object], where: str, found: Findings) -> None:
    found.need(len(set(map(str, names))) == len(names), f"{where} are not unique: {names}")


def check_root(schema: object, where: str, found: Findings) -> None:
    """What both large providers demand of the root of a tool's schema."""
    if not found.need(isinstance(schema, dict), f"{where}: the schema is not an object"):
        return
    root = cast("Obj", schema)
    found.need(root.get("type") == "object", f"{where}: the root of the schema is not of type object")
    for word in ("anyOf", "oneOf", "allOf", "enum", "not", "$ref"):
        found.need(word not in root, f"{where}: {word} at the root of the schema")
    found.need(isinstance(root.get("properties"), dict), f"{where}: the schema has no properties")
    for node in walk(root):
        if node.get("type") == "array":
            found.need("items" in node or "prefixItems" in node, f"{where}: a list that does not say what is in it")


def walk(node: object, depth: int = 0) -> Iterator[Obj]:
    """Every object in it, itself first."""
    if depth > 60:
        return
    if isinstance(node, dict):
        yield cast("Obj", node)
        for item in cast("Obj", node).values():
            yield from walk(item, depth + 1)
    elif isinstance(node, list):
        for item in cast("list[object]", node):
            yield from walk(item, depth + 1)


def check_number(body: Obj, name: str, low: float, high: float, found: Findings) -> None:
    value = body.get(name)
    if value is not None:
        ok = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
        found.need(ok, f"{name} is {value!r}, not between {low:g} and {high:g}")


def check_cap(body: Obj, name: str, found: Findings) -> None:
    value = body.get(name)
    if value is not None:
        found.need(isinstance(value, int) and value > 0, f"{name} is {value!r}, not a number of tokens")


def full(text: object) -> bool:
    """Text that says something: blanks count as nothing."""
    return isinstance(text, str) and bool(text.strip())
