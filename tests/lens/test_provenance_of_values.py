"""A value is followed to who said it first, and to everything downstream; without a source it says so."""

from __future__ import annotations

from capataz.events.facts import (
    JSON,
    Call,
    Event,
    Fact,
    MessageReceived,
    ModelReplied,
    RunStarted,
    ToolFinished,
)
from capataz.lens.provenance import excerpt, provenance


def log(*facts: Fact) -> list[Event]:
    return [Event(seq, float(seq), fact) for seq, fact in enumerate(facts)]


def call(turn: int, tool: str, **arguments: JSON) -> Call:
    return Call(turn, 0, f"c{turn}", tool, arguments)


LOOK = call(1, "find_order", order="81")
REFUND = call(2, "refund", order="81", amount={"cents": 3950, "note": "invented-77"})
RUN = log(
    RunStarted("r", "a", "Refund order 81, it cost 93.50", instructions="Be kind."),
    ModelReplied(1, 0, "", (LOOK,)),
    ToolFinished(LOOK, {"order": "81", "total": "1,250.00", "mail": "ana@example.com"}),
    ModelReplied(2, 0, "", (REFUND,)),
    ToolFinished(REFUND, "refunded 3950"),
    ModelReplied(3, 0, "I refunded 1250 to ana@example.com (invented-77)."),
)


def test_the_first_source_and_everything_downstream() -> None:
    found = provenance(RUN, "ana@example.com")
    assert found.source is not None
    assert (found.source.seq, found.source.what, found.source.where) == (2, "result", "find_order")
    assert [(mention.seq, mention.what) for mention in found.downstream] == [(5, "answer")]


def test_a_number_is_followed_however_it_is_written() -> None:
    found = provenance(RUN, "1250")
    assert [mention.seq for mention in found.mentions] == [2, 5]


def test_what_only_the_model_said_has_no_source() -> None:
    found = provenance(RUN, "invented-77")
    assert found.unsourced
    assert found.first is not None
    assert (found.first.what, found.first.where) == ("argument", "refund.amount.note")


def test_what_the_model_said_first_has_no_source_though_a_result_repeats_it() -> None:
    found = provenance(RUN, "3950")
    assert found.unsourced
    assert [mention.outside for mention in found.mentions] == [False, True]


def test_a_part_of_a_longer_number_is_another_value() -> None:
    assert [mention.seq for mention in provenance(RUN, "81").mentions] == [0, 1, 2, 3]
    assert provenance(RUN, "395").first is None


def test_a_value_that_is_nowhere_is_nowhere() -> None:
    assert provenance(RUN, "zebra-9").first is None
    assert provenance(RUN, "").first is None


def test_words_and_what_people_say_are_followed_too() -> None:
    found = provenance(log(RunStarted("r", "a", "t"), MessageReceived("user", "call me Ishmael")), "ishmael")
    assert found.source is not None
    assert found.source.what == "message"


def test_the_excerpt_stands_around_the_value() -> None:
    text = "x" * 1000 + " order 81 " + "y" * 1000
    assert "order 81" in excerpt(text, "81")
    assert len(excerpt(text, "81")) < 400
    assert excerpt("short", "gone") == "short"
