"""The fold of spans, without any SDK: whatever a log holds and wherever it breaks off, the spans are whole."""

from __future__ import annotations

from hypothesis import given as cases, settings, strategies as st

from capataz.events.facts import (
    Call,
    Event,
    Fact,
    Fault,
    HistoryCompressed,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunResumed,
    RunStarted,
    TickPassed,
    ToolFailed,
    ToolFinished,
    ToolStarted,
    Usage,
    VerdictGiven,
    WaitEnded,
    WaitStarted,
)
from capataz.lens.metrics.counts import Counting
from capataz.lens.spans import names as n
from capataz.lens.spans.fold import MOST_MARKS, SpanRecord, Spans
from capataz.lens.spans.measures import measures
from capataz.testing.scripted import given

BUSY = Fault("transient", "overloaded", "busy", status=529)
CALLS = tuple(Call(turn, place, f"c{turn}", "look", {"n": place}) for turn in (1, 2, 3) for place in (0, 1))


def facts_of(turn: int) -> list[Fact]:
    mine = tuple(call for call in CALLS if call.turn == turn)
    return [
        ModelCallStarted(turn, 0, "m", endpoint="openai at http://u:p@127.0.0.1:8080/v1"),
        ModelCallFailed(turn, 0, BUSY, "m"),
        WaitStarted(1.0, "overloaded", turn),
        WaitEnded(turn),
        ModelCallStarted(turn, 1, "m"),
        ModelReplied(turn, 1, "x", mine, "calls", Usage(10, 2), "m", first_byte=0.1),
        ToolStarted(turn, 0, "look", f"r:{turn}:0"),
        ToolStarted(turn, 1, "look", f"r:{turn}:1"),
        ToolFinished(mine[1], "ok"),
        ToolFailed(mine[0], 0, BUSY, "no"),
        ToolStarted(turn, 0, "look", f"r:{turn}:0"),
        ToolFinished(mine[0], "ok"),
        VerdictGiven("nudge", "repeating", "identical", "i", (1,), turn),
        ModelCallStarted(turn, 0, "m", "compressing"),
        ModelReplied(turn, 0, "s", usage=Usage(3, 1), purpose="compressing"),
        HistoryCompressed(1, "s", turn),
    ]


WHOLE: list[Fact] = [RunStarted("r", "a", "t", model="openai:m"), *facts_of(1), *facts_of(2), *facts_of(3)]


def same(value: object) -> object:
    return value


def fold(events: list[Event], content: bool = False) -> list[SpanRecord]:
    spans = Spans(same, content)  # type: ignore[arg-type]
    return [record for event in events for record in spans.fold(event)]


def check(records: list[SpanRecord]) -> None:
    keys = [record.key for record in records]
    assert len(set(keys)) == len(keys), "an id is used once"
    assert all(record.start <= record.end for record in records)
    assert {record.parent for record in records} - {None} <= set(keys), "nobody is an orphan"


def test_a_whole_run_has_all_its_spans() -> None:
    records = fold(given(*WHOLE, RunEnded("answered", "answered")), content=True)
    check(records)
    kinds = [record.what for record in records]
    assert {kind: kinds.count(kind) for kind in kinds} == {"model": 9, "tool": 9, "turn": 3, "run": 1}
    run = records[-1]
    assert (run.attributes[n.RUN_INPUT], run.attributes[n.RUN_OUTPUT], run.attributes[n.RUN_TURNS]) == (39, 9, 3)
    assert n.RUN_MONEY not in run.attributes, "an unknown price is not nothing"
    first = records[0]
    assert (first.attributes[n.SERVER_ADDRESS], first.attributes[n.SERVER_PORT]) == ("127.0.0.1", 8080)
    assert "u:p" not in str(records)


@cases(st.integers(1, len(WHOLE)), st.sampled_from(["resumed", "ended", "escalated", "ticked"]))
def test_wherever_a_run_breaks_off_no_span_stays_open(place: int, how: str) -> None:
    after: dict[str, list[Fact]] = {
        "resumed": [RunResumed(2), RunEnded("partial", "x")],
        "ended": [RunEnded("aborted", "cancelled")],
        "escalated": [RunEscalated("auth", "key"), RunResumed(2), RunEnded("answered", "")],
        "ticked": [TickPassed(0.0, "tool"), RunResumed(2), RunEnded("aborted", "poison")],
    }
    records = fold(given(*WHOLE[:place], *after[how]))
    check(records)
    begun = sum(isinstance(fact, (ModelCallStarted, ToolStarted)) for fact in WHOLE[:place])
    assert sum(record.what in ("model", "tool") for record in records) == begun


@settings(max_examples=150)
@cases(
    st.lists(
        st.sampled_from([*WHOLE[1:], RunResumed(2), RunEscalated("x", "y"), RunEnded("answered", "")]), max_size=60
    )
)
def test_no_order_of_facts_breaks_the_fold(facts: list[Fact]) -> None:
    events = given(WHOLE[0], *facts)
    for record in fold(events):
        assert record.start <= record.end
        assert list(measures(record, "next")) or record.what == "turn"
    counting = Counting()
    for event in events:
        counting.fold(event)


def test_a_record_that_knows_only_ends_still_has_spans() -> None:
    records = fold(given(RunStarted("r", "a", "t"), ModelReplied(1, 0, "", (CALLS[0],), seconds=0.5),
                         ToolFinished(CALLS[0], "ok", seconds=0.5), RunEnded("answered", ""), step=1.0))  # fmt: skip
    check(records)
    assert [(record.what, record.end - record.start) for record in records[:2]] == [("model", 0.5), ("tool", 0.5)]


def test_a_guess_is_never_told_as_the_providers_figure() -> None:
    [model, *_] = fold(given(RunStarted("r", "a", "t"), ModelReplied(1, 0, "x", usage=Usage(9, 9, reported=False)),
                             RunEnded("answered", "")))  # fmt: skip
    assert n.INPUT_TOKENS not in model.attributes
    assert model.attributes[n.ESTIMATED] is True
    assert [measure.name for measure in measures(model)] == [n.OPERATION_DURATION]


def test_a_run_that_never_ends_is_bounded_in_memory() -> None:
    spans = Spans(same)  # type: ignore[arg-type]
    verdict = VerdictGiven("observe", "repeating", "identical", "i", (1,), 1)
    for event in given(WHOLE[0], *facts_of(1), *([verdict] * (3 * MOST_MARKS)), RunEnded("answered", "")):
        records = spans.fold(event)
    assert max(len(record.marks) for record in records) == MOST_MARKS


def test_names_are_spelled_in_one_module() -> None:
    import capataz.lens.spans.names as names

    ours = [value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)]
    assert all(value == value.lower() for value in ours)
    assert names.TOKEN_BUCKETS[-1] == 67108864
    assert names.SECOND_BUCKETS[-1] == 81.92
    assert names.AGENT_BUCKETS[-1] == 409.6
