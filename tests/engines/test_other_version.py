"""Runs that one version of an agent began and another takes up, where a tool or a check is not there any more.

A call that was not begun is refused, one that was begun is in doubt; the worker lives and nothing counts as a crash.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from capataz import Agent, Completed, Escalated, Outcome, Partial, tool
from capataz.events.facts import (
    CheckEvaluated,
    EffectChecked,
    Fact,
    Kind,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolRefused,
    ToolStarted,
)
from capataz.ports import Job
from capataz.runtime.inbox import answer
from capataz.runtime.supervise import Decision
from capataz.runtime.world import RealClock
from capataz.testing.scripted import ScriptedModel, calls, says
from tests.engines.conftest import Yard


def paying(name: str, kind: Kind = "write", *, done: list[str] | None = None, **options: Any) -> Any:
    @tool(kind=kind, name=name, target="order" if kind == "write" else None, **options)
    def pay(order: str) -> str:
        """Pay it back."""
        if done is not None:
            done.append(order)
        return "ok"

    return pay


def newer(*words: str) -> Agent:
    return Agent("clerk", ScriptedModel(*map(says, words or ("it cannot be done",) * 4)), tools=[paying("pay_back")])


async def cut_off(yard: Yard, agent: Agent, after: type[Fact]) -> str:
    """A run of this agent as its log stands when the worker dies right after such a fact; a worker may take it up."""
    whole = await yard.app.store.read((await agent.arun("refund 81", app=yard.app)).run)
    last = next(place for place, event in enumerate(whole) if isinstance(event.fact, after))
    assert isinstance(whole[0].fact, RunStarted)
    first = replace(whole[0], fact=replace(whole[0].fact, run="cut-1", root="cut-1"))
    await yard.app.store.append(await yard.app.store.claim("cut-1", "dead"), 0, [first, *whole[1 : last + 1]])
    await yard.queue.enqueue(Job("cut-1", "clerk", "refund 81"))
    return "cut-1"


async def taken_up(yard: Yard, run: str, agent: Agent) -> tuple[Outcome | None, list[Fact]]:
    await yard.work(agent)
    assert (await yard.row(run)).crashes.total == 0
    return await agent.handle(run, app=yard.app).apoll(), await yard.facts(run)


async def test_an_approved_call_of_a_tool_that_is_gone_is_refused(yard: Yard) -> None:
    done: list[str] = []
    old = Agent("clerk", ScriptedModel(calls(("refund", {"order": "81"}))), [paying("refund", approve=True, done=done)])
    handle = await old.asubmit("refund 81", app=yard.app)
    await yard.work(old)
    assert isinstance(await handle.apoll(), Escalated)
    await answer(yard.app.store, RealClock(), handle.run, Decision("approve"), "Ana")
    outcome, facts = await taken_up(yard, handle.run, newer())
    assert isinstance(outcome, Partial)
    (refused,) = [fact for fact in facts if isinstance(fact, ToolRefused)]
    assert refused.reason == "unknown-tool"
    assert refused.message == "not run: there is no tool 'refund' any more"
    assert not any(isinstance(fact, ToolStarted) for fact in facts)
    assert done == []


@pytest.mark.parametrize("options", [{"confirm": lambda order, **_: False}, {"idempotent": True}, {}])
async def test_an_act_that_was_begun_with_a_tool_that_is_gone_is_in_doubt(yard: Yard, options: dict[str, Any]) -> None:
    old = Agent("clerk", ScriptedModel(calls(("refund", {"order": "81"})), *[says("done")] * 4))
    run = await cut_off(yard, replace(old, tools=[paying("refund", **options)]), ToolStarted)
    outcome, facts = await taken_up(yard, run, newer())
    assert isinstance(outcome, Escalated)
    assert (outcome.reason, outcome.missing) == ("in-doubt", ("refund(81) is in doubt",))
    (finished,) = [fact for fact in facts if isinstance(fact, ToolFinished)]
    assert finished.in_doubt
    asked = [(fact.phase, fact.answer) for fact in facts if isinstance(fact, EffectChecked)]
    assert asked[-1:] == ([("after", "unknown")] if "confirm" in options else [])


async def test_a_look_that_was_begun_with_a_tool_that_is_gone_is_refused_and_the_run_goes_on(yard: Yard) -> None:
    old = Agent(
        "clerk", ScriptedModel(calls(("look", {"order": "81"})), says("x")), [paying("look", "read")], "", "talking"
    )
    run = await cut_off(yard, old, ToolStarted)
    outcome, facts = await taken_up(yard, run, newer("I could not look"))
    assert outcome is not None
    assert outcome.answer == "I could not look"
    assert [fact.reason for fact in facts if isinstance(fact, ToolRefused)] == ["unknown-tool"]


async def test_a_check_that_is_gone_has_not_passed(yard: Yard) -> None:
    def refunded() -> bool:
        return True

    old = Agent("clerk", ScriptedModel(calls(("refund", {"order": "81"})), says("done")), [paying("refund")])
    run = await cut_off(yard, replace(old, done_when=[refunded]), RunStarted)
    outcome, facts = await taken_up(yard, run, newer())
    assert isinstance(outcome, Partial)
    (asked, *_) = [fact for fact in facts if isinstance(fact, CheckEvaluated)]
    assert (asked.name, asked.passed) == ("refunded", False)
    assert "the agent has this check no longer" in asked.detail


async def test_a_tool_that_only_the_newer_version_has_is_read_back(yard: Yard) -> None:
    done: list[str] = []
    old = Agent("clerk", ScriptedModel(calls(("refund", {"order": "81"}))), [paying("refund", approve=True)])
    handle = await old.asubmit("refund 81", app=yard.app)
    await yard.work(old)
    await answer(yard.app.store, RealClock(), handle.run, Decision("approve"), "Ana")
    tools = [paying("pay_back", done=done, confirm=lambda order, **_: order in done)]
    new = Agent("clerk", ScriptedModel(calls(("pay_back", {"order": "81"})), says("done")), tools)
    outcome, facts = await taken_up(yard, handle.run, new)
    assert isinstance(outcome, Completed)
    assert done == ["81"]
    assert [[tool.name for tool in fact.tools] for fact in facts if isinstance(fact, RunResumed)] == [["pay_back"]]
