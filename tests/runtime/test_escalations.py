"""Whoever decides in the end: supervisors, people, other models. Exhausted never looks like success."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from capataz import Aborted, Agent, Answered, Completed, Decision, Escalated, Escalation, Misuse, Outcome, Partial
from capataz.events.facts import (
    ApprovalAsked,
    Call,
    EscalationAnswered,
    Fault,
    ModelSwitched,
    OutputCapped,
    ToolRefused,
    ToolStarted,
)
from capataz.policy.policy import Policy
from capataz.ports import RawCall, Reply
from capataz.runtime.inbox import answer, waiting
from capataz.testing.scripted import ScriptedModel, calls, says
from capataz.tools.define import tool
from tests.runtime.conftest import World

DOWN = Fault("transient", "server-error", "the provider is down")
AUTH = Fault("auth", "authentication", "the key was refused")


async def decide_and_resume(world: World, agent: Agent, run: str, decision: Decision) -> Outcome:
    await answer(world.app.store, world.clock, run, decision, "ana")
    return await world.app.aresume(agent, run)


async def test_a_person_can_have_it_tried_again(world: World) -> None:
    agent = Agent("clerk", ScriptedModel(AUTH, calls(("refund", {"order": "81"})), says("Done.")), [world.refund])
    first = await agent.arun("refund", app=world.app)
    assert isinstance(first, Escalated)
    assert [item.run for item in await waiting(world.app.store)] == [first.run]
    final = await decide_and_resume(world, agent, first.run, Decision("retry"))
    assert isinstance(final, Completed)
    assert await waiting(world.app.store) == []


async def test_resuming_a_run_that_waits_changes_nothing(world: World) -> None:
    agent = Agent("clerk", ScriptedModel(AUTH), [world.refund])
    first = await agent.arun("refund", app=world.app)
    again = await world.app.aresume(agent, first.run)
    assert isinstance(again, Escalated)
    assert len(await world.events(first.run)) == len(await world.events(again.run))


async def test_a_person_can_end_it(world: World) -> None:
    agent = Agent("clerk", ScriptedModel(AUTH), [world.refund])
    first = await agent.arun("refund", app=world.app)
    final = await decide_and_resume(world, agent, first.run, Decision("abort", "not worth it"))
    assert isinstance(final, Aborted)
    assert final.reason == "person"


async def test_a_run_that_does_not_wait_cannot_be_answered(world: World) -> None:
    agent = Agent("clerk", ScriptedModel(says("hello")), role="talking")
    done = await agent.arun("hi", app=world.app)
    with pytest.raises(Misuse, match="does not wait"):
        await answer(world.app.store, world.clock, done.run, Decision("retry"), "ana")


async def test_a_decision_has_to_fit_what_is_asked(world: World) -> None:
    agent = Agent("clerk", ScriptedModel(AUTH), [world.refund])
    run = (await agent.arun("refund", app=world.app)).run
    for wrong in (Decision("approve"), Decision("correct", arguments={}), Decision("answer", " ")):
        with pytest.raises(Misuse):
            await answer(world.app.store, world.clock, run, wrong, "ana")


async def test_a_supervising_function_is_asked_before_a_person(world: World) -> None:
    told: list[Escalation] = []

    def boss(escalation: Escalation) -> Decision:
        told.append(escalation)
        return Decision("retry")

    model = ScriptedModel(DOWN, DOWN, DOWN, DOWN, calls(("refund", {"order": "81"})), says("Done."))
    outcome = await Agent("clerk", model, [world.refund], supervisor=boss).arun("refund 81", app=world.app)
    assert isinstance(outcome, Completed)
    assert [(item.reason, item.task) for item in told] == [("transient", "refund 81")]


@pytest.mark.parametrize("given", [None, "", 7, RuntimeError])
async def test_a_supervisor_without_a_decision_leaves_it_to_a_person(world: World, given: Any) -> None:
    def boss(_: Escalation) -> Any:
        if given is RuntimeError:
            raise RuntimeError("no")
        return given

    outcome = await Agent("clerk", ScriptedModel(DOWN), [world.refund], supervisor=boss).arun("go", app=world.app)
    assert isinstance(outcome, Escalated)


async def test_a_supervisor_that_never_helps_is_asked_twice_and_then_a_person_is(world: World) -> None:
    asked: list[str] = []

    def boss(escalation: Escalation) -> str:
        asked.append(escalation.reason)
        return "try again"

    outcome = await Agent("clerk", ScriptedModel(DOWN), [world.refund], supervisor=boss).arun("go", app=world.app)
    assert isinstance(outcome, Escalated)
    assert len(asked) == 2


async def test_an_agent_can_supervise_and_its_words_reach_the_model(world: World) -> None:
    boss = Agent("boss", ScriptedModel("Use order 81."), role="talking")
    model = ScriptedModel(DOWN, DOWN, DOWN, DOWN, calls(("refund", {"order": "81"})), says("Done."))
    outcome = await Agent("clerk", model, [world.refund], supervisor=boss).arun("refund", app=world.app)
    assert isinstance(outcome, Completed)
    assert model.requests[4].history[-1].text == "[from supervisor] Use order 81."


LIMITED = Fault("rate_limit", "rate-limit", "slow down", wait=3.0)


async def test_a_rate_limit_hops_at_once_and_waits_only_when_the_list_is_used_up(world: World) -> None:
    first, second = ScriptedModel(LIMITED), ScriptedModel(LIMITED, says("hello"))
    agent = Agent("clerk", first, role="talking")
    spec = agent.prepare(world.app)
    from capataz.runtime.launch import launch
    from capataz.runtime.worker import Voice
    from capataz.runtime.yard import Task

    worker = replace(spec.worker, voices=(*spec.worker.voices, Voice(second, "other", "m")))
    outcome = await launch(replace(spec, worker=worker), Task("hi"), world.app.yard())
    assert isinstance(outcome, Answered)
    assert (len(first.requests), len(second.requests)) == (1, 2)
    assert world.clock.slept == [3.0]
    hops = [fact for fact in await world.facts(outcome.run) if isinstance(fact, ModelSwitched)]
    assert [hop.model for hop in hops] == ["other:m"]


@pytest.mark.parametrize("row", ["auth", "invalid_input", "transient", "contract", "unknown"])
async def test_nothing_but_a_rate_limit_hops(world: World, row: Any) -> None:
    from capataz.runtime.launch import launch
    from capataz.runtime.worker import Voice
    from capataz.runtime.yard import Task

    second = ScriptedModel("hello")
    spec = Agent("clerk", ScriptedModel(Fault(row, "x", "no")), role="talking").prepare(world.app)
    worker = replace(spec.worker, voices=(*spec.worker.voices, Voice(second, "other", "m")))
    await launch(replace(spec, worker=worker), Task("hi"), world.app.yard())
    assert second.requests == []


async def test_an_output_reserve_that_did_not_fit_is_asked_for_smaller_once(world: World) -> None:
    tight = Fault("invalid_input", "output-reserve-too-large", "16384 + 16385 > 32768", room=16000)
    model = ScriptedModel(tight, says("fine"))
    outcome = await Agent("clerk", model, role="talking").arun("hi", app=world.app)
    assert isinstance(outcome, Answered)
    assert [fact.cap for fact in await world.facts(outcome.run) if isinstance(fact, OutputCapped)] == [16000]


async def test_it_is_asked_for_smaller_only_once_and_not_below_a_floor(world: World) -> None:
    tight = Fault("invalid_input", "output-reserve-too-large", "no", room=16000)
    model = ScriptedModel(tight)
    assert isinstance(await Agent("clerk", model, role="talking").arun("hi", app=world.app), Aborted)
    assert len(model.requests) == 2
    small = ScriptedModel(replace(tight, room=100))
    assert isinstance(await Agent("clerk", small, role="talking").arun("hi", app=world.app), Aborted)
    assert len(small.requests) == 1


class Verdict(BaseModel):
    refund: bool
    cents: int


async def test_a_typed_answer_comes_as_a_value(world: World) -> None:
    said = '```json\n{"refund": true, "cents": 100}\n```'
    outcome = await Agent("clerk", ScriptedModel(said), role="talking", answer=Verdict).arun("hi", app=world.app)
    assert isinstance(outcome, Answered)
    assert outcome.value == Verdict(refund=True, cents=100)


async def test_an_answer_of_the_wrong_type_goes_back_with_the_reason_then_is_a_contract_fault(world: World) -> None:
    model = ScriptedModel('{"refund": true}', '{"refund": true, "cents": 5}')
    fine = await Agent("clerk", model, role="talking", answer=Verdict).arun("hi", app=world.app)
    assert isinstance(fine, Answered)
    assert "cents" in model.requests[1].history[-1].text
    bad = await Agent("clerk", ScriptedModel("no"), role="talking", answer=Verdict).arun("hi", app=world.app)
    assert isinstance(bad, Aborted)
    assert bad.reason == "contract"
    assert bad.value is None


def transfers(done: list[dict[str, Any]]) -> Any:
    def rule(eur: int, **_: Any) -> bool:
        return eur >= 50

    @tool(kind="write", target="to", confirm=lambda eur, to: {"eur": eur, "to": to} in done, approve=rule)
    def transfer(eur: int, to: str) -> str:
        """Send money."""
        done.append({"eur": eur, "to": to})
        return "sent"

    return transfer


async def test_what_was_approved_is_what_runs_without_asking_the_model_again(world: World) -> None:
    done: list[dict[str, Any]] = []
    agent = Agent("bank", ScriptedModel(calls(("transfer", {"eur": 100, "to": "A"})), says("done")), [transfers(done)])
    first = await agent.arun("pay", app=world.app)
    assert isinstance(first, Escalated)
    assert (first.reason, done) == ("approval", [])
    asked = next(fact for fact in await world.facts(first.run) if isinstance(fact, ApprovalAsked))
    assert asked.shown == 'transfer(eur=100, to="A")'
    other = ScriptedModel(says("done"))
    fresh = replace(agent, model=other)
    final = await decide_and_resume(world, fresh, first.run, Decision("approve"))
    assert isinstance(final, Completed)
    assert done == [{"eur": 100, "to": "A"}]


async def test_a_rule_on_the_arguments_decides_whether_anyone_is_asked(world: World) -> None:
    done: list[dict[str, Any]] = []
    agent = Agent("bank", ScriptedModel(calls(("transfer", {"eur": 10, "to": "A"})), says("done")), [transfers(done)])
    assert isinstance(await agent.arun("pay", app=world.app), Completed)


async def test_an_approval_under_another_policy_does_not_count(world: World) -> None:
    done: list[dict[str, Any]] = []
    agent = Agent("bank", ScriptedModel(calls(("transfer", {"eur": 100, "to": "A"})), says("done")), [transfers(done)])
    first = await agent.arun("pay", app=world.app)
    changed = replace(agent, policy=Policy(claims=5))
    again = await decide_and_resume(world, changed, first.run, Decision("approve"))
    assert isinstance(again, Escalated)
    assert done == []
    final = await decide_and_resume(world, changed, first.run, Decision("approve"))
    assert isinstance(final, Completed)


async def test_a_corrected_call_runs_as_corrected(world: World) -> None:
    done: list[dict[str, Any]] = []
    agent = Agent("bank", ScriptedModel(calls(("transfer", {"eur": 100, "to": "A"})), says("done")), [transfers(done)])
    run = (await agent.arun("pay", app=world.app)).run
    final = await decide_and_resume(world, agent, run, Decision("correct", arguments={"eur": 60, "to": "A"}))
    assert isinstance(final, Completed)
    assert done == [{"eur": 60, "to": "A"}]


async def test_a_rejection_is_state_and_nobody_is_asked_twice(world: World) -> None:
    done: list[dict[str, Any]] = []
    model = ScriptedModel(
        calls(("transfer", {"eur": 100, "to": "A"})),
        calls(("transfer", {"eur": 99, "to": "A"})),
        calls(("transfer", {"to": "A", "eur": 98})),
        says("Paid."),
    )
    agent = Agent("bank", model, [transfers(done)])
    run = (await agent.arun("pay", app=world.app)).run
    final = await decide_and_resume(world, agent, run, Decision("reject", "not this month"))
    assert isinstance(final, Partial)
    assert final.reason == "rejected" or final.reason.startswith("re")
    assert done == []
    facts = await world.facts(run)
    assert len([fact for fact in facts if isinstance(fact, ApprovalAsked)]) == 1
    refused = [fact for fact in facts if isinstance(fact, ToolRefused)]
    assert {fact.reason for fact in refused} == {"rejected"}
    assert "not this month" in refused[0].message
    assert all(fact.fault is None for fact in refused)


async def test_an_act_in_doubt_ends_by_what_a_person_says(world: World) -> None:
    @tool(kind="write", target="name", timeout=0.05)
    async def create(name: str) -> str:
        """Never answers in time."""
        import asyncio

        await asyncio.sleep(5)
        return "created"

    model = ScriptedModel(calls(("create", {"name": "n"})), calls(("create", {"name": "n"})), says("created"))
    agent = Agent("ops", model, [create])
    first = await agent.arun("create n", app=world.app)
    assert isinstance(first, Escalated)
    assert first.reason == "in-doubt"
    facts = await world.facts(first.run)
    assert len([fact for fact in facts if isinstance(fact, ToolStarted)]) == 1
    assert "check before repeating" in model.requests[1].history[-1].text
    final = await decide_and_resume(world, agent, first.run, Decision("happened"))
    assert isinstance(final, Completed)


async def test_a_call_written_as_text_goes_back_and_is_never_run(world: World) -> None:
    written = '```json\n{"name": "refund", "arguments": {"order": "81"}}\n```'
    outcome = await Agent("clerk", ScriptedModel(written), [world.refund]).arun("refund", app=world.app)
    assert isinstance(outcome, Partial)
    assert outcome.reason == "call-in-text"
    assert "```" not in outcome.answer, "a call written as text is no answer for a person"
    assert world.done == []


def test_facts_name_the_call() -> None:
    call = Call(1, 0, "x", "t", {})
    assert not call.approval
    assert RawCall("1", "t", "{}").cut is False
    assert EscalationAnswered("retry", "ana").digest == ""
    assert Reply("x").calls == ()


async def test_one_approval_is_for_one_call(world: World) -> None:
    done: list[dict[str, Any]] = []

    @tool(kind="write", approve=True, repeatable=True)
    def pay(eur: int) -> str:
        """Pay."""
        done.append({"eur": eur})
        return "paid"

    agent = Agent("bank", ScriptedModel(calls(("pay", {"eur": 9}))), [pay])
    run = (await agent.arun("pay", app=world.app)).run
    for times in (1, 2):
        outcome = await decide_and_resume(world, agent, run, Decision("approve"))
        assert isinstance(outcome, Escalated)
        assert outcome.reason == "approval"
        assert len(done) == times


async def test_waiting_for_a_person_does_not_use_up_the_run(world: World) -> None:
    done: list[dict[str, Any]] = []
    agent = Agent("bank", ScriptedModel(calls(("transfer", {"eur": 100, "to": "A"})), says("done")), [transfers(done)])
    run = (await agent.arun("pay", app=world.app)).run
    world.clock.move(3 * 86_400)
    await answer(world.app.store, world.clock, run, Decision("approve"), "ana")
    world.clock.move(86_400)
    outcome = await world.app.aresume(agent, run)
    assert isinstance(outcome, Completed)
    assert outcome.spend.seconds < 60


def test_a_decision_that_does_not_exist_is_refused_before_anything_is_written() -> None:
    with pytest.raises(Misuse, match="not-happened"):
        Decision("not_happened")  # type: ignore[arg-type]


async def test_nothing_in_doubt_cannot_have_happened(world: World) -> None:
    agent = Agent("clerk", ScriptedModel(AUTH), [world.refund])
    run = (await agent.arun("refund", app=world.app)).run
    with pytest.raises(Misuse, match="no act in doubt"):
        await answer(world.app.store, world.clock, run, Decision("happened"), "ana")
