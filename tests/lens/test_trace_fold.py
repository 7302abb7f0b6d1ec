"""The tree of a run: what belongs where, for whole logs, prefixes, resumed runs and foreign records."""

import json
from collections.abc import Sequence
from decimal import Decimal

import pytest

from capataz.events.facts import (
    Call,
    CeilingReached,
    ChildEnded,
    EscalationAnswered,
    Event,
    Fact,
    MessageReceived,
    ModelCallStarted,
    ModelReplied,
    RunEscalated,
    RunResumed,
    RunStarted,
    Spend,
    TickPassed,
    ToolFinished,
    Usage,
)
from capataz.lens.trace.as_json import trace_json
from capataz.lens.trace.fold import Folding, trace


def log(*facts: Fact) -> list[Event]:
    return [Event(seq, 10.0 + seq, fact) for seq, fact in enumerate(facts)]


def test_turns_hold_their_calls_and_what_happened_meanwhile(stubborn_run: Sequence[Event]) -> None:
    tree = trace(stubborn_run)
    assert [(turn.number, turn.purpose) for turn in tree.turns] == [
        *((n, "loop") for n in (1, 2, 3, 4)),
        (5, "closing"),
    ]
    assert [[call.state for call in turn.calls] for turn in tree.turns] == [
        ["done"],
        ["done"],
        ["refused"],
        ["refused"],
        [],
    ]
    first, second, third, fourth, _ = tree.turns
    assert (first.tries, len(first.failures), len(first.waits)) == (2, 1, 1)
    assert second.calls[0].confirmed
    assert [check.passed for check in second.checks] == [False]
    assert third.calls[0].refusal == "ledger"
    assert [verdict.action for verdict in third.verdicts + fourth.verdicts] == ["nudge", "stop"]
    assert (tree.outcome, tree.status) == ("partial", "ended")


def test_spend_counts_turns_of_the_loop_and_every_reply(stubborn_run: Sequence[Event]) -> None:
    spend = trace(stubborn_run).spend
    assert (spend.turns, spend.calls, spend.tokens) == (4, 2, 4 * 120 + 98)
    assert spend.money == Decimal("0.05")
    assert spend.seconds == pytest.approx(13.0)


def test_evidence_is_found_where_it_happened(stubborn_run: Sequence[Event]) -> None:
    tree = trace(stubborn_run)
    stop = tree.turns[3].verdicts[0]
    assert [tree.label(seq) for seq in stop.evidence] == ["turn 2, call 1", "turn 3, call 1", "turn 4, call 1"]
    calls = [tree.call_at(seq) for seq in stop.evidence]
    assert [call.call.turn for call in calls if call is not None] == [2, 3, 4]
    assert tree.call_at(19) is None
    assert tree.label(19) == "turn 3"
    assert tree.label(999) == "event 999"


def test_every_prefix_is_a_run_still_going_on(stubborn_run: Sequence[Event]) -> None:
    folding = Folding()
    for count, event in enumerate(stubborn_run[:-1], 1):
        folding.fold(event)
        assert trace_json(folding.trace) == trace_json(trace(stubborn_run[:count]))
        assert folding.trace.status == "running"
    assert trace([]).status == "running"


def test_a_call_under_way_is_seen_running(stubborn_run: Sequence[Event]) -> None:
    assert trace(stubborn_run[:11]).turns[1].calls[0].state == "asked"
    assert trace(stubborn_run[:13]).turns[1].calls[0].state == "running"


def test_a_suspended_run_goes_on_when_it_is_answered_and_not_before() -> None:
    facts: list[Fact] = [
        RunStarted("r", "a", "t"),
        MessageReceived("user", "hurry"),
        ModelCallStarted(1, 0, "m"),
        RunEscalated("auth", "the key was refused"),
    ]
    waiting = trace(log(*facts))
    assert (waiting.outcome, waiting.status) == ("escalated", "escalated")
    assert [type(mark.fact) for mark in waiting.opening] == [MessageReceived]
    facts.append(RunResumed(2, "recovered"))
    assert trace(log(*facts)).status == "escalated"
    again = trace(log(*facts, EscalationAnswered("retry", "Ana"), TickPassed(13.0)))
    assert (again.outcome, again.status) == (None, "running")


def test_a_foreign_record_without_starts_still_folds() -> None:
    call = Call(1, 0, "x", "search", {"q": "lamp"}, "search")
    tree = trace(
        log(
            RunStarted("r", "a", "t", source="chat"),
            ModelReplied(1, 0, "", (call,), usage=Usage(money=None)),
            ToolFinished(call, {"results": []}),
            ToolFinished(Call(1, 1, "y", "lost", {}), "odd", in_doubt=True),
        )
    )
    assert [(view.call.tool, view.state) for view in tree.turns[0].calls] == [("search", "done"), ("lost", "in-doubt")]
    assert (tree.spend.calls, tree.spend.money) == (2, None)
    assert any("in doubt" in warning for warning in tree.warnings)


def test_a_log_without_its_beginning_folds() -> None:
    tree = trace(log(ToolFinished(Call(4, 0, "x", "refund", {}), "done"), CeilingReached("turns", 12, 12)))
    assert tree.run is None
    assert tree.turns[0].calls[0].state == "done"
    assert tree.warnings == ["the ceiling of 12 turns was reached (12 used)"]


def test_what_children_used_is_ours() -> None:
    call = Call(1, 0, "x", "helper", {})
    tree = trace(
        log(
            RunStarted("r", "a", "t"),
            ModelReplied(1, 0, "", (call,), usage=Usage(10, 5, money=Decimal("0.5"))),
            ChildEnded("r2", "helper", "partial", Spend(3, 2, 100, 50, Decimal(1), 2.0), 1, 0),
        )
    )
    view = tree.turns[0].calls[0]
    assert (view.child, view.child_outcome) == ("r2", "partial")
    assert (tree.spend.turns, tree.spend.calls, tree.spend.tokens, tree.spend.money) == (4, 2, 165, Decimal("1.5"))


def test_the_tree_is_plain_json(stubborn_run: Sequence[Event]) -> None:
    value = json.loads(json.dumps(trace_json(trace(stubborn_run))))
    assert value["outcome"] == "partial"
    assert value["usage"]["money"] == "0.05"
    assert value["evidence"] == [{"what": "effect", "name": "refund 81", "detail": "refund 1", "seq": 14}]
    assert value["turns"][3]["marks"][0]["t"] == "VerdictGiven"
    assert value["turns"][3]["marks"][0]["evidence"] == [13, 18, 22]


def test_text_that_utf8_cannot_say_is_still_json() -> None:
    tree = trace(log(RunStarted("r", "a", "t"), MessageReceived("user", "half \ud83d and " + "9" * 40)))
    assert json.loads(json.dumps(trace_json(tree)))["opening"][0]["text"].startswith("half \ud83d")
