"""Whatever a run left behind, a provider takes it; and encoding bit by bit is encoding from scratch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import orjson
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from capataz.events.facts import Call, Opaque
from capataz.memory.transcript import Message
from capataz.models.dialects import DIALECTS, PROFILES, Profile
from capataz.models.dialects.base import SENT, Sent
from capataz.models.dialects.codec import dumps, loads
from capataz.models.dialects.groups import UNKNOWN_OUTCOME
from capataz.ports import ModelRequest, ToolSpec
from tests.dialects.histories import PAYLOADS, histories, requests, tools
from tests.dialects.wires import strict, turns_of

EVERY = pytest.mark.parametrize("name", sorted(PROFILES))
MANY = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def suited(request: ModelRequest, profile: Profile) -> ModelRequest:
    """Without parameters that the caller himself asked for and this provider has never heard of."""
    if profile.dialect == "anthropic":
        return request
    allowed = {"top_p", "max_tokens"} if profile.dialect != "gemini" else {"top_p", "top_k", "seed", "max_tokens"}
    return replace(request, extra={key: value for key, value in request.extra.items() if key in allowed})


def encoded(request: ModelRequest, profile: Profile) -> bytes:
    return DIALECTS[profile.dialect].encoder(profile).body(request)


@EVERY
@MANY
@given(request=requests())
def test_any_history_is_one_the_provider_takes(name: str, request: ModelRequest) -> None:
    profile = PROFILES[name]
    body = encoded(suited(request, profile), profile)
    assert strict(body, profile, request.model) == []


@EVERY
@MANY
@given(data=st.data(), history=histories(longest=12))
def test_encoding_bit_by_bit_is_encoding_from_scratch(name: str, data: Any, history: list[Message]) -> None:
    profile = PROFILES[name]
    request = suited(data.draw(requests(history=[])), profile)
    encoder = DIALECTS[profile.dialect].encoder(profile)
    for cut in sorted(data.draw(st.lists(st.integers(0, len(history)), max_size=4))):
        part = history[:cut]
        if part and data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(part) - 1))
            part[at] = replace(part[at], text=part[at].text + " replaced")
        fresh = replace(request, history=part)
        if data.draw(st.booleans()):
            fresh = replace(fresh, tools=data.draw(tools), tool_choice="none")
        assert encoder.body(fresh) == encoded(fresh, profile)
    last = replace(request, history=history)
    assert encoder.body(last) == encoded(last, profile)


@EVERY
def test_an_old_message_is_not_encoded_again(name: str) -> None:
    """The cost of a call is its new messages and a join: what was encoded once stays the very same object."""
    profile = PROFILES[name]
    encoder = DIALECTS[profile.dialect].encoder(profile)
    tool = ToolSpec("f", "", {"type": "object", "properties": {"a": {"type": "integer"}}})
    history: list[Message] = [Message("user", "go")]
    made: list[int] = []
    before: list[Any] = []
    for turn in range(30):
        call = Call(turn, 0, f"c{turn}", "f", {"a": turn})
        history += [Message("assistant", "", (call,)), Message("tool", "ok", call=call)]
        encoder.body(ModelRequest("m", "", list(history), [tool]))
        pieces = cast("Any", encoder)._pieces.pieces
        made.append(len(pieces))
        assert all(one is two for one, two in zip(pieces, before, strict=False))
        before = list(pieces)
    assert made == list(range(2, 32))


@EVERY
@MANY
@given(history=histories())
def test_every_call_and_every_word_arrives(name: str, history: list[Message]) -> None:
    """Neutral to wire and back: calls in order with their arguments, results with theirs, texts complete."""
    profile = PROFILES[name]
    used = sorted({call.tool for message in history for call in message.calls})
    request = ModelRequest("m", "", history, [ToolSpec(tool, "", {}) for tool in used])
    turns = turns_of(orjson.loads(encoded(request, profile)))
    asked = [call for message in history for call in message.calls]
    uses = [use for turn in turns for use in turn.uses]
    assert len(uses) == len(asked)
    clean = {"m": [dict(call.arguments) for call in asked]}
    assert [use[2] for use in uses] == loads(dumps(clean))["m"]
    done = [result for turn in turns for result in turn.results]
    assert len(done) == len(asked)
    whole = " ".join(text for turn in turns for text in turn.texts) + " ".join(result[1] for result in done)
    for message in history:
        if message.role != "system" and message.text.strip() and message.text.isalnum() and message.text.isascii():
            assert message.text in whole


@EVERY
def test_a_missing_result_is_never_a_success(name: str) -> None:
    profile = PROFILES[name]
    calls = (Call(0, 0, "c1", "f", {}), Call(0, 1, "c2", "f", {}))
    history = [Message("user", "go"), Message("assistant", "", calls), Message("tool", "fine", call=calls[1])]
    request = ModelRequest("m", "", history, [ToolSpec("f", "", {})])
    turns = turns_of(orjson.loads(encoded(request, profile)))
    first, second = [result for turn in turns for result in turn.results]
    assert orjson.loads(UNKNOWN_OUTCOME)["error"][:15] in first[1]
    assert first[2]
    assert "fine" in second[1]
    assert not second[2]


@EVERY
def test_two_calls_with_one_id_are_told_apart_by_their_place(name: str) -> None:
    profile = PROFILES[name]
    calls = (Call(0, 0, "x", "f", {"n": 1}), Call(0, 1, "x", "g", {"n": 2}))
    history = [
        Message("user", "go"),
        Message("assistant", "", calls),
        Message("tool", "second", call=calls[1]),
        Message("tool", "first", call=calls[0]),
    ]
    request = ModelRequest("m", "", history, [ToolSpec("f", "", {}), ToolSpec("g", "", {})])
    turns = turns_of(orjson.loads(encoded(request, profile)))
    uses = {use[0]: use[1] for turn in turns for use in turn.uses}
    done = {result[0]: result[1] for turn in turns for result in turn.results}
    assert len(uses) == 2
    assert {uses[id]: ("first" in text, "second" in text) for id, text in done.items()} == {
        "f": (True, False),
        "g": (False, True),
    }


@EVERY
def test_another_providers_secrets_do_not_leave(name: str) -> None:
    profile = PROFILES[name]
    for payload in PAYLOADS:
        opaque = Opaque("somebody else", orjson.dumps([{"x": "SECRET"}, *payload]).decode())
        history = [Message("user", "go"), Message("assistant", "ok", opaque=opaque), Message("user", "next")]
        body = encoded(ModelRequest("gpt-5", "", history), profile)
        assert not any(word in body for word in (b"SECRET", b"SIG", b"ENC", b"EEE", b"rs_1", b"S1", b"hm"))


@EVERY
def test_the_estimate_and_the_notes_are_left_for_the_reader(name: str) -> None:
    profile = PROFILES[name]
    request = ModelRequest("claude-opus-4-8", "", [Message("user", "go " * 1000)], temperature=0.5)
    body = encoded(request, profile)
    sent = request.memo[SENT]
    assert isinstance(sent, Sent)
    assert sent.tokens == len(body) // 4
    assert any("temperature" in note for note in sent.notes)
    assert b"temperature" not in body
