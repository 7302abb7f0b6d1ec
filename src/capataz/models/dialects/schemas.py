"""Tool schemas as each provider takes them.

One schema a provider refuses takes the whole request down, with every healthy tool in it. So what a provider cannot
take is said in the description instead; the runtime validates the arguments itself, against the full schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from capataz.events.facts import JSON
from capataz.models.dialects.codec import dumps
from capataz.ports import ToolSpec

Schema = Mapping[str, JSON]
_UNIONS = ("anyOf", "oneOf", "allOf")
_DEPTH = 24


def unique(tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Each name once: a repeated name is refused by all."""
    return list({tool.name: tool for tool in reversed(list(tools))}.values())[::-1]


def rooted(tool: ToolSpec) -> tuple[str, dict[str, JSON]]:
    """Description and schema for providers that want a plain object at the root and lists that say what is in them."""
    root = _dict(_pointed(tool.schema, tool.schema))
    lost = {key: root.pop(key) for key in (*_UNIONS, "not", "enum", "if", "then", "else") if key in root}
    properties = dict(_dict(root.get("properties")))
    for key in _UNIONS:
        for branch in _list(lost.get(key)):
            for name, schema in _dict(_dict(_pointed(branch, tool.schema)).get("properties")).items():
                properties.setdefault(name, schema)
    root["type"] = "object"
    root["properties"] = {name: _listed(schema) for name, schema in properties.items()}
    if "required" in root:
        root["required"] = cast("JSON", [name for name in _list(root["required"]) if name in properties])
    description = tool.description
    if lost:
        description = f"{description}\n\nThe arguments must also satisfy: {dumps(lost).decode()}".strip()
    return description, root


def _listed(schema: JSON, depth: int = 0) -> JSON:
    """Lists without a word on what is in them are refused: say that it may be anything."""
    if depth > _DEPTH:
        return schema
    if isinstance(schema, list):
        return [_listed(item, depth + 1) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _listed(value, depth + 1) if key not in ("enum", "const", "default", "examples") else value
            for key, value in schema.items()}  # fmt: skip
    if made.get("type") == "array" and "items" not in made and "prefixItems" not in made:
        made["items"] = {}
    return made


def can_be_strict(schema: JSON, depth: int = 0) -> bool:
    """Whether the strict mode of chat completions takes this schema: every object closed, every list typed."""
    if not isinstance(schema, dict) or depth > 5:
        return False
    if depth == 0 and any(key in schema for key in _UNIONS):
        return False
    if "anyOf" in schema:
        return all(can_be_strict(item, depth + 1) for item in _list(schema["anyOf"]))
    kind = schema.get("type")
    if kind == "object":
        properties = _dict(schema.get("properties"))
        closed = schema.get("additionalProperties") is False and set(properties) == set(_list(schema.get("required")))
        return closed and all(can_be_strict(item, depth + 1) for item in properties.values())
    if kind == "array":
        return bool(schema.get("items")) and can_be_strict(schema["items"], depth + 1)
    return "$ref" in schema or kind is not None or "enum" in schema


# ── the subset ───────────────────────────────────────────────────────────────────────────────────────────

_KNOWN = (
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties "
    "minLength maxLength pattern anyOf propertyOrdering items minimum maximum"
)
_SUBSET = frozenset(_KNOWN.split())
_FORMATS = frozenset(("enum", "date-time", "float", "double", "int32", "int64"))
_SAID = ("exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format", "not", "patternProperties", "const", "enum")


def subset(schema: JSON, root: Schema | None = None, depth: int = 0) -> dict[str, JSON]:
    """The schema in the few words Gemini's `parameters` know; what is lost is said in the description."""
    whole = root if root is not None else _dict(schema)
    source = _merged(_dict(_pointed(schema, whole)), whole)
    if depth > _DEPTH:
        return {"type": "object"}
    made = {key: value for key, value in source.items() if key in _SUBSET}
    said: list[str] = []
    _typed(source, made)
    _valued(source, made, said)
    if isinstance(source.get("properties"), dict):
        properties = {name: subset(item, whole, depth + 1) for name, item in _dict(source["properties"]).items()}
        made["properties"] = cast("JSON", properties)
        made["required"] = cast("JSON", [name for name in _list(source.get("required")) if name in properties])
    for key in ("properties", "required", "propertyOrdering"):
        if key in made and (not made[key] or not isinstance(source.get("properties"), dict)):
            del made[key]
    if "items" in source or made.get("type") == "array":
        made["items"] = cast("JSON", subset(_items(source), whole, depth + 1))
    union = _list(source.get("anyOf")) or _list(source.get("oneOf"))
    made.pop("anyOf", None)
    if union:
        _united(made, [item for item in union if _dict(item).get("type") != "null"], len(union), whole, depth)
    said += [f"{key}: {dumps(source[key]).decode()}" for key in _SAID if key in source and key not in made]
    if said:
        text = made.get("description")
        made["description"] = " ".join([*([text] if isinstance(text, str) and text else []), f"({'; '.join(said)})"])
    return made


