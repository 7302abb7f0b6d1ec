"""A worker takes a run over: what an earlier one had found out and not yet acted on is found out again."""

from __future__ import annotations

from capataz.events.facts import Call, EffectChecked, Fact, ModelReplied, RunResumed, RunStarted, ToolFacts, ToolStarted
from capataz.kernel.commands import Command, ConfirmEffect
from capataz.kernel.decide import decide
from capataz.kernel.evolve import fold
from capataz.policy.policy import Policy
from capataz.runtime.guarding import rules_of
from capataz.testing.scripted import given

PAY = ToolFacts("pay", "write", "order", confirmable=True)
CALL = Call(1, 0, "c", "pay", {"order": "W-1"}, "write", "W-1")
ASKED = (
    RunStarted("r", "a", "t", "acting", root="r", tools=(PAY,)),
    ModelReplied(1, 0, "", (CALL,), "calls"),
    EffectChecked(1, 0, "before", "no"),
)


def next_of(*facts: Fact) -> Command:
    (command,) = decide(fold(rules_of(Policy()), given(*ASKED, *facts)))
    return command


def test_a_read_back_from_before_the_takeover_is_asked_again() -> None:
    """The log may have been restored to a point at which the act, made since then, had only been asked for."""
    assert not isinstance(next_of(), ConfirmEffect)
    command = next_of(RunResumed(2))
    assert isinstance(command, ConfirmEffect)
    assert command.phase == "before"


def test_an_act_that_was_begun_is_asked_after_as_ever() -> None:
    command = next_of(ToolStarted(1, 0, "pay"), RunResumed(2))
    assert isinstance(command, ConfirmEffect)
    assert command.phase == "after"
