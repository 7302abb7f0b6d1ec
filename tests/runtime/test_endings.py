"""How runs end: honestly, in one of five ways, whatever the model says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from capataz import Aborted, Agent, Answered, Budget, Completed, Escalated, Outcome, Partial
from capataz.events.facts import (
    CeilingReached,
    Fault,
    ModelCallStarted,
    ToolFinished,
    ToolRefused,
    Usage,
    VerdictGiven,
    WaitStarted,
)
from capataz.ports import RawCall, Reply
from capataz.testing.scripted import ScriptedModel, calls, says
from capataz.tools.define import tool
from tests.runtime.conftest import World


async def run(world: World, model: ScriptedModel, tools: Sequence[Any], **settings: Any) -> Outcome:
    agent = Agent("clerk", model, tools=tools, **settings)
    return await agent.arun("Refund order 81", app=world.app)


async def test_a_confirmed_act_and_a_claim_complete_the_run(world: World) -> None:
    model = ScriptedModel(calls(("refund", {"order": "81"})), says("Refunded."))
    outcome = await run(world, model, [world.refund])
    assert isinstance(outcome, Completed)
    assert outcome.answer == "Refunded."
    assert [proof.name for proof in outcome.evidence] == ["refund(81)"]
    assert world.done == [("refund", "81")]


async def test_a_claim_without_any_call_goes_back_and_then_ends_partial(world: World) -> None:
    outcome = await run(world, ScriptedModel("It is done!"), [world.refund])
    assert isinstance(outcome, Partial)
    assert outcome.reason == "narration"
    assert outcome.answer == "It is done!"
    facts = await world.facts(outcome.run)
    assert [f.action for f in facts if isinstance(f, VerdictGiven)] == ["fail-turn", "fail-turn", "stop"]


async def test_a_narrator_that_hears_the_note_can_still_do_its_work(world: World) -> None:
    model = ScriptedModel("I will refund it.", calls(("refund", {"order": "81"})), says("Done."))
    outcome = await run(world, model, [world.refund])
    assert isinstance(outcome, Completed)
    assert "not used any tool" in model.requests[1].history[-1].text


async def test_success_reported_by_a_tool_but_denied_by_its_read_back_is_never_completed(world: World) -> None:
    world.lying = True
    model = ScriptedModel(calls(("refund", {"order": "81"})), says("Refunded!"))
    outcome = await run(world, model, [world.refund])
    assert isinstance(outcome, Partial)
    assert outcome.reason == "false-done"
    assert any("refund(81)" in lacking for lacking in outcome.missing)
    assert "did NOT take effect" in model.requests[1].history[-1].text


async def test_a_failed_act_followed_by_a_claim_is_never_completed(world: World) -> None:
    world.broken = True
    model = ScriptedModel(calls(("refund", {"order": "81"})), says("All refunded."))
    outcome = await run(world, model, [world.refund])
    assert isinstance(outcome, Partial)
    assert not outcome.evidence


async def test_a_failed_act_that_is_made_good_completes(world: World) -> None:
    world.broken = True

    def repaired(_: object) -> Reply:
        world.broken = False
        return calls(("refund", {"order": "81", "cents": 200}))

    model = ScriptedModel(calls(("refund", {"order": "81"})), repaired, says("Done."))
    outcome = await run(world, model, [world.refund])
    assert isinstance(outcome, Completed)


async def test_looking_and_declining_is_answered_without_action(world: World) -> None:
    model = ScriptedModel(calls(("look", {"order": "81"})), says("It was refunded long ago."))
    outcome = await run(world, model, [world.look, world.refund])
    assert isinstance(outcome, Answered)
    assert outcome.no_action


async def test_an_act_nobody_can_confirm_is_partial_not_completed(world: World) -> None:
    @tool(kind="write", target="order")
    def mark(order: str) -> str:
        return "ok"

    outcome = await run(world, ScriptedModel(calls(("mark", {"order": "81"})), says("Marked.")), [mark])
    assert isinstance(outcome, Partial)
    assert outcome.reason == "unconfirmed"


async def test_the_same_effect_twice_is_refused_before_it_happens(world: World) -> None:
    again = calls(("refund", {"order": "81", "cents": 100.0}))
    model = ScriptedModel(calls(("refund", {"order": "81", "cents": 100})), again, says("Done."))
    outcome = await run(world, model, [world.refund])
    assert isinstance(outcome, Completed)
    assert world.done == [("refund", "81")]
    refusals = [fact for fact in await world.facts(outcome.run) if isinstance(fact, ToolRefused)]
    assert [refusal.reason for refusal in refusals] == ["ledger"]


async def test_identical_acts_in_one_batch_happen_once(world: World) -> None:
    model = ScriptedModel(calls(("refund", {"order": "81"}), ("refund", {"order": "81"})), says("Done."))
    outcome = await run(world, model, [world.refund])
    assert isinstance(outcome, Completed)
    assert world.done == [("refund", "81")]


async def test_done_when_closes_the_run_while_the_model_goes_on(world: World) -> None:
    model = ScriptedModel(calls(("refund", {"order": "81"})), says("Your refund is on its way."))

    def refunded() -> bool:
        return ("refund", "81") in world.done

    outcome = await run(world, model, [world.refund], done_when=[refunded])
    assert isinstance(outcome, Completed)
    assert {proof.what for proof in outcome.evidence} == {"effect", "check"}
    assert model.requests[-1].tool_choice == "none", "the last words are asked for without tools"


async def test_an_unmet_check_goes_back_with_its_reason_and_ends_partial(world: World) -> None:
    def mailed() -> tuple[bool, str]:
        return False, "no message to the customer"

    model = ScriptedModel(calls(("refund", {"order": "81"})), says("Everything is done."))
    outcome = await run(world, model, [world.refund], done_when=[mailed])
    assert isinstance(outcome, Partial)
    assert outcome.missing == ("mailed: no message to the customer",)
    assert "no message to the customer" in model.requests[2].history[-1].text


@pytest.mark.parametrize("role", ["talking", "coordinating"])
async def test_roles_that_talk_can_only_answer(world: World, role: Any) -> None:
    outcome = await run(world, ScriptedModel("Order 81 is on its way."), [world.look], role=role)
    assert isinstance(outcome, Answered)
    assert not outcome.no_action


async def test_an_empty_closing_turn_does_not_swallow_the_answer_given_before(world: World) -> None:
    report = calls(("look", {"order": "2"}), text="Cause: disk full on node 7")
    model = ScriptedModel(calls(("look", {"order": "1"})), report, says(""))
    outcome = await run(world, model, [world.look], role="talking")
    assert isinstance(outcome, Answered)
    assert outcome.answer == "Cause: disk full on node 7"


async def test_thinking_without_words_is_an_empty_turn(world: World) -> None:
    thinks = Reply("", thinking="hm", usage=Usage(10, 5))
    outcome = await run(world, ScriptedModel(thinks), [world.look], role="talking")
    assert isinstance(outcome, Partial)
    assert outcome.reason == "empty-answer"
    assert outcome.answer


@pytest.mark.parametrize(
    ("budget", "ceiling"),
    [
        (Budget(turns=3), "turns"),
        (Budget(calls=4), "calls"),
        (Budget(tokens=6000), "tokens"),
        (Budget(seconds=30.0), "seconds"),
    ],
)
async def test_every_ceiling_ends_partial_with_something_to_show(world: World, budget: Budget, ceiling: str) -> None:
    def busy(_: object) -> Reply:
        world.clock.move(4.0)
        return calls(("look", {"order": str(len(model.requests))}), usage=Usage(500, 100))

    def closing(request: Any) -> Reply:
        return says("So far: nothing.") if request.tool_choice == "none" else busy(request)

    model = ScriptedModel(closing)
    outcome = await run(world, model, [world.look], budget=budget)
    assert isinstance(outcome, Partial)
    assert outcome.reason == f"ceiling-{ceiling}"
    assert outcome.answer == "So far: nothing."
    assert outcome.warnings
    limits = budget.ceilings()
    assert limits.tokens is None or outcome.spend.tokens <= limits.tokens
    assert limits.calls is None or outcome.spend.calls <= limits.calls
    assert any(isinstance(fact, CeilingReached) for fact in await world.facts(outcome.run))


async def test_a_closing_call_that_fails_still_leaves_an_answer_put_together_and_marked(world: World) -> None:
    def step(request: Any) -> Reply | Fault:
        if request.tool_choice == "none":
            return Fault("transient", "server-error", "down")
        return calls(("look", {"order": str(len(model.requests))}))

    model = ScriptedModel(step)
    outcome = await run(world, model, [world.look], budget=Budget(turns=2))
    assert isinstance(outcome, Partial)
    assert outcome.answer.startswith("[put together from the last results]")
    assert "look" in outcome.answer


async def test_a_transient_fault_is_tried_again_and_succeeds(world: World) -> None:
    down = Fault("transient", "server-error", "500")
    model = ScriptedModel(down, down, calls(("refund", {"order": "81"})), says("Done."))
    outcome = await run(world, model, [world.refund])
    assert isinstance(outcome, Completed)
    waits = [fact.seconds for fact in await world.facts(outcome.run) if isinstance(fact, WaitStarted)]
    assert waits == [0.5, 1.0]
    assert world.done == [("refund", "81")]


@pytest.mark.parametrize(
    ("row", "tries", "ending"),
    [
        ("transient", 4, Escalated),
        ("rate_limit", 6, Escalated),
        ("invalid_input", 1, Aborted),
        ("auth", 1, Escalated),
        ("contract", 2, Aborted),
        ("unknown", 3, Escalated),
    ],
)
async def test_each_row_is_tried_as_often_as_the_table_says_and_ends_as_it_says(
    world: World, row: Any, tries: int, ending: type
) -> None:
    model = ScriptedModel(Fault(row, "x", "no"))
    outcome = await run(world, model, [world.refund])
    assert isinstance(outcome, ending)
    assert len(model.requests) == tries
    starts = [fact for fact in await world.facts(outcome.run) if isinstance(fact, ModelCallStarted)]
    assert [start.attempt for start in starts] == list(range(tries))


async def test_a_wait_longer_than_the_run_is_not_begun(world: World) -> None:
    model = ScriptedModel(Fault("rate_limit", "x", "later", wait=3600.0))
    outcome = await run(world, model, [world.refund], budget=Budget(seconds=60.0))
    assert isinstance(outcome, Partial)
    assert outcome.reason == "ceiling-seconds"
    assert world.clock.slept == []


async def test_retrying_a_turn_never_repeats_a_call_that_succeeded(world: World) -> None:
    late = Fault("transient", "server-error", "500")
    model = ScriptedModel(calls(("refund", {"order": "81"})), late, late, says("Done."))
    assert isinstance(await run(world, model, [world.refund]), Completed)
    assert world.done == [("refund", "81")]


async def test_a_refusal_of_the_model_is_terminal_and_not_success(world: World) -> None:
    refuses = Reply("I cannot help with that.", stop="refusal", usage=Usage(10, 5))
    outcome = await run(world, ScriptedModel(refuses), [world.refund])
    assert isinstance(outcome, Aborted)
    assert outcome.reason == "refused"


async def test_wrong_and_unknown_calls_come_back_as_errors_and_the_run_goes_on(world: World) -> None:
    model = ScriptedModel(
        calls(("refnd", {"order": "81"})),
        calls(("refund", {"cents": 5})),
        Reply("", (RawCall("1", "refund", '{"order": "81"', cut=True),), "length", Usage(10, 5)),
        calls(("refund", {"order": "81"})),
        says("Done."),
    )
    outcome = await run(world, model, [world.refund])
    assert isinstance(outcome, Completed)
    refusals = [fact.reason for fact in await world.facts(outcome.run) if isinstance(fact, ToolRefused)]
    assert refusals == ["unknown-tool", "invalid-arguments", "truncated"]
    assert '"error"' in model.requests[1].history[-1].text


async def test_an_act_that_fails_stops_the_acts_behind_it(world: World) -> None:
    world.broken = True
    model = ScriptedModel(calls(("refund", {"order": "1"}), ("refund", {"order": "2"})), says("Could not."))
    outcome = await run(world, model, [world.refund])
    facts = await world.facts(outcome.run)
    assert [fact.reason for fact in facts if isinstance(fact, ToolRefused)] == ["not-run"]
    assert len([fact for fact in facts if isinstance(fact, ToolFinished)]) == 1


async def test_results_of_parallel_reads_are_shown_in_the_order_of_the_calls(world: World) -> None:
    import asyncio

    @tool(kind="read")
    async def slow(n: int) -> int:
        """Answers later the smaller n is."""
        await asyncio.sleep(0.03 - n / 100)
        return n

    model = ScriptedModel(calls(("slow", {"n": 0}), ("slow", {"n": 1}), ("slow", {"n": 2})), says("0 1 2"))
    await run(world, model, [slow], role="talking")
    assert [message.text for message in model.requests[1].history if message.role == "tool"] == ["0", "1", "2"]
