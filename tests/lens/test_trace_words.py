"""Every fact has words, and the words hold to what is known."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from capataz.events.facts import (
    AnswerRead,
    ApprovalAsked,
    BreakerClosed,
    BreakerOpened,
    Call,
    CapabilityLearned,
    CeilingReached,
    CheckEvaluated,
    ChildEnded,
    CompressionFailed,
    ConversationRecalled,
    EffectChecked,
    EscalationAnswered,
    Fact,
    Fault,
    HistoryCompressed,
    MessageReceived,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    ModelSwitched,
    OutputCapped,
    ResultsShortened,
    RunEnded,
    RunEscalated,
    RunLabelled,
    RunResumed,
    RunStarted,
    Spend,
    TickPassed,
    ToolFailed,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    VerdictGiven,
    WaitEnded,
    WaitStarted,
)
from capataz.lens.words import called, duration, line, money, said, short, spent

CALL = Call(1, 0, "c", "refund", {"order_id": "81", "cents": 1250}, "write", "81")
FACTS: tuple[Fact, ...] = (
    RunStarted("r", "support", "refund 81"),
    RunResumed(2),
    MessageReceived("runtime", "go on"),
    TickPassed(1.0, "tool"),
    ModelCallStarted(1, 1, "m"),
    ModelReplied(1, 0, "", (CALL,)),
    ModelCallFailed(1, 2, Fault("rate_limit", "slow-down", "too many", 429)),
    ModelSwitched(1, "b", "a", "rate_limit"),
    OutputCapped(1, 400, "too long together"),
    HistoryCompressed(9, "order 81 is broken", 4),
    CompressionFailed(9, "no room", 4),
    ResultsShortened(9, 4),
    ConversationRecalled("a lamp", ()),
    BreakerOpened("provider", "openai", 5, 30.0, "status 500"),
    BreakerClosed("provider", "openai"),
    CapabilityLearned("m", "temperature", "temperature = false"),
    ToolFailed(CALL, 0, Fault("transient", "timeout", "no answer"), {"error": "no answer"}),
    WaitStarted(2.5, "rate_limit", 1),
    WaitEnded(1),
    ToolRefused(CALL, "ledger", "made already"),
    ToolStarted(1, 0, "refund"),
    ToolFinished(CALL, {"ok": True}),
    EffectChecked(1, 0, "after", "yes", "refund 7"),
    ChildEnded("r2", "helper", "partial", Spend(), 1, 0),
    CheckEvaluated("told", False, "nothing sent"),
    VerdictGiven("stop", "looping", "identical", "x", (1, 2), 1, "three times"),
    CeilingReached("turns", 12, 12),
    ApprovalAsked(1, 0, "d", "refund(81)", "over the limit"),
    EscalationAnswered("not-happened", "Ana", "the gateway says no", "d"),
    AnswerRead(1, "cents is missing"),
    RunEscalated("auth", "the key was refused"),
    RunEnded("partial", "ceiling-turns"),
    RunLabelled(True, "a test"),
)


def test_a_fact_without_words_of_its_own_is_called_by_its_name() -> None:
    @dataclass(frozen=True)
    class LampBroken:
        """A fact from the future."""

    made: Any = LampBroken()
    assert line(made).head == "lamp broken"


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_every_fact_has_words(fact: Fact) -> None:
    assert line(fact).head


def test_a_verdict_keeps_its_evidence() -> None:
    found = line(VerdictGiven("stop", "looping", "identical", "x", (1, 2), 1, "three times"))
    assert (found.tone, found.text, found.evidence) == ("bad", "three times", (1, 2))
    assert "looping" in found.head


def test_a_failure_names_row_and_status() -> None:
    assert line(FACTS[6]).text == "rate limit 429: too many"


def test_a_call_is_written_as_one_would_write_it() -> None:
    assert called(CALL) == 'refund(order_id="81", cents=1250)'
    assert called(Call(1, 0, "", "t", {"x": "a" * 500})).endswith("…)")


def test_an_unknown_price_is_not_nothing() -> None:
    assert money(None) == "price unknown"
    assert money(Decimal(0)) == "$0.00"
    assert money(Decimal("0.0123")) == "$0.0123"
    assert "price unknown" in spent(Spend(1, 1, 10, 5, None, 2.0))
    assert spent(Spend(1, 2, 1000, 500, Decimal(0), 2.0)).startswith("1 turn · 2 calls · 1,500 tokens")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.25, "250 ms"), (3.21, "3.2 s"), (90, "1 min 30 s"), (7_200, "2 h 0 min")]
)
def test_durations_in_the_unit_a_person_would_choose(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_text_is_cut_visibly_and_kept_on_one_line() -> None:
    assert short("a\n b", 10) == "a b"
    assert short("abcdef", 4) == "abc…"


def test_values_no_fast_encoder_takes_are_still_shown() -> None:
    assert said({"n": 10**30}) == '{"n": 1000000000000000000000000000000}'
