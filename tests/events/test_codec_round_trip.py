"""Whatever a fact can hold comes back as it was; whatever cannot be read is refused with words that help."""

from __future__ import annotations

from decimal import Decimal
from typing import get_args

import orjson
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from capataz.events import codec
from capataz.events.facts import (
    Call,
    Event,
    Fact,
    ModelReplied,
    Opaque,
    RunEnded,
    RunStarted,
    TickPassed,
    ToolFinished,
    Usage,
    WaitEnded,
)
from capataz.mistakes import Misuse, Unreadable

CALL = Call(1, 0, "call_1", "refund", {"order_id": "81", "cents": 500}, kind="write", target="81")


def back(event: Event) -> Event:
    return codec.decode(event.seq, event.at, codec.encode(event))


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_fact_comes_back_as_it_was(any_event: st.SearchStrategy[Event], data: st.DataObject) -> None:
    event = data.draw(any_event)
    assert back(event) == event
    assert codec.from_line(codec.to_line(event)) == event


def test_every_fact_has_a_name_and_a_version() -> None:
    assert set(codec.FACTS.values()) == set(get_args(Fact))
    assert set(codec.VERSIONS) == set(codec.FACTS)


def test_names_of_fields_never_hide_tag_or_version() -> None:
    for fact in codec.FACTS.values():
        assert not {"t", "v"} & set(fact.__dataclass_fields__), fact


def test_defaults_are_left_out() -> None:
    assert codec.encode(Event(3, 1.0, WaitEnded(2))) == b'{"t":"WaitEnded","v":1,"turn":2}'
    body = orjson.loads(codec.encode(Event(3, 1.0, ToolFinished(CALL, {"ok": True}))))
    assert sorted(body) == ["call", "result", "t", "v"]


def test_types_come_back_as_they_were() -> None:
    usage = Usage(10, 5, money=Decimal("0.000125"))
    event = Event(4, 2.5, ModelReplied(1, 1, "hi", (CALL,), usage=usage, opaque=Opaque("p", '{"a": 1}')))
    fact = back(event).fact
    assert isinstance(fact, ModelReplied)
    assert isinstance(fact.calls, tuple)
    assert fact.usage.money == Decimal("0.000125")
    assert isinstance(fact.usage.money, Decimal)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**40, "caf\udce9.txt", {"deep": [10**30]}])
def test_what_the_fast_writer_cannot_say_is_said_exactly(value: object) -> None:
    event = Event(1, 0.0, ToolFinished(CALL, value))  # type: ignore[arg-type]
    assert back(event) == event


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", Decimal(1)])
def test_what_json_cannot_say_is_the_callers_mistake(value: object) -> None:
    with pytest.raises(Misuse, match=r"event 7 \(ToolFinished\) holds something JSON cannot say"):
        codec.encode(Event(7, 0.0, ToolFinished(CALL, value)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "its body is not JSON"),
        (b'{"t":"WaitEnded","v":1', "its body is not JSON"),
        (b"[1]", "its body is not an object"),
        (b'{"v":1}', "its name is None"),
        (b'{"t":"WaitEnded","v":"1","turn":1}', "its version '1'"),
        (b'{"t":"WaitEnded","turn":1}', "its version None"),
        (b'{"t":"WaitEnded","v":1}', "WaitEnded lacks 'turn'"),
        (b'{"t":"WaitEnded","v":1,"turn":"2"}', "has '2' where a int belongs"),
        (b'{"t":"WaitEnded","v":1,"turn":true}', "has True where a int belongs"),
        (b'{"t":"WaitEnded","v":2,"turn":1}', "upgrade"),
        (b'{"t":"PigsFlew","v":1}', "upgrade"),
        (b'{"t":"RunEnded","v":1,"outcome":"splendid","reason":"x"}', "none of aborted, answered"),
        (b'{"t":"RunEnded","v":1,"outcome":"partial","reason":"x","evidence":{}}', "where a list belongs"),
        (b'{"t":"RunEnded","v":1,"outcome":"partial","reason":"x","evidence":[3]}', "where Evidence belongs"),
        (b'{"t":"RunStarted","v":1,"run":"r","agent":"a","task":"t","ceilings":{"money":"much"}}', "amount"),
    ],
)
def test_what_cannot_be_read_is_refused_with_position_and_remedy(body: bytes, words: str) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(12, 0.0, body)
    assert "event 12 cannot be read" in str(caught.value)
    assert words in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_refused_and_nothing_else_happens(data: st.DataObject) -> None:
    body = bytearray(codec.encode(Event(0, 0.0, RunEnded("partial", "ceiling", answer="so far"))))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.integers(0, 255))
    try:
        event = codec.decode(0, 0.0, bytes(body))
    except Unreadable:
        return
    assert isinstance(event.fact, get_args(Fact))


def test_a_field_of_a_newer_minor_version_is_ignored() -> None:
    event = codec.decode(0, 0.0, b'{"t":"WaitEnded","v":1,"turn":1,"mood":"sunny"}')
    assert event.fact == WaitEnded(1)


def test_an_older_shape_is_lifted_step_by_step() -> None:
    steps: dict[tuple[str, int], codec.Upcaster] = {
        ("Waited", 1): lambda raw: {**raw, "turn": raw.pop("round")},
        ("Waited", 2): lambda raw: {**raw, "t": "WaitEnded"},
    }
    raw = codec.lift({"t": "Waited", "v": 1, "round": 4}, {"WaitEnded": 3, "Waited": 3}, steps)
    assert raw["t"] == "WaitEnded"
    assert raw["turn"] == 4
    assert raw["v"] == 3


@pytest.mark.parametrize(
    "line", ["", "{}", "[]", "null", '{"seq":"x","at":0,"fact":{}}', '{"seq":0,"at":null,"fact":{}}']
)
def test_lines_that_are_not_of_a_log_are_refused(line: str) -> None:
    with pytest.raises(Unreadable, match=r"not a line of a log"):
        codec.from_line(line)


def test_an_integer_where_a_float_belongs_is_fine() -> None:
    assert back(Event(0, 5, TickPassed(beat=4))) == Event(0, 5.0, TickPassed(4.0))


def test_a_mapping_of_another_kind_is_written_as_an_object() -> None:
    from types import MappingProxyType

    call = Call(1, 0, "c", "find", MappingProxyType({"q": "x"}))
    fact = back(Event(0, 0.0, ToolFinished(call, None))).fact
    assert isinstance(fact, ToolFinished)
    assert fact.call.arguments == {"q": "x"}


def test_a_run_started_as_foreign_records_are() -> None:
    event = Event(0, 0.0, RunStarted("r", "a", "t", source="otlp"))
    assert back(event) == event
