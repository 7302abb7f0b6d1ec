"""Calls that a model wrote as text are seen as such, and what was cut off never looks whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from capataz.models.dialects import calls_in_text, read_arguments
from tests.dialects.test_dialect_answers import TEXTS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('```json\n{"name": "f", "arguments": {"a": 1}}\n```', [("f", {"a": 1}, False)]),
        ('Sure.\n```\n{"tool": "f", "parameters": {"a": 1}}\n```\nDone!', [("f", {"a": 1}, False)]),
        (
            '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n<tool_call>{"name": "g"}</tool_call>',
            [("f", {}, False), ("g", {}, False)],
        ),
        ('<tool_call>{"name": "f", "arguments": {"a": 1}}', [("f", {"a": 1}, True)]),
        ('<tool_call>\n{"name": "f", "argu', [("f", None, True)]),
        ('<tool_call>\n{"na', [("", None, True)]),
        ('```json\n{"name": "f", "arguments": {"a": "hal', [("f", None, True)]),
        ('{"name": "f", "arguments": {"a": 1}}', [("f", {"a": 1}, False)]),
        ('[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]', [("f", {}, False), ("g", {}, False)]),
        ('[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]', [("f", {"a": 1}, False)]),
        ("<function=f>\n<parameter=a>\n1\n</parameter>\n</function>", [("f", {"a": 1}, False)]),
        ('<invoke name="f"><parameter name="a">x</parameter></invoke>', [("f", {"a": "x"}, False)]),
        ('{"type": "function", "function": {"name": "f", "arguments": "{\\"a\\": 1}"}}', [("f", {"a": 1}, False)]),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n"
            '```json\n{"a": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            [("f", {"a": 1}, False)],
        ),
        ('```json\n{"name": "Ana", "age": 3}\n```', []),
        ('```json\n{"name": "other", "arguments": {}}\n```', []),
        ('<tool_call>{"name": "other", "arguments": {}}</tool_call>', []),
        ('{"name": "f", "price": 3}', []),
        ("I will call f now, with {nothing}.", []),
        ("", []),
    ],
)
def test_calls_written_as_text(text: str, expected: list[tuple[str, Any, bool]]) -> None:
    found = calls_in_text(text, ["f", "g"])
    assert [(call.name, call.cut) for call in found] == [(name, cut) for name, _, cut in expected]
    for call, (_, value, cut) in zip(found, expected, strict=True):
        read = read_arguments(call)
        assert (read.problem == "cut") is cut
        if not cut:
            assert read.value == value


def test_without_tools_no_text_is_a_call() -> None:
    assert calls_in_text('{"name": "f", "arguments": {}}', []) == ()


@given(st.text(alphabet='{}[]"<>/|f,: \n`tool_call=name', max_size=120))
@settings(max_examples=300, deadline=None)
def test_any_text_can_be_read(text: str) -> None:
    assert all(call.name in ("", "f") for call in calls_in_text(text, ["f"]))


@given(text=TEXTS, data=st.data())
@settings(deadline=None)
def test_a_cut_call_in_text_is_never_whole(text: str, data: Any) -> None:
    call = f'<tool_call>\n{{"name": "f", "arguments": {text}}}\n</tool_call>'
    cut = call[: data.draw(st.integers(12, len(call) - 13))]
    assert all(found.cut for found in calls_in_text(cut, ["f"]))
