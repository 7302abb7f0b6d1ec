"""An agent as a tool of another: a child that was cut off is never done for its parent."""

from __future__ import annotations

from typing import Any

import pytest

from capataz import Agent, Answered, Budget, Completed, Escalated, Outcome, Partial
from capataz.events.facts import ChildEnded, Fault, RunStarted, ToolFinished, ToolRefused
from capataz.ports import Reply
from capataz.testing.scripted import ScriptedModel, calls, says
from tests.runtime.conftest import World

Boss = Any


async def delegated(world: World, child: Agent, *last: Reply, role: Any = "acting", **settings: Any) -> Outcome:
    steps = last or (says("The summary is ready."),)
    boss = ScriptedModel(calls((child.name, {"task": "summarise"})), *steps)
    parent = Agent("boss", boss, tools=[child.as_tool()], role=role, **settings)
    return await parent.arun("Get it summarised", app=world.app)


def reading(turn: int) -> Reply:
    return calls(("look", {"order": str(turn)}), text=f"reading part {turn}")


@pytest.mark.parametrize("role", ["acting", "coordinating"])
async def test_a_child_cut_off_by_its_ceiling_is_never_completed_for_its_parent(world: World, role: Any) -> None:
    def summarised() -> tuple[bool, str]:
        return False, "summary.md does not exist"

    child = Agent(
        "child",
        ScriptedModel(*[reading(turn) for turn in range(10)]),
        tools=[world.look],
        budget=Budget(turns=4),
        done_when=[summarised],
    )
    outcome = await delegated(world, child, role=role)
    assert isinstance(outcome, Partial)
    facts = await world.facts(outcome.run)
    result = next(fact.result for fact in facts if isinstance(fact, ToolFinished))
    assert isinstance(result, dict)
    assert result["outcome"] == "partial"
    assert result["reason"] == "ceiling-turns"
    assert result["answer"] == "reading part 3"
    assert result["missing"] == ["summarised"] or result["missing"] == ["summarised: summary.md does not exist"]


@pytest.mark.parametrize(
    "step",
    [says(""), Fault("auth", "x", "no"), Fault("contract", "x", "no"), says("I will do it soon.")],
    ids=["empty", "auth", "contract", "narrates"],
)
async def test_no_other_way_of_not_finishing_counts_as_done_either(world: World, step: Reply | Fault) -> None:
    child = Agent("child", ScriptedModel(step), tools=[world.refund])
    outcome = await delegated(world, child)
    assert isinstance(outcome, (Partial, Escalated))
    assert not outcome.evidence


async def test_a_completed_child_is_a_confirmed_effect_of_its_parent(world: World) -> None:
    child = Agent("child", ScriptedModel(calls(("refund", {"order": "81"})), says("Done.")), tools=[world.refund])
    outcome = await delegated(world, child, says("Refunded."))
    assert isinstance(outcome, Completed)
    assert [proof.name for proof in outcome.evidence] == ["child"]


async def test_lineage_and_spend_go_up_and_the_budget_goes_down(world: World) -> None:
    looks = [calls(("look", {"order": str(n)})) for n in range(20)]
    child = Agent("child", ScriptedModel(*looks), tools=[world.look], budget=Budget(turns=50))
    outcome = await delegated(world, child, budget=Budget(turns=6, calls=20))
    facts = await world.facts(outcome.run)
    ended = next(fact for fact in facts if isinstance(fact, ChildEnded))
    begun = (await world.facts(ended.run))[0]
    assert isinstance(begun, RunStarted)
    assert (begun.parent, begun.root) == (outcome.run, outcome.run)
    assert begun.ceilings.turns == 5
    assert outcome.spend.turns <= 6
    assert outcome.spend.tokens >= ended.spend.tokens > 0


async def test_the_ledger_holds_for_the_whole_root_task(world: World) -> None:
    child_model = ScriptedModel(calls(("refund", {"order": "81"})), says("It was already done."))
    child = Agent("child", child_model, tools=[world.refund])
    boss = ScriptedModel(calls(("refund", {"order": "81"})), calls(("child", {"task": "refund 81"})), says("Done."))
    outcome = await Agent("boss", boss, tools=[world.refund, child.as_tool()]).arun("go", app=world.app)
    assert world.done == [("refund", "81")]
    ended = next(fact for fact in await world.facts(outcome.run) if isinstance(fact, ChildEnded))
    refused = [fact.reason for fact in await world.facts(ended.run) if isinstance(fact, ToolRefused)]
    assert refused == ["ledger"]


async def test_an_effect_of_a_child_is_not_repeated_by_its_parent(world: World) -> None:
    child = Agent("child", ScriptedModel(calls(("refund", {"order": "81"})), says("Done.")), tools=[world.refund])
    boss = ScriptedModel(calls(("child", {"task": "refund 81"})), calls(("refund", {"order": "81"})), says("Done."))
    outcome = await Agent("boss", boss, tools=[world.refund, child.as_tool()]).arun("go", app=world.app)
    assert isinstance(outcome, Completed)
    assert world.done == [("refund", "81")]


async def test_a_talking_child_is_asked_like_a_read(world: World) -> None:
    expert = Agent("expert", ScriptedModel("It is 42."), role="talking")
    boss = ScriptedModel(calls(("expert", {"task": "what is it?"})), says("It is 42."))
    outcome = await Agent("boss", boss, tools=[expert.as_tool()], role="talking").arun("ask", app=world.app)
    assert isinstance(outcome, Answered)
