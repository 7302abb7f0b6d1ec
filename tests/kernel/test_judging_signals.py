"""Which of several signals on one loop is judged: the strongest, wherever in the batch it was noticed."""

from __future__ import annotations

from capataz.events.facts import (
    Call,
    Fact,
    ModelReplied,
    RunStarted,
    ToolFacts,
    ToolFinished,
    ToolStarted,
    VerdictGiven,
)
from capataz.guards.base import Signal
from capataz.guards.catalogue import default_guards
from capataz.guards.watch import Watch
from capataz.kernel.commands import Record
from capataz.kernel.evolve import fold
from capataz.kernel.judging import judge_signals
from capataz.kernel.state import Rules
from capataz.kernel.verdicts import stronger
from capataz.lens.replay import replay
from capataz.policy.policy import Policy
from capataz.testing.scripted import given

RULES = Rules(Policy(), Watch(default_guards()))


def batch(copies: int) -> list[Fact]:
    """One reply that asks for the same thing so many times, and what came back."""
    made = [Call(1, n, f"c{n}", "look", {"order": "81"}, "read") for n in range(copies)]
    told: list[Fact] = [RunStarted("r", "a", "t", tools=(ToolFacts("look", "read"),))]
    told.append(ModelReplied(1, 1, "", tuple(made), "calls"))
    for call in made:
        told += [ToolStarted(1, call.position, "look"), ToolFinished(call, "paid")]
    return told


def verdict(copies: int) -> VerdictGiven:
    (command,) = judge_signals(fold(RULES, given(*batch(copies))))
    assert isinstance(command, Record)
    assert isinstance(command.fact, VerdictGiven)
    return command.fact


def test_an_early_nudge_does_not_swallow_a_later_urgent_stop() -> None:
    assert verdict(9).action == "stop"


def test_a_smaller_batch_is_only_told() -> None:
    assert verdict(4).action == "nudge"


def test_a_verdict_consumes_the_weaker_signals_of_its_loop() -> None:
    told = batch(9)
    assert fold(RULES, given(*told, verdict(9))).judgement.signals == []


def test_a_recorded_run_is_judged_as_a_live_one() -> None:
    (fired,) = replay(given(*batch(9)), Watch(default_guards())).fired
    assert (fired.verdict.action, fired.verdict.evidence) == ("stop", verdict(9).evidence)


def test_of_equals_the_later_one_is_judged() -> None:
    def signal(place: int) -> Signal:
        return Signal("repeating", "identical", "i", (place,), "nudge", "", "")

    assert stronger(signal(1), signal(2)).evidence == (2,)
