"""A run made by hand: what the shop's agent does with a model that repeats a refund and is stopped."""

from collections.abc import Sequence
from decimal import Decimal

import pytest

from capataz.events.facts import (
    Call,
    CheckEvaluated,
    EffectChecked,
    Event,
    Evidence,
    Fact,
    Fault,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunStarted,
    ToolFacts,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    Usage,
    VerdictGiven,
    WaitEnded,
    WaitStarted,
)


def log(*facts: Fact, start: float = 1_000.0, step: float = 0.5) -> list[Event]:
    """Facts as a log: half a second apart."""
    return [Event(seq, start + seq * step, fact) for seq, fact in enumerate(facts)]


def refund(turn: int, position: int = 0) -> Call:
    return Call(turn, position, f"c{turn}", "refund", {"order_id": "81", "cents": 1250}, "write", "81")


def replied(turn: int, *calls: Call, text: str = "", money: str | None = "0.01") -> ModelReplied:
    price = Decimal(money) if money is not None else None
    return ModelReplied(
        turn, 0, text, calls, "calls" if calls else "stop", Usage(100, 20, money=price), "m", seconds=0.4
    )


def stubborn() -> tuple[Fact, ...]:
    look = Call(1, 0, "c1", "get_order", {"order_id": "81"}, "read", "81")
    tools = (ToolFacts("get_order", "read", "order_id"), ToolFacts("refund", "write", "order_id", confirmable=True))
    loop = "refund#81"
    return (
        RunStarted("run-1", "support", "Refund order 81", model="openai:m", tools=tools, checks=("customer told",)),
        ModelCallStarted(1, 0, "m"),
        ModelCallFailed(1, 0, Fault("transient", "server", "status 500", 500)),
        WaitStarted(0.5, "transient", 1),
        WaitEnded(1),
        ModelCallStarted(1, 1, "m"),
        replied(1, look),
        ToolStarted(1, 0, "get_order"),
        ToolFinished(look, {"id": "81", "item": "glass lamp"}, seconds=0.01),
        ModelCallStarted(2, 0, "m"),
        replied(2, refund(2)),
        EffectChecked(2, 0, "before", "no"),
        ToolStarted(2, 0, "refund", "key"),
        ToolFinished(refund(2), {"status": "refunded"}, seconds=0.02),
        EffectChecked(2, 0, "after", "yes", "refund 1"),
        CheckEvaluated("customer told", False, "nothing was sent"),
        ModelCallStarted(3, 0, "m"),
        replied(3, refund(3)),
        ToolRefused(refund(3), "ledger", "this refund was made in turn 2"),
        VerdictGiven("nudge", "looping", "identical", loop, (13, 18), 3, "the same refund twice", "It is done. Go on."),
        ModelCallStarted(4, 0, "m"),
        replied(4, refund(4)),
        ToolRefused(refund(4), "ledger", "this refund was made in turn 2"),
        VerdictGiven("stop", "looping", "identical", loop, (13, 18, 22), 4, "the same refund a third time"),
        ModelCallStarted(5, 0, "m", "closing"),
        ModelReplied(5, 0, "Order 81 is refunded.", purpose="closing", usage=Usage(90, 8, money=Decimal("0.01"))),
        RunEnded(
            "partial",
            "identical",
            "the same refund a third time",
            "Order 81 is refunded.",
            5,
            (Evidence("effect", "refund 81", "refund 1", 14),),
            ("customer told: nothing was sent",),
        ),
    )


@pytest.fixture
def stubborn_run() -> Sequence[Event]:
    return log(*stubborn())
