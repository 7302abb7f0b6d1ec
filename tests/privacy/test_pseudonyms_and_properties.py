"""Placeholders that can be undone, and what must hold for any text."""

from __future__ import annotations

import copy
import pickle

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from capataz.events.facts import JSON
from capataz.privacy.mask import Mask
from capataz.privacy.pseudonyms import Pseudonyms

MASK = Mask(secrets=["s3cret-Value/1"])

PIECES = st.sampled_from(
    [
        *("ana@example.com", "j@x.es", "+34 612 345 678", "612345678", "4111 1111 1111 1111", "4111111111111111"),
        *("ES91 2100 0418 4502 0005 1332", "12345678Z", "X1234567L", "536-90-4399", "rssmra85t10a562s"),
        *("s3cret-Value/1", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "password=hunter22", "postgres://u:pw1@h/d"),
        *(
            "<EMAIL_1>",
            "EMAIL_1",
            "<email_2",
            "[PHONE_1]",
            "&lt;CARD_1&gt;",
            "<TEXT_1>",
            "<ID_3>",
            "email_1",
            "<SECRET>",
        ),
        *(
            " ",
            "\n",
            ", ",
            "order ",
            "tel ",
            '"',
            "'",
            "<",
            ">",
            "{",
            "}",
            ":",
            "/",
            "\\",
            "\\n",
            "%40",
            "\u200b",
            "\u00a0",
        ),
        *('{"a": ', "1", "12", "(", ")", "[", "]", "key=", "é", "１", "token: ", "-", "+", "@", ".", "_", "Bearer "),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join))
SAFE = st.lists(PIECES.filter(lambda piece: "s3cret" not in piece and "ghp_" not in piece), max_size=12).map("".join)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), TEXTS)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4))


def personal() -> Mask:
    return Mask(classes=["email", "phone", "iban", "card", "id"])


def test_the_same_value_gets_the_same_placeholder() -> None:
    state = Pseudonyms()
    text = MASK.text("ana@x.com, joan@x.com, ana@x.com, +34 612 345 678", state)
    assert text == "<EMAIL_1>, <EMAIL_2>, <EMAIL_1>, <PHONE_1>"
    assert state.restore(text) == "ana@x.com, joan@x.com, ana@x.com, +34 612 345 678"


def test_secrets_are_one_way() -> None:
    state = Pseudonyms()
    text = MASK.text("s3cret-Value/1 and ghp_abcdefghijklmnopqrstuvwxyz0123456789", state)
    assert text == "<SECRET> and <API_KEY>"
    assert state.restore(text) == text
    assert len(state) == 0


@pytest.mark.parametrize(
    "altered",
    [
        "<EMAIL_1>",
        "<email_1>",
        "<Email_1>",
        "<EMAIL_1",
        "EMAIL_1>",
        "EMAIL_1",
        "[EMAIL_1]",
        "&lt;EMAIL_1&gt;",
        "<EMAIL 1>",
        "<EMAIL-1>",
        "<EMAIL\\_1>",
        "\\u003cEMAIL_1\\u003e",
        "{EMAIL_1}",
        "< EMAIL_1 >",
        "＜EMAIL_1＞",
        "\\<EMAIL\\_1\\>",
    ],
)
def test_what_a_model_alters_still_comes_back(altered: str) -> None:
    state = Pseudonyms()
    MASK.text("ana@x.com", state)
    assert state.restore(f"I wrote to {altered}, done") == "I wrote to ana@x.com, done"
    assert state.unknown == 0


def test_unknown_placeholders_are_left_and_counted() -> None:
    state = Pseudonyms()
    MASK.text("ana@x.com", state)
    assert state.restore("<EMAIL_7> <EMAIL_12> <FOO_1> <EMAIL_1>") == "<EMAIL_7> <EMAIL_12> <FOO_1> ana@x.com"
    assert state.unknown == 2


def test_eleven_is_not_one() -> None:
    state = Pseudonyms()
    text = MASK.text(" ".join(f"u{number}@x.com" for number in range(12)), state)
    assert state.restore(text).split()[10] == "u10@x.com"


def test_a_look_alike_keeps_its_number_from_being_used() -> None:
    state = Pseudonyms()
    text = MASK.text("<EMAIL_1> is how it looks; mine is ana@x.com", state, foreign=True)
    assert text == "<EMAIL_1> is how it looks; mine is <EMAIL_2>"
    assert state.restore(text) == "<EMAIL_1> is how it looks; mine is ana@x.com"
    assert state.unknown == 0


