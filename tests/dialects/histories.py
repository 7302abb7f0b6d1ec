"""Histories a run may leave behind, whole and damaged, for the property tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import strategies as st

from capataz.events.facts import JSON, Call, Opaque
from capataz.memory.transcript import Message
from capataz.models.dialects import PROFILES
from capataz.ports import ModelRequest, ToolSpec

NAMES = ["f", "find_order", "calendar.update", "a b", "", "x" * 80, "mañana", "send/mail"]
IDS = ["", "c1", "c1", "c2", "call_" + "y" * 60, "toolu_01ABC", "a b/c", "ütf", "Abcdef123"]
PNG = "data:image/png;base64,AAAA"

words = st.one_of(
    st.sampled_from(["", " ", "\n\t", "go", "ok", "{}", "[]", "héllo ☃", "lone \ud800 surrogate", "\x00"]),
    st.text(max_size=12),
)
values: st.SearchStrategy[JSON] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
arguments = st.dictionaries(words, values, max_size=3)
PAYLOADS: list[Any] = [
    [{"type": "thinking", "thinking": "hm", "signature": "SIG"}, {"@": "text"}, {"@": "call", "n": 0}],
    [{"type": "thinking", "thinking": "hm", "signature": ""}],
    [{"type": "redacted_thinking", "data": "ENC"}, {"@": "call", "n": 7}],
    [{"type": "reasoning", "id": "rs_1", "summary": []}, {"@": "text"}],
    [{"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "EEE"}, {"@": "text"}],
    [{"@": "text", "thoughtSignature": "S1"}, {"@": "call", "n": 0, "thoughtSignature": "S2"}],
    [{"reasoning_content": "hm"}],
    [{"reasoningContent": {"reasoningText": {"text": "hm", "signature": "S"}}}, {"@": "text"}],
]
opaques = st.one_of(
    st.none(),
    st.builds(
        lambda name, payload: Opaque(name, orjson.dumps(payload).decode()),
        st.sampled_from(sorted(PROFILES)),
        st.sampled_from(PAYLOADS),
    ),
    st.sampled_from([Opaque("anthropic", "not json"), Opaque("gemini", '{"a": 1}'), Opaque("openai", "[1]")]),
)


def fitting(opaque: Opaque | None) -> Opaque | None:
    """An opaque payload in the form its provider really gives; others could only come from a mistake of ours."""
    forms = {"anthropic": (0, 1, 2), "openai-responses": (3, 4), "gemini": (5,), "bedrock": (7,)}
    if opaque is None or not opaque.payload.startswith("[{"):
        return opaque
    allowed = forms.get(opaque.provider, (6,))
    return Opaque(opaque.provider, orjson.dumps(PAYLOADS[allowed[len(opaque.payload) % len(allowed)]]).decode())


@st.composite
def histories(draw: st.DrawFn, longest: int = 9) -> list[Message]:
    """Anything from a clean run to wreckage: missing, late, doubled and orphaned results, empty turns, odd ids."""
    made: list[Message] = []
    calls: list[Call] = []
    for turn in range(draw(st.integers(0, longest))):
        kind = draw(st.sampled_from(["user", "assistant", "assistant", "tool", "tool", "system"]))
        if kind == "assistant":
            fresh = [
                Call(turn, at, draw(st.sampled_from(IDS)), draw(st.sampled_from(NAMES)), draw(arguments))
                for at in range(draw(st.integers(0, 3)))
            ]
            calls += fresh
            made.append(Message("assistant", draw(words), tuple(fresh), opaque=fitting(draw(opaques))))
        elif kind == "tool":
            made.append(draw(results(calls)))
        else:
            image = draw(st.sampled_from([None, None, PNG, "broken"])) if kind == "user" else None
            made.append(Message("system" if kind == "system" else "user", draw(words), image=image))
    return made


def results(calls: Sequence[Call]) -> st.SearchStrategy[Message]:
    strange = st.sampled_from(
        [None, Call(-1, -1, "c1", "", {}), Call(-1, -1, "gone", "f", {}), Call(-1, -1, "", "", {})]
    )
    call = st.one_of(st.sampled_from(list(calls)[-4:]), strange) if calls else strange
    image = st.sampled_from([None, None, PNG, "https://example.com/a.png"])
    return st.builds(
        lambda call, text, error, image: Message("tool", text, call=call, error=error, image=image),
        call, words, st.booleans(), image,
    )  # fmt: skip


SCHEMAS: list[dict[str, JSON]] = [
    {},
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
    {"anyOf": [{"type": "object", "properties": {"a": {"type": "array"}}}, {"properties": {"b": {"const": 3}}}]},
    {"type": "object", "allOf": [{"properties": {"k": {"enum": ["x", 1, None]}}, "required": ["k", "zz"]}]},
    {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"next": {"$ref": "#/$defs/A"}}}}},
    {"type": "object", "properties": {"u": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]}}},
    {"type": "object", "properties": {"t": {"type": ["string", "null"], "format": "uuid"}, "m": {"oneOf": []}}},
    {"type": "object", "properties": {"p": {"type": "array", "prefixItems": [{"type": "string"}]}, "x": True}},
    {"type": "object", "properties": {"d": {"type": "object", "propertyNames": {"type": "string"}}}, "$schema": "x"},
]
MODELS = [
    "gpt-4.1", "gpt-5-mini", "gpt-5.1", "o3", "o1-mini", "claude-sonnet-4-6", "claude-opus-4-8", "claude-3-haiku",
    "gemini-2.5-flash", "gemini-3-pro", "mistral-large-latest", "local", "gemma-2",
]  # fmt: skip

tools = st.lists(
    st.builds(ToolSpec, st.sampled_from(NAMES), st.sampled_from(["", "Finds it."]), st.sampled_from(SCHEMAS)),
    max_size=3,
)
extras: st.SearchStrategy[dict[str, JSON]] = st.sampled_from(
    [{}, {}, {"top_p": 0.5}, {"top_k": 5}, {"seed": 3}, {"max_tokens": 50}]
)


@st.composite
def requests(draw: st.DrawFn, history: Sequence[Message] | None = None) -> ModelRequest:
    thinking: dict[str, JSON] = {}
    model = draw(st.sampled_from(MODELS))
    if model.startswith("claude") and draw(st.booleans()):
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 2048}}
    return ModelRequest(
        model,
        draw(st.sampled_from(["", "  ", "Be good."])),
        draw(histories()) if history is None else history,
        draw(tools),
        draw(st.sampled_from(["auto", "none", "required"])),
        draw(st.sampled_from([None, 1, 4096])),
        draw(st.sampled_from([None, 0.0, 0.7])),
        {**draw(extras), **thinking},
    )
