"""Values in one form, and answers and arguments held against what was said before them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from capataz.events.facts import JSON, RunLabelled
from capataz.ingest.build import ImportedRun
from capataz.ingest.read import read_runs
from capataz.lens.diagnose.examine import Examiner
from capataz.lens.diagnose.findings import LIMITS, Pointer, Subject
from capataz.lens.diagnose.grounding import lineage, pointers
from capataz.lens.diagnose.values import values

Told = Callable[..., ImportedRun]
Step = tuple[str, JSON, JSON]

FORMS = {
    "$1,250.00": ["1250"],
    "1250.0": ["1250"],
    "93.50": ["93.5"],
    "order #W81": ["w81"],
    "certificate_7504069": ["certificate_7504069"],
    "May 3, 2024": ["2024-05-03"],
    "3rd of May 2024": ["2024-05-03"],
    "2024-05-03T04:50:18": ["2024-05-03", "04:50"],
    "May 3": ["05-03"],
    "at 3:05 pm": ["15:05"],
    "at 12:10 am": ["00:10"],
    "a@b.example": ["a@b.example"],
    "1. first\n2. second": [],
    "three of 7": [],
    "Feb 30": ["30"],
    "version 1.2.3": ["1.2.3"],
    "1" * 400: ["1" * 400],
    "": [],
}


@pytest.mark.parametrize(("text", "found"), FORMS.items())
def test_values_have_one_form(text: str, found: list[str]) -> None:
    assert list(values(text)) == found


@given(st.text(max_size=300))
def test_any_text_has_values_or_none(text: str) -> None:
    for value in values(text):
        assert value == value.lower()


def kinds(run: ImportedRun) -> list[tuple[str, str]]:
    return [(pointer.kind, pointer.value) for pointer in pointers(run.events)]


def test_an_answer_that_repeats_what_was_said_has_a_source(tell: Told) -> None:
    run = tell(
        [("find_order", {"id": "81"}, {"total": 93.5, "on": "2024-05-03"})], "It cost $93.50 on May 3.", "Order 81?"
    )
    assert kinds(run) == []


def test_a_value_nobody_said_is_pointed_at(tell: Told) -> None:
    run = tell([("find_order", {"id": "81"}, {"total": 93.5})], "It costs 417.20.", "Order 81?")
    assert pointers(run.events) == (Pointer("no-source", 3, "the answer", "417.2"),)


def test_arithmetic_of_the_model_is_told_apart(tell: Told) -> None:
    run = tell(
        [("find_order", {"id": "81"}, {"total": 93.5, "fee": 20})], "In all 113.50, twice that is 187.", "Order 81?"
    )
    assert kinds(run) == [("computed", "113.5"), ("computed", "187")]


def test_what_the_model_said_itself_is_no_source(tell: Told) -> None:
    run = tell([("find_order", {"id": "5551"}, "paid")], "Order 5551 is paid.", "Is it paid?")
    assert kinds(run) == [("no-source", "5551")]


def test_arguments_of_acts_need_a_source_but_those_of_looks_do_not(tell: Told) -> None:
    run = tell(
        [("find_order", {"order_id": "W777"}, "none"), ("refund", {"order_id": "W778"}, "ok")], "Done.", "Refund it"
    )
    (found,) = pointers(run.events)
    assert (found.kind, found.where, found.value, found.seq) == ("ungrounded-argument", "refund.order_id", "W778", 3)


def test_nested_arguments_are_read(tell: Told) -> None:
    run = tell([("book", {"guests": [{"email": "x@y.example", "note": "a long text 123"}]}, "ok")], "Done.", "Book")
    assert kinds(run) == [("ungrounded-argument", "x@y.example")]


def test_sources_that_disagree(tell: Told) -> None:
    first: Step = ("get_order", {"id": "1"}, '{"order_id": "81", "total": 93.5, "updated_at": "1"}')
    second: Step = ("list_orders", {}, {"orders": [{"order_id": "81", "total": 39.5, "updated_at": "2"}]})
    plain: Step = ("get_total", {}, {"order_id": "81", "total": 39.5})
    (found,) = pointers(tell([first, plain], None).events)
    assert (found.kind, found.where, found.value, found.seq) == ("conflict", "total", "39.5", 4)
    assert "event 2 said '93.5' of order_id=81" in found.detail
    acted = ("refund", {"order_id": "81"}, "ok")
    assert [p.kind for p in pointers(tell([first, acted, plain], None, "Refund 81").events)] == []
    assert pointers(tell([first, second], None).events) != ()


def test_pointers_are_bounded(tell: Told) -> None:
    answer = " ".join(str(10_000 + 7 * n) for n in range(500))
    assert len(pointers(tell([], answer).events)) == 40


def test_a_value_is_followed_through_a_run(tell: Told) -> None:
    steps = [("find_order", {"id": "81"}, "total 93.50"), ("refund", {"cents": "93.5"}, "ok")]
    run = tell(steps, "Refunded $93.50.", "Order 81")
    found = lineage(run.events, "$93.50")
    assert (found.source, found.repeated) == (2, (3, 5))
    assert lineage(run.events, "777").source is None


def test_every_pointer_says_its_limits() -> None:
    assert set(LIMITS) == {"no-source", "computed", "ungrounded-argument", "conflict", "distance"}


def test_on_public_records_the_loudest_agent_is_a_fair_guess(traces: Path) -> None:
    """Who&When, open part: what makes "who spoke most" worth showing beside an attribution."""
    hits = {"algo": 0, "hand": 0}
    for run in read_runs([traces / "who-and-when"]):
        told = Examiner().examine(Subject(run.id, run.source_format, ""), run.events)
        label = next(event.fact for event in run.events if isinstance(event.fact, RunLabelled))
        hits[run.id.partition(":")[0]] += label.detail.partition(" at message")[0] == told.baselines.loudest
    assert hits == {"algo": 41, "hand": 11}  # of 84 and 40


def test_on_public_records_the_pointers_do_what_is_said_of_them(traces: Path) -> None:
    """tau-bench airline, open part: answers that need arithmetic or have no source are more frequent in failed runs."""
    flagged = {True: 0, False: 0}
    wrong = {True: 0, False: 0}
    for run in read_runs([traces / "tau-bench"]):
        assert run.label is not None
        told = Examiner().examine(Subject(run.id, run.source_format, "", run.label), run.events)
        flagged[run.label] += any(pointer.kind in ("no-source", "computed") for pointer in told.pointers)
        wrong[run.label] += told.errors >= 2
    precision = flagged[False] / (flagged[False] + flagged[True])
    assert 0.75 <= precision <= 0.95
    assert 0.2 <= flagged[False] / 61 <= 0.45
    assert flagged[True] / 55 <= 0.12
    assert (wrong[False], wrong[True]) == (7, 2)