def test_a_look_alike_from_outside_is_disguised_once_its_number_is_out() -> None:
    state = Pseudonyms()
    MASK.text("ana@x.com", state, foreign=True)
    text = MASK.text("what is <EMAIL_1>?", state, foreign=True)
    assert text == "what is <TEXT_1>?"
    assert state.restore(text) == "what is <EMAIL_1>?"
    assert MASK.text("I wrote to <EMAIL_1>", state) == "I wrote to <EMAIL_1>"


def test_a_known_value_is_found_where_no_rule_would_find_it() -> None:
    state = Pseudonyms()
    MASK.text("tel 612345678", state)
    assert MASK.text("order 612345678, not x612345678", state) == "order <PHONE_1>, not x612345678"


def test_arguments_of_tools_get_their_values_and_their_types_back() -> None:
    state = Pseudonyms()
    masked = MASK.value({"to": "ana@x.com", "card": 4111111111111111, "cc": ["ana@x.com"]}, state, foreign=True)
    assert masked == {"to": "<EMAIL_1>", "card": "<CARD_1>", "cc": ["<EMAIL_1>"]}
    assert state.restore_value({"to": "<email_1>", "n": "<CARD_1>", "<EMAIL_1>": 1, "text": "pay <CARD_1>"}) == {
        "to": "ana@x.com",
        "n": 4111111111111111,
        "ana@x.com": 1,
        "text": "pay 4111111111111111",
    }


def test_the_state_is_rebuilt_from_the_texts_in_order() -> None:
    texts = ["ana@x.com", "tel 612345678 <PHONE_2>", "joan@x.com ana@x.com", "93 123 45 67"]
    one, two = Pseudonyms(), Pseudonyms()
    first = [MASK.text(text, one, foreign=True) for text in texts]
    assert [MASK.text(text, two, foreign=True) for text in texts] == first
    assert [MASK.text(text, two, foreign=True) for text in texts] == first


def test_the_map_never_leaves() -> None:
    state = Pseudonyms()
    MASK.text("ana@x.com", state)
    assert "ana" not in repr(state)
    for export in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="never exported"):
            export(state)


@given(TEXTS)
@settings(max_examples=400, deadline=None)
def test_masking_twice_is_masking_once(text: str) -> None:
    once = MASK.text(text)
    assert MASK.text(once) == once


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_masking_twice_with_placeholders_is_masking_once(text: str) -> None:
    state = Pseudonyms()
    once = MASK.text(text, state)
    assert MASK.text(once, state) == once


@given(TEXTS)
@settings(max_examples=400, deadline=None)
def test_placeholders_round_trip_for_any_text(text: str) -> None:
    state = Pseudonyms()
    assert state.restore(personal().text(text, state, foreign=True)) == text


@given(st.lists(TEXTS, max_size=4))
@settings(max_examples=200, deadline=None)
def test_placeholders_round_trip_through_a_whole_conversation(texts: list[str]) -> None:
    state, mask = Pseudonyms(), personal()
    sent = [mask.text(text, state, foreign=True) for text in texts]
    assert [state.restore(text) for text in sent] == texts


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_what_is_found_lies_in_order_inside_the_text(text: str) -> None:
    last = 0
    for hit in MASK.find(text):
        assert last <= hit.start < hit.end <= len(text)
        last = hit.end


def shape(value: object) -> object:
    if isinstance(value, list):
        return [shape(item) for item in value]
    return len(value) if isinstance(value, dict) else None


@given(VALUES)
@settings(max_examples=200, deadline=None)
def test_value_keeps_the_structure_and_round_trips(value: JSON) -> None:
    masked = MASK.value(value)
    assert shape(masked) == shape(value)
    assert MASK.value(masked) == masked
    state, mask = Pseudonyms(), personal()
    assert state.restore_value(mask.value(value, state, foreign=True)) == value


@given(VALUES)
@settings(max_examples=200, deadline=None)
def test_json_in_a_text_stays_json_whatever_is_in_it(value: JSON) -> None:
    text = orjson.dumps([value]).decode() if not _lonely(value) else "{}"
    orjson.loads(MASK.text(text))


def _lonely(value: object) -> bool:
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return True
    return False