def _items(source: Schema) -> JSON:
    items = source.get("items")
    return items if isinstance(items, dict) else {}


def _united(made: dict[str, JSON], union: Sequence[JSON], before: int, whole: Schema, depth: int) -> None:
    if len(union) < before:
        made["nullable"] = True
    branches = [subset(item, whole, depth + 1) for item in union]
    if len(branches) == 1:
        for key, value in branches[0].items():
            made.setdefault(key, value)
    elif branches:
        made.pop("type", None)
        made["anyOf"] = cast("JSON", branches)


def _typed(source: Schema, made: dict[str, JSON]) -> None:
    """One type, in a word: a list of types becomes the first real one, or a union of them."""
    kinds = [kind for kind in _list(source.get("type")) if kind != "null"]
    if isinstance(source.get("type"), list):
        del made["type"]
        if len(kinds) < len(_list(source.get("type"))):
            made["nullable"] = True
        if kinds:
            made["type"] = kinds[0]
    elif not isinstance(source.get("type"), str):
        made.pop("type", None)
        guess = _guess(source)
        if guess:
            made["type"] = guess


def _guess(source: Schema) -> str | None:
    if isinstance(source.get("properties"), dict):
        return "object"
    if "items" in source:
        return "array"
    if any(source.get(key) for key in ("anyOf", "oneOf")):
        return None
    values = [source["const"]] if "const" in source else _list(source.get("enum"))
    kinds = {"bool": "boolean", "int": "integer", "float": "number", "dict": "object", "list": "array"}
    return kinds.get(type(values[0]).__name__, "string") if values else "string"


def _valued(source: Schema, made: dict[str, JSON], said: list[str]) -> None:
    """Fixed values are lists of text; anything else goes into the description."""
    values = [source["const"]] if "const" in source else _list(source.get("enum"))
    made.pop("enum", None)
    if values and made.get("type") == "string" and all(isinstance(value, str) and value for value in values):
        made["enum"] = values
        if "const" in source:
            made.pop("const", None)
    if made.get("format") not in _FORMATS:
        made.pop("format", None)


def _merged(source: dict[str, JSON], whole: Schema) -> dict[str, JSON]:
    """All of `allOf` laid into one."""
    for part in _list(source.pop("allOf", None)):
        other = _merged(_dict(_pointed(part, whole)), whole)
        properties = {**_dict(source.get("properties")), **_dict(other.get("properties"))}
        required = [*_list(source.get("required")), *_list(other.get("required"))]
        source = {**other, **source}
        if properties:
            source["properties"] = properties
        if required:
            source["required"] = cast("JSON", list(dict.fromkeys(cast("list[str]", required))))
    return source


def _pointed(schema: JSON | Schema, whole: Schema) -> dict[str, JSON]:
    """The schema itself, its `$ref` followed inside the document. A circle or a wrong pointer ends in anything."""
    made = dict(_dict(schema))
    for _ in range(8):
        pointer = made.pop("$ref", None)
        if not isinstance(pointer, str):
            return made
        made = {**_at(pointer, whole), **made}
    return made


def _at(pointer: str, whole: Schema) -> dict[str, JSON]:
    node: JSON = cast("JSON", whole)
    for step in pointer.removeprefix("#").strip("/").split("/"):
        if step:
            node = _dict(node).get(step.replace("~1", "/").replace("~0", "~"))
    return dict(_dict(node))


def _dict(value: JSON | Schema) -> dict[str, JSON]:
    if isinstance(value, dict):
        return value
    return dict(value) if isinstance(value, Mapping) else {}


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
