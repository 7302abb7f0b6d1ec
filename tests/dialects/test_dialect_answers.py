"""Answers: what has no end is never taken for whole, streamed or not; opaque parts come back byte for byte."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from capataz.events.facts import Call, Fault
from capataz.memory.transcript import Message
from capataz.models.dialects import DIALECTS, PROFILES, read_arguments
from capataz.models.dialects.base import SENT, Sent
from capataz.models.dialects.codec import dumps, is_cut, loads, unterminated
from capataz.ports import ModelRequest, RawCall, Reply, ToolSpec
from tests.dialects.histories import arguments

_FIELDS = (
    "choices message content tool_calls function name arguments finish_reason delta error code type usage stop_reason "
    "output status candidates parts functionCall finishReason text response item index usageMetadata stopReason toolUse"
)
FIELDS = _FIELDS.split()
TEXTS = arguments.map(lambda value: orjson.dumps(_jsonable(value)).decode())


def _jsonable(value: Any) -> Any:
    return loads(dumps(value))


def read(name: str, events: list[tuple[str, Any]], request: ModelRequest | None = None) -> Reply | Fault:
    profile = PROFILES[name]
    reader = DIALECTS[profile.dialect].reader(profile, request)
    for event, data in events:
        reader.feed(event, data if isinstance(data, bytes) else orjson.dumps(data))
    return reader.finish()


def whole(name: str, body: Any, request: ModelRequest | None = None) -> Reply | Fault:
    profile = PROFILES[name]
    return DIALECTS[profile.dialect].whole(orjson.dumps(body), profile, request)


def chat(delta: dict[str, Any], finish: str | None = None) -> tuple[str, Any]:
    return "", {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def chat_stream(args: str, finish: str = "tool_calls") -> list[tuple[str, Any]]:
    parts = [args[at : at + 3] for at in range(0, len(args), 3)]
    start = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": ""}}]}
    more = [chat({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in parts]
    return [chat(start), *more, chat({}, finish), ("", b"[DONE]")]


def messages_stream(args: str, stop: str = "tool_use", *, closed: bool = True) -> list[tuple[str, Any]]:
    block = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    made: list[tuple[str, Any]] = [
        ("message_start", {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 7}}}),
        ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}),
    ]
    for at in range(0, len(args), 3):
        delta = {"type": "input_json_delta", "partial_json": args[at : at + 3]}
        made.append(("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}))
    if closed:
        made.append(("content_block_stop", {"type": "content_block_stop", "index": 0}))
    end = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}}
    return [*made, ("message_delta", end), ("message_stop", {"type": "message_stop"})]


def only(found: Reply | Fault) -> RawCall:
    assert isinstance(found, Reply), found
    assert len(found.calls) == 1
    return found.calls[0]


# ── cut ──────────────────────────────────────────────────────────────────────────────────────────────────


@given(text=TEXTS, data=st.data())
@settings(deadline=None)
def test_a_cut_call_never_comes_out_runnable(text: str, data: Any) -> None:
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    assert unterminated(cut)
    assert read_arguments(RawCall("1", "f", cut)).problem == "cut"
    for found in (read("openai", chat_stream(cut)), read("anthropic", messages_stream(cut))):
        call = only(found)
        assert call.cut
        assert call.arguments == cut
        assert read_arguments(call).problem == "cut"
    choice = {"message": {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": cut}}]}}
    assert only(whole("openai", {"choices": [{**choice, "finish_reason": "stop"}]})).cut


@given(text=TEXTS)
def test_a_whole_call_comes_out_as_it_was_written(text: str) -> None:
    for found in (read("openai", chat_stream(text)), read("anthropic", messages_stream(text))):
        call = only(found)
        assert (call.cut, call.arguments) == (False, text)
        assert read_arguments(call).value == orjson.loads(text)


@given(text=TEXTS, at=st.integers(0, 200))
@settings(deadline=None)
def test_a_stream_without_its_end_mark_is_a_fault(text: str, at: int) -> None:
    for name, events, marks in (
        ("openai", chat_stream(text), 2),
        ("anthropic", messages_stream(text), 2),
    ):
        found = read(name, events[: min(at, len(events) - marks)])
        assert isinstance(found, Fault)
        assert (found.row, found.reason) == ("transient", "truncated-stream")


@pytest.mark.parametrize("finish", ["length", "tool_calls"])
def test_a_full_output_cap_cuts_every_call(finish: str) -> None:
    request = ModelRequest("m", "", [], max_output=9)
    events = [*chat_stream('{"a": 1}', finish)[:-1], ("", {"choices": [], "usage": {"completion_tokens": 9}})]
    assert only(read("openai", events, request)).cut
    assert only(read("anthropic", messages_stream('{"a": 1}'), request)).cut
    assert only(read("anthropic", messages_stream('{"a": 1}', "max_tokens"))).cut


def test_a_block_that_was_never_closed_is_cut_however_whole_it_looks() -> None:
    assert only(read("anthropic", messages_stream('{"a": 1}', closed=False))).cut


@pytest.mark.parametrize(
    ("text", "is_unterminated"),
    [
        ('{"a": 1}', False),
        ("", False),
        ('{"a": tru', True),
        ('{"a": -', True),
        ('{"a": 1.', True),
        ('{"a": "\\u12', True),
        ('{"a": "x\\', True),
        ('{"action": listt_windows"}', False),
        ("{a: 1}", False),
        ('{"a": 1}}', False),
        ("[1, 2", True),
        ('{"a": 1e', True),
        ('{"a": NaN}', False),
        ("{'a': 1", False),
    ],
)
def test_cut_and_wrong_are_told_apart(text: str, is_unterminated: bool) -> None:
    assert is_cut(text) is is_unterminated


def test_large_numbers_keep_their_digits() -> None:
    text = '{"order": 123456789012345678901234567890}'
    assert read_arguments(RawCall("1", "f", text)).value == {"order": 123456789012345678901234567890}


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([{"id": "a", "name": "f", "arguments": "{}"}, {"id": "b", "name": "f", "arguments": "{}"}], ["{}", "{}"]),
        ([{"index": 0, "id": "a", "name": "f", "arguments": '{"x"'}, {"index": 0, "arguments": ":1}"}], ['{"x":1}']),
        (
            [
                {"index": 0, "id": "a", "name": "f", "arguments": '{"x"'},
                {"index": 0, "id": "a", "name": "f", "arguments": ":1}"},
            ],
            ['{"x":1}'],
        ),
        (
            [
                {"index": 0, "id": "a", "name": "f"},
                {"index": 1, "id": "b", "name": "g"},
                {"index": 0, "arguments": "{}"},
                {"index": 1, "arguments": '{"y":2}'},
            ],
            ["{}", '{"y":2}'],
        ),
        ([{"name": "f", "arguments": "{}"}, {"name": "f", "arguments": '{"z":3}'}], ["{}", '{"z":3}']),
        (
            [
                {"index": 0, "id": "", "name": "f", "arguments": "{}"},
                {"index": 0, "id": "", "name": "g", "arguments": "{}"},
            ],
            ["{}", "{}"],
        ),
        ([{"index": 0, "id": "a", "name": "f", "arguments": {"x": 1}}], ['{"x":1}']),
        ([{"id": "a", "name": "f"}, {"arguments": '{"x"'}, {"arguments": ":1}"}], ['{"x":1}']),
        (
            [
                {"index": 0, "id": "x", "name": "f", "arguments": "{}"},
                {"index": 0, "id": "x", "name": "f", "arguments": '{"b":1}'},
            ],
            ["{}", '{"b":1}'],
        ),
        (
            [
                {"index": 0, "id": "a", "name": "f", "arguments": "{}"},
                {"index": 0, "id": "a", "name": "f", "arguments": ""},
            ],
            ["{}"],
        ),
    ],
)
def test_deltas_are_never_glued_to_another_call(deltas: list[dict[str, Any]], expected: list[str]) -> None:
    events = []
    for delta in deltas:
        function = {key: delta[key] for key in ("name", "arguments") if key in delta}
        events.append(
            chat({"tool_calls": [{**{k: delta[k] for k in ("index", "id") if k in delta}, "function": function}]})
        )
    found = read("openai", [*events, chat({}, "tool_calls")])
    assert isinstance(found, Reply)
    assert [call.arguments for call in found.calls] == expected
    assert len({call.id for call in found.calls}) == len(expected) or any(d.get("id") == "x" for d in deltas)


def test_null_deltas_and_chunks_without_choices_are_passed_over() -> None:
    events: list[tuple[str, Any]] = [
        ("", {"choices": [], "prompt_filter_results": []}),
        ("", {"choices": [{"index": 0, "delta": None, "finish_reason": None}]}),
        ("", {"choices": None}),
        chat({"content": "hi", "tool_calls": None}),
        chat({}, "stop"),
        ("", {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1, "cost": 0.002}}),
    ]
    found = read("azure", events)
    assert isinstance(found, Reply)
    assert (found.text, found.stop, found.usage.input, str(found.usage.money)) == ("hi", "stop", 3, "0.002")


@pytest.mark.parametrize("name", ["openai", "anthropic", "openai-responses", "gemini", "bedrock"])
@pytest.mark.parametrize("data", [b"<html>", b"{", b"[1]", b"null", b'{"a": 1}', b"", b"\xff\xfe"])
def test_no_answer_breaks_a_reader(name: str, data: bytes) -> None:
    profile = PROFILES[name]
    found = DIALECTS[profile.dialect].whole(data, profile)
    assert isinstance(found, Fault)
    assert found.row == "transient"
    reader = DIALECTS[profile.dialect].reader(profile)
    reader.feed("", data)
    assert isinstance(reader.finish(), Fault)


@given(
    name=st.sampled_from(sorted(PROFILES)),
    body=st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-9, 999), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(FIELDS),
                inner,
                max_size=5,
            ),
        ),
        max_leaves=15,
    ),
)
@settings(max_examples=400, deadline=None)
def test_whatever_comes_is_a_reply_or_a_fault(name: str, body: Any) -> None:
    assert isinstance(whole(name, body), (Reply, Fault))
    assert isinstance(read(name, [("", body), ("message_delta", body), ("error", body)]), (Reply, Fault))


# ── usage, names, opaque parts ───────────────────────────────────────────────────────────────────────────


def test_input_includes_the_cache_in_every_dialect() -> None:
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000, "output_tokens": 5}
    found = whole("anthropic", {"stop_reason": "end_turn", "content": [{"type": "text", "text": "x"}], "usage": usage})
    assert isinstance(found, Reply)
    assert (found.usage.input, found.usage.cache_read, found.usage.cache_write, found.usage.output) == (
        1104,
        1000,
        100,
        5,
    )
    chunks: list[tuple[str, Any]] = [
        (
            "",
            {
                "candidates": [{"content": {"parts": [{"text": "a"}]}}],
                "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 3},
            },
        ),
        (
            "",
            {
                "candidates": [{"finishReason": "STOP"}],
                "usageMetadata": {"candidatesTokenCount": 2, "thoughtsTokenCount": 5},
            },
        ),
    ]
    gemini = read("gemini", chunks)
    assert isinstance(gemini, Reply)
    assert (gemini.usage.input, gemini.usage.output, gemini.usage.cache_read) == (9, 7, 3)


def test_renamed_tools_get_their_names_back() -> None:
    request = ModelRequest("m", "", [Message("user", "go")], [ToolSpec("calendar.update", "", {})])
    for name in ("openai", "anthropic"):
        profile = PROFILES[name]
        body = orjson.loads(DIALECTS[profile.dialect].encoder(profile).body(request))
        wire = body["tools"][0].get("name") or body["tools"][0]["function"]["name"]
        assert re.fullmatch("[A-Za-z0-9_-]{1,64}", wire)
        events = chat_stream("{}") if name == "openai" else messages_stream("{}")
        data = [
            (event, orjson.dumps(item).replace(b'"f"', f'"{wire}"'.encode()))
            for event, item in events
            if item != b"[DONE]"
        ]
        assert only(read(name, data, request)).name == "calendar.update"


def test_thinking_comes_back_byte_for_byte_and_first() -> None:
    blocks = [
        {"type": "thinking", "thinking": "let me 思 see", "signature": "SIG=="},
        {"type": "redacted_thinking", "data": "ENC"},
        {"type": "text", "text": "ok"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
    ]
    found = whole("anthropic", {"stop_reason": "tool_use", "content": blocks})
    assert isinstance(found, Reply)
    call = Call(0, 0, "t1", "f", {})
    history = [
        Message("user", "go"),
        Message("assistant", found.text, (call,), opaque=found.opaque),
        Message("tool", "ok", call=call),
    ]
    profile = PROFILES["anthropic"]
    body = orjson.loads(
        DIALECTS["anthropic"].encoder(profile).body(ModelRequest("m", "", history, [ToolSpec("f", "", {})]))
    )
    assert body["messages"][1]["content"] == blocks


def test_a_paused_turn_goes_back_as_it_was_with_nothing_behind_it() -> None:
    blocks = [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}}]
    found = whole("anthropic", {"stop_reason": "pause_turn", "content": blocks})
    assert isinstance(found, Reply)
    assert found.stop == "pause"
    history = [Message("user", "go"), Message("assistant", found.text, opaque=found.opaque)]
    body = orjson.loads(DIALECTS["anthropic"].encoder(PROFILES["anthropic"]).body(ModelRequest("m", "", history)))
    assert body["messages"][-1] == {"role": "assistant", "content": blocks}


def test_a_window_that_was_cut_in_silence_is_warned_of() -> None:
    request = ModelRequest("m", "", [], memo={SENT: Sent(15_750, ("temperature was not sent",))})
    body = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 2051}}
    found = whole("ollama", body, request)
    assert isinstance(found, Reply)
    assert found.warnings[0] == "temperature was not sent"
    assert "15750" in found.warnings[1]
