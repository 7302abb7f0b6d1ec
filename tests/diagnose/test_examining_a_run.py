"""What is found in one run: which failure, which events, what it cost from there, and what one would have guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal

from hypothesis import given, settings, strategies as st

from capataz.events.facts import JSON, Event, Usage
from capataz.ingest.build import Asked, ImportedRun, Origin, RunBuilder
from capataz.lens.diagnose.as_json import report_json
from capataz.lens.diagnose.examine import Examiner
from capataz.lens.diagnose.findings import Baselines, Subject
from capataz.lens.diagnose.page import page
from capataz.lens.diagnose.showing import clip, steps_of
from capataz.lens.diagnose.totals import MASKED, Totals

Told = Callable[..., ImportedRun]
Subjects = Callable[[ImportedRun], Subject]
SAME = ("read_page", {"url": "u"}, "nothing here")


def test_a_healthy_run_has_no_failure(tell: Told, subject: Subjects) -> None:
    run = tell(
        [("find_order", {"order_id": "81"}, "paid"), ("refund", {"order_id": "81"}, "refunded")], task="Refund 81"
    )
    told = Examiner().examine(subject(run), run.events)
    assert (told.failure, told.findings, told.cut, told.unbacked) == (None, (), None, False)
    assert (told.spent.turns, told.spent.calls) == (3, 2)


def test_a_loop_is_attributed_with_its_events_and_what_came_after(tell: Told, subject: Subjects) -> None:
    run = tell([("refund", {"order_id": "81"}, "Error: try again")] * 14, answer=None)
    told = Examiner().examine(subject(run), run.events)
    assert told.failure == "loop"
    assert told.cut is not None
    assert told.first is not None
    assert len(told.cut.seqs) >= 2
    assert set(told.cut.seqs) <= {event.seq for event in run.events}
    assert 1 <= told.after.calls < 14
    assert told.after.calls + 14 - told.after.calls == told.spent.calls
    assert told.after.tokens < told.spent.tokens


def test_the_cut_is_where_the_guards_end_it(tell: Told, subject: Subjects) -> None:
    """Everything after the cut lies behind the last event of its evidence."""
    run = tell([SAME] * 30, answer=None)
    told = Examiner().examine(subject(run), run.events)
    assert told.cut is not None
    last = told.cut.seqs[-1]
    assert told.after.calls == sum(1 for event in run.events[2::2] if event.seq > last)


def test_an_answer_without_any_act_is_talk(tell: Told, subject: Subjects) -> None:
    run = tell([], answer="I have refunded it.")
    told = Examiner().examine(subject(run), run.events)
    assert told.failure == "talk"
    assert told.unbacked
    assert told.turns_without_call == 1


def test_looking_and_then_claiming_is_unbacked_but_no_failure(tell: Told, subject: Subjects) -> None:
    run = tell([("find_order", {"order_id": "81"}, "paid")], answer="It is refunded.", task="Refund 81")
    told = Examiner().examine(subject(run), run.events)
    assert told.unbacked
    assert told.failure is None


def test_a_record_that_ends_in_an_open_call_hangs(subject: Subjects) -> None:
    builder = RunBuilder("test", Origin("x"), id="r", task="t", role="acting")
    builder.reply("", (Asked("read_page", {"url": "u"}),))
    run = builder.finish()
    assert run is not None
    told = Examiner().examine(subject(run), run.events)
    assert (told.failure, told.unanswered) == ("hang", 1)
    assert told.findings[0].kind == "unanswered"


def test_silences_only_where_times_are_known(
    tell: Told, subject: Subjects, at: Callable[[list[Event], Sequence[float]], list[Event]]
) -> None:
    run = tell([("read_page", {"url": "u"}, "text")])
    assert Examiner().examine(subject(run), run.events).waits_model == ()
    timed = Subject("r", "test", "x", times_known=True)
    told = Examiner().examine(timed, at(run.events, [0, 5, 65, 68]))
    assert (told.waits_tool, told.waits_model) == ((60,), (3,))


def test_errors_that_do_not_pass_are_not_tried_again(tell: Told, subject: Subjects) -> None:
    run = tell(
        [("read_page", {"url": "u"}, "Error: 403 forbidden"), SAME, ("read_page", {"url": "u"}, "Error: 403 forbidden")]
    )
    told = Examiner().examine(subject(run), run.events)
    kinds = {finding.kind for finding in told.findings}
    assert "hopeless-retry" not in kinds  # the same page answered in between
    twice = tell([("read_page", {"url": "u"}, "Error: 403 forbidden")] * 2, answer="No.")
    told = Examiner().examine(subject(twice), twice.events)
    found = next(finding for finding in told.findings if finding.kind == "hopeless-retry")
    assert found.seqs == (2, 4)
    assert "2 times" in found.words
    assert dict(told.error_rows) == {"auth": 2}


def test_a_rate_limit_needs_a_wait(tell: Told, at: Callable[[list[Event], Sequence[float]], list[Event]]) -> None:
    run = tell([("read_page", {"url": "u"}, "Error: 429 too many requests")] * 2, answer="No.")
    timed = Subject("r", "test", "x", times_known=True)
    rushed = Examiner().examine(timed, at(run.events, [0, 1, 2, 2.1, 2.2, 9]))
    assert "rushed-retry" in {finding.kind for finding in rushed.findings}
    patient = Examiner().examine(timed, at(run.events, [0, 1, 2, 10, 12, 20]))
    assert "rushed-retry" not in {finding.kind for finding in patient.findings}
    unknown = Subject("r", "test", "x", times_known=False)
    assert "rushed-retry" not in {f.kind for f in Examiner().examine(unknown, run.events).findings}


def test_giving_up_on_what_passes(tell: Told, subject: Subjects) -> None:
    run = tell([("read_page", {"url": "u"}, "Error: 503 service unavailable")], answer="It does not work.")
    told = Examiner().examine(subject(run), run.events)
    assert told.failure == "error"
    assert told.first is not None
    assert told.first.kind == "dropped-transient"


def test_a_burst_is_told_but_is_no_failure(tell: Told, subject: Subjects) -> None:
    steps = [("read_page", {"url": str(n)}, f"Error: odd thing {n * 7919}") for n in range(3)]
    run = tell([*steps, ("refund", {"order_id": "1"}, "ok")])
    told = Examiner().examine(subject(run), run.events)
    assert told.longest_burst == 3
    assert "error-burst" in {finding.kind for finding in told.findings}
    assert told.failure is None or told.first is not None


def test_baselines_stand_beside_the_attribution(tell: Told, subject: Subjects) -> None:
    run = tell([("find_order", {"order_id": "81"}, "paid"), *[("refund", {"order_id": "81"}, "ok")] * 2])
    assert Examiner().examine(subject(run), run.events).baselines == Baselines(3, 7, "refund")


def test_who_spoke_most_where_several_speak() -> None:
    builder = RunBuilder("test", Origin("x"), id="r", task="t", role="coordinating")
    for who in ("critic", "writer", "critic"):
        builder.reply("words", model=who)
    run = builder.finish()
    assert run is not None
    assert Examiner().examine(Subject("r", "t", "x"), run.events).baselines.loudest == "critic"


def test_prices_are_used_and_an_unknown_one_stays_unknown(tell: Told, subject: Subjects) -> None:
    run = tell([SAME])

    def dear(model: str, usage: Usage) -> Decimal | None:
        return Decimal(1)

    assert Examiner(price=dear).examine(subject(run), run.events).spent.money == Decimal(2)
    assert Examiner().examine(subject(run), run.events).spent.money is None


def test_the_steps_shown_are_few_and_hold_the_evidence(tell: Told, subject: Subjects) -> None:
    run = tell([("refund", {"order_id": "81"}, "Error: " + "x" * 5_000)] * 40, answer=None)
    told = Examiner().examine(subject(run), run.events)
    steps = steps_of(told, run.events, MASKED)
    assert len(steps) <= 16
    assert all(len(step.text) <= 400 for step in steps)
    marked = {step.seq for step in steps if step.marked}
    assert told.cut is not None
    assert marked & set(told.cut.seqs)


def test_clipping_says_how_much_is_left_out() -> None:
    assert clip("abc", 10) == "abc"
    assert "4,630 characters" in clip("x" * 5_000, 400)
    assert len(clip("x" * 5_000, 400)) <= 410


NAMES = st.text(max_size=12) | st.sampled_from(["refund", "Bash", "run_sql", "get_status"])
WORDS = st.text(max_size=60) | st.sampled_from(["Error: 429", "May 3, 2024 $1,250.00 a@b.c", "[]", '{"id": 1, "x": 2}'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
STEPS = st.lists(st.tuples(NAMES, st.dictionaries(NAMES, VALUES, max_size=3), VALUES), max_size=12)


@given(steps=STEPS, repeat=st.integers(1, 8), answer=st.none() | WORDS, label=st.none() | st.booleans())
@settings(max_examples=150, deadline=None)
def test_whatever_a_run_holds_it_can_be_examined_and_shown(
    steps: list[tuple[str, dict[str, JSON], JSON]], repeat: int, answer: str | None, label: bool | None
) -> None:
    builder = RunBuilder("test", Origin("x"), id="r", task="t", role="acting")
    for tool, arguments, result in steps * repeat:
        (call,) = builder.reply("", (Asked(tool, arguments),))
        builder.settle(call, result, error=str(result).startswith("Error"))
    builder.reply(answer or "")
    builder.label(label, "test")
    run = builder.finish()
    assert run is not None
    told = Examiner().examine(Subject("r", "test", "x", label, times_known=True), run.events)
    assert told.after.calls <= told.spent.calls
    seqs = {event.seq for event in run.events}
    assert all(set(finding.seqs) <= seqs for finding in told.findings)
    assert all(pointer.seq in seqs for pointer in told.pointers)
    totals = Totals()
    totals.add(told, run.events)
    assert page(totals, {}, "t").startswith("<!doctype html>")
    json.dumps(report_json(totals, {}))
