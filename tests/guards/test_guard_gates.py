"""Talking instead of doing, claims the effects contradict, silence, spending, and agents that wake each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from capataz.events.facts import (
    Answer3,
    Call,
    CheckEvaluated,
    ChildEnded,
    EffectChecked,
    MessageReceived,
    ModelReplied,
    RunStarted,
    Spend,
    TickPassed,
    ToolFacts,
    ToolFinished,
    ToolStarted,
    Usage,
)
from capataz.guards.finishing import Finishing
from capataz.guards.handing import Handing
from capataz.guards.hanging import Hanging
from capataz.guards.limits import Thresholds, ToolLimits
from capataz.guards.narrating import Chanting, Narrating, refrain
from capataz.guards.spending import Spending
from tests.guards.story import Log, seen

Waits = Literal["model", "tool", "own"]
ACTING = RunStarted("r", "a", "do it", role="acting")
TALKING = RunStarted("r", "a", "talk", role="talking")


def test_an_acting_role_that_only_talks_fails_its_turn(log: Log) -> None:
    log.add(ACTING)
    log.say("I will now update the record.")
    (signal,) = seen(Narrating(), log.events)
    assert (signal.kind, signal.advice, signal.evidence) == ("narration", "fail-turn", (1,))


def test_a_talking_role_may_talk_and_an_acting_one_after_it_looked(log: Log) -> None:
    log.add(TALKING)
    log.say("Hello.")
    assert seen(Narrating(), log.events) == []
    looked = Log()
    looked.add(ACTING)
    looked.call("get_order", {"id": 7})
    looked.say("It shipped yesterday.")
    assert seen(Narrating(), looked.events) == []


def test_stopping_after_only_looking_is_narration_when_a_check_fails(log: Log) -> None:
    log.add(ACTING)
    log.call("read_file", {"path": "a"})
    log.say("Now let me read the rest...")
    log.add(CheckEvaluated("summary written", False))
    assert [signal.kind for signal in seen(Narrating(), log.events)] == ["narration"]
    assert [signal.kind for signal in seen(Finishing(), log.events)] == ["false-done"]


def test_the_same_reply_again_is_told_and_then_cut(log: Log) -> None:
    log.add(TALKING)
    for _ in range(4):
        log.say("How can I help?")
    assert [signal.advice for signal in seen(Narrating(), log.events)] == ["nudge", "stop"]
    apart = Log()
    apart.add(TALKING)
    for _ in range(6):
        apart.say("Good morning.")
        apart.add(MessageReceived("user", "Good morning."))
    assert seen(Narrating(), apart.events) == []


@pytest.mark.parametrize("passage", ["yes agree\n", "I will check the order again. ", "na "])
def test_a_chant_is_told_by_its_period(passage: str, log: Log) -> None:
    log.say("Well. " + passage * 40)
    (signal,) = seen(Chanting(), log.events)
    assert signal.kind == "narration"


@pytest.mark.parametrize(
    "text",
    [
        "-" * 500,
        "| --- | --- |\n" * 20 + "| a | b |",
        "\n" * 400 + "x",
        " ".join(str(n) for n in range(200)),
        "short " * 3,
    ],
)
def test_rules_tables_and_lists_are_no_chant(text: str, log: Log) -> None:
    log.say(text)
    assert seen(Chanting(), log.events) == []


def test_a_refrain_is_counted_from_the_end() -> None:
    assert refrain("abc " * 30)[0] == 30
    assert refrain("no refrain in this sentence, however long it may be")[0] == 1


@pytest.mark.parametrize("how", ["failed", "in doubt"])
def test_a_claim_over_a_broken_act_is_false(how: str, log: Log) -> None:
    log.add(ACTING)
    log.call("refund", {"order": 1}, "no", kind="write", target="1", error=how == "failed", in_doubt=how == "in doubt")
    log.say("Refunded.")
    (signal,) = seen(Finishing(), log.events)
    assert (signal.kind, signal.advice) == ("false-done", "fail-turn")
    assert "refund on 1" in signal.words


def test_an_act_made_good_is_no_false_claim(log: Log) -> None:
    log.add(ACTING)
    log.call("edit", {"path": "a"}, "no match", kind="write", target="a", error=True)
    log.call("write_file", {"path": "a"}, "ok", kind="write", target="a")
    log.say("Done.")
    assert seen(Finishing(), log.events) == []


def test_a_red_test_is_a_finding_and_no_broken_promise(log: Log) -> None:
    log.add(ACTING)
    log.call("pytest", {}, "1 failed", kind="exec", error=True)
    log.say("One test fails.")
    assert seen(Finishing(), log.events) == []


@pytest.mark.parametrize(("answer", "signals"), [("yes", 0), ("no", 1), ("unknown", 1), (None, 1)])
def test_an_act_that_can_be_confirmed_must_be(answer: Answer3 | None, signals: int, log: Log) -> None:
    facts = (ToolFacts("refund", "write", "order", confirmable=True),)
    log.add(replace(ACTING, tools=facts))
    log.call("refund", {"order": "1"}, "accepted", kind="write", target="1")
    if answer is not None:
        log.add(EffectChecked(log.turn, 0, "after", answer))
    log.say("Refunded.")
    assert len(seen(Finishing(), log.events)) == signals


def test_a_foreign_act_that_succeeded_counts_as_done(log: Log) -> None:
    log.add(ACTING)
    log.call("refund", {"order": "1"}, "accepted", kind="write", target="1")
    log.say("Refunded.")
    assert seen(Finishing(), log.events) == []


@pytest.mark.parametrize(
    ("waiting", "silence", "hung"),
    [("model", 119, False), ("model", 121, True), ("tool", 899, False), ("tool", 901, True), ("own", 301, True)],
)
def test_silence_has_its_own_limit_for_whom_it_waits(
    waiting: Literal["model", "tool", "own"], silence: float, hung: bool, log: Log
) -> None:
    log.add(ACTING)
    log.at += silence
    beat = log.at + 1 - silence
    log.add(TickPassed(beat, waiting), TickPassed(beat, waiting))
    signals = seen(Hanging(), log.events)
    assert [(signal.advice, signal.urgent) for signal in signals] == ([("stop", True)] if hung else [])


def test_a_tool_may_have_a_silence_of_its_own(log: Log) -> None:
    call = Call(1, 0, "c", "train", {}, "exec")
    log.add(ACTING, ModelReplied(1, 1, "", (call,), "calls"), ToolStarted(1, 0, "train"))
    log.at += 2_000
    log.add(TickPassed(log.at - 2_000, "tool"))
    assert "train" in seen(Hanging(), log.events)[0].words
    patient = Thresholds(tools={"train": ToolLimits(silence=3_600.0)})
    assert seen(Hanging(patient), log.events) == []


def test_a_gap_in_a_record_is_told_and_not_cut(log: Log) -> None:
    log.add(ACTING)
    call = Call(1, 0, "c", "fetch", {}, "read")
    log.add(ModelReplied(1, 1, "", (call,), "calls"))
    log.at += 1_500
    log.add(ToolFinished(call, "late"))
    (signal,) = seen(Hanging(), log.events)
    assert (signal.kind, signal.advice) == ("hung", "nudge")


def test_in_a_record_too_a_tool_that_is_held_to_less_than_the_model_is_told(log: Log) -> None:
    call = Call(1, 0, "c", "fetch", {}, "read")
    log.add(ACTING, ModelReplied(1, 1, "", (call,), "calls"))
    log.at += 40
    log.add(ToolFinished(call, "late"))
    assert seen(Hanging(), log.events) == []
    (signal,) = seen(Hanging(Thresholds(tools={"fetch": ToolLimits(silence=30.0)})), log.events)
    assert signal.kind == "hung"


def test_a_minute_of_many_tokens_is_told_once(log: Log) -> None:
    for turn in range(40):
        log.add(ModelReplied(turn, 1, "x", usage=Usage(input=19_000, output=2_000)))
    assert [signal.kind for signal in seen(Spending(), log.events)] == ["token-rate"]
    cached = Log()
    for turn in range(40):
        cached.add(ModelReplied(turn, 1, "x", usage=Usage(input=19_000, output=2_000, cache_read=18_000)))
    assert seen(Spending(), cached.events) == []


def _lineage(rounds: int, *, progress: bool) -> Log:
    log = Log()
    log.add(RunStarted("r0", "developer", "rename one field", root="r0"))
    for number in range(1, 2 * rounds + 1):
        if progress:
            log.call("edit", {"n": number}, {"ok": True}, kind="write", target="f", changed=True)
            log.add(EffectChecked(log.turn, 0, "after", "yes"))
        agent = "reviewer" if number % 2 else "developer"
        log.add(RunStarted(f"r{number}", agent, f"wording {number}", root="r0", parent=f"r{number - 1}"))
    return log


def test_agents_that_wake_each_other_are_one_loop() -> None:
    signals = seen(Handing(), _lineage(8, progress=False).events)
    assert [signal.advice for signal in signals[:2]] == ["nudge", "stop"]
    assert {signal.identity for signal in signals} == {"handoff:r0:developer:reviewer"}
    assert "2 rounds" in signals[0].words
    assert "3 rounds" in signals[1].words


def test_a_pair_that_changes_something_in_every_round_goes_on() -> None:
    assert seen(Handing(), _lineage(12, progress=True).events) == []


def test_hand_offs_are_seen_in_the_log_of_the_parent_alone(log: Log) -> None:
    log.add(RunStarted("r0", "owner", "task"))
    for number in range(9):
        log.add(ChildEnded(f"c{number}", "helper", "answered", Spend(), number, 0))
    assert [signal.advice for signal in seen(Handing(), log.events)][:2] == ["nudge", "stop"]
