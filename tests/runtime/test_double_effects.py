"""The same effect never twice: not after a time-out, not in other words, not on a read-back that lags."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from capataz import Agent, Answered, Budget, Completed, Escalated, Partial, tool
from capataz.events.facts import ToolRefused, ToolStarted
from capataz.testing.scripted import ScriptedModel, calls, says
from tests.runtime.conftest import World

PAY = calls(("pay", {"order": "81"}))


async def test_an_act_that_takes_effect_after_its_time_out_is_not_made_again(world: World) -> None:
    paid: list[str] = []
    begun: list[asyncio.Task[None]] = []

    async def later(order: str) -> None:
        await asyncio.sleep(0.1)
        paid.append(order)

    @tool(kind="write", target="order", timeout=0.03, confirm=lambda order: order in paid)
    async def pay(order: str) -> str:
        """A server that goes on after we have hung up."""
        begun.append(asyncio.create_task(later(order)))
        await begun[-1]
        return "paid"

    outcome = await Agent("a", ScriptedModel(PAY, PAY, PAY, says("Paid.")), [pay]).arun("t", app=world.app)
    await asyncio.wait(begun)
    assert len(begun) == 1
    assert isinstance(outcome, Escalated)
    assert outcome.reason == "in-doubt"


async def test_a_declared_settle_time_makes_the_no_final_and_the_act_may_be_made_again(world: World) -> None:
    tries: list[str] = []

    @tool(kind="write", target="order", timeout=0.03, settle=5.0, confirm=lambda order: len(tries) > 1)
    async def pay(order: str) -> str:
        """Hangs the first time, and then nothing has happened."""
        tries.append(order)
        await asyncio.sleep(5 if len(tries) == 1 else 0)
        return "paid"

    outcome = await Agent("a", ScriptedModel(PAY, PAY, says("Paid.")), [pay]).arun("t", app=world.app)
    assert isinstance(outcome, Completed)
    assert len(tries) == 2
    assert sum(world.clock.slept) >= 4.9


async def test_what_the_read_back_says_is_there_already_is_not_made_again_in_other_words(world: World) -> None:
    paid: list[str] = []

    @tool(kind="write", target="order", confirm=lambda order, **_: order.strip() in paid)
    def pay(order: str, note: str = "") -> str:
        """Pay."""
        paid.append(order.strip())
        return "paid"

    steps = [calls(("pay", {"order": f"{'81' if n % 2 else ' 81'}", "note": str(n)})) for n in range(6)]
    outcome = await Agent("a", ScriptedModel(*steps, says("Paid.")), [pay]).arun("t", app=world.app)
    assert isinstance(outcome, (Completed, Partial))
    assert paid == ["81"]
    refused = [fact.message for fact in await world.facts(outcome.run) if isinstance(fact, ToolRefused)]
    assert "already so" in refused[0]


async def test_a_second_run_of_the_same_task_finds_it_done_and_does_nothing(world: World) -> None:
    for ending in (Completed, Answered):
        model = ScriptedModel(calls(("refund", {"order": "81"})), says("It is refunded."))
        outcome = await Agent("a", model, [world.refund]).arun("refund 81", app=world.app)
        assert isinstance(outcome, ending)
    assert world.done == [("refund", "81")]


async def test_a_repeatable_tool_may_act_again(world: World) -> None:
    done: list[str] = []

    @tool(kind="write", target="order", repeatable=True, confirm=lambda order, result: result == "paid")
    def pay(order: str) -> str:
        """Pay."""
        done.append(order)
        return "paid"

    await Agent("a", ScriptedModel(PAY, PAY, says("Paid.")), [pay]).arun("t", app=world.app)
    assert done == ["81", "81"]


async def test_identical_writes_without_a_target_are_one_effect(world: World) -> None:
    done: list[str] = []

    @tool(kind="write", confirm=lambda order, result: result == "paid")
    def pay(order: str) -> str:
        """Pay."""
        done.append(order)
        return "paid"

    outcome = await Agent("a", ScriptedModel(PAY, PAY, says("Paid.")), [pay]).arun("t", app=world.app)
    assert isinstance(outcome, Completed)
    assert done == ["81"]


async def test_a_yes_after_an_act_whose_before_was_unknown_proves_nothing(world: World) -> None:
    asked: list[str] = []

    def confirm(order: str) -> bool:
        asked.append(order)
        if len(asked) == 1:
            raise ConnectionError("blip")
        return True

    @tool(kind="write", target="order", confirm=confirm)
    def pay(order: str) -> str:
        """Does nothing: it was paid last week."""
        return "paid"

    outcome = await Agent("a", ScriptedModel(PAY, says("Paid.")), [pay]).arun("t", app=world.app)
    assert isinstance(outcome, Partial)
    assert outcome.reason == "unconfirmed"


async def test_a_completed_run_says_what_is_in_doubt(world: World) -> None:
    @tool(kind="write", target="order")
    def pay(order: str) -> str:
        """Breaks in the middle."""
        raise ConnectionResetError("mid-act")

    agent = Agent("a", ScriptedModel(PAY, says("Paid.")), [pay], done_when=[lambda: True])
    outcome = await agent.arun("t", app=world.app)
    assert isinstance(outcome, Completed)
    assert any("pay(81)" in warning for warning in outcome.warnings)


async def test_arguments_a_person_corrected_wrongly_were_never_in_doubt(world: World) -> None:
    from capataz import Decision
    from capataz.runtime.inbox import answer

    @tool(kind="write", target="order", approve=True, confirm=lambda order: False)
    def pay(order: str) -> str:
        """Pay."""
        return "paid"

    agent = Agent("a", ScriptedModel(PAY, says("Could not.")), [pay])
    run = (await agent.arun("t", app=world.app)).run
    await answer(world.app.store, world.clock, run, Decision("correct", arguments={"zzz": 1}), "ana")
    outcome = await world.app.aresume(agent, run)
    assert isinstance(outcome, Partial)
    assert outcome.reason == "false-done"


@pytest.mark.parametrize("slow", ["confirm", "check", "settle"])
async def test_the_ceiling_of_seconds_holds_for_questions_too(slow: str) -> None:
    from time import monotonic

    from capataz import App

    async def hang(**_: Any) -> bool:
        await asyncio.sleep(30 if slow == "confirm" else 0)
        return slow != "settle"

    @tool(kind="write", target="order", settle=60.0 if slow == "settle" else 0.0, confirm=hang)
    def pay(order: str) -> str:
        """Pay."""
        return "paid"

    async def check() -> bool:
        await asyncio.sleep(30 if slow == "check" else 0)
        return False

    started = monotonic()
    async with App("memory:") as app:
        agent = Agent("a", ScriptedModel(PAY, says("x")), [pay], budget=Budget(seconds=1.0), done_when=[check])
        outcome = await agent.arun("t", app=app)
    assert monotonic() - started < 6
    assert not isinstance(outcome, Completed)


async def test_in_a_batch_the_same_act_is_begun_once(world: World) -> None:
    model = ScriptedModel(calls(("refund", {"order": "81"}), ("refund", {"order": "81"})), says("Done."))
    outcome = await Agent("a", model, [world.refund]).arun("t", app=world.app)
    assert len([fact for fact in await world.facts(outcome.run) if isinstance(fact, ToolStarted)]) == 1


class Broken:
    """A guard of somebody's own with a mistake in it."""

    name = "broken"

    def __init__(self, gives: Any = None) -> None:
        self.gives = gives

    def start(self) -> int:
        return 0

    def step(self, state: int, event: Any) -> Any:
        if self.gives is None:
            raise ZeroDivisionError("a mistake")
        return self.gives


@pytest.mark.parametrize("gives", [None, 5, (0, "no signal")])
async def test_a_mistake_in_ones_own_guard_ends_the_guard_and_not_the_run(world: World, gives: Any) -> None:
    from capataz.events.facts import VerdictGiven

    model = ScriptedModel(calls(("refund", {"order": "81"})), says("Refunded."))
    outcome = await Agent("a", model, [world.refund], guards=[Broken(gives)]).arun("t", app=world.app)
    assert isinstance(outcome, Completed)
    told = [fact for fact in await world.facts(outcome.run) if isinstance(fact, VerdictGiven)]
    assert [verdict.kind for verdict in told] == ["guard-failed"]


async def test_a_mistake_in_a_validator_of_the_answer_is_a_wrong_answer(world: World) -> None:
    from pydantic import BaseModel, field_validator

    class Priced(BaseModel):
        cents: int

        @field_validator("cents")
        @classmethod
        def divide(cls, value: int) -> int:
            return 1 // 0

    outcome = await Agent("a", ScriptedModel('{"cents": 1}'), role="talking", answer=Priced).arun("t", app=world.app)
    assert outcome.name == "aborted"
    assert outcome.reason == "contract"


async def test_half_a_character_in_the_task_is_no_reason_to_fail(world: World) -> None:
    agent = Agent("a", ScriptedModel("ok"), role="talking", instructions="be \udcff kind")
    assert isinstance(await agent.arun("hello \udcff", app=world.app), Answered)


async def test_a_text_that_nests_without_end_is_only_a_text(world: World) -> None:
    @tool(kind="read")
    def look(q: str) -> str:
        return "[" * 1_000 + "]" * 1_000

    model = ScriptedModel(calls(("look", {"q": "x"})), calls(("look", {"q": "x"})), says("Nothing to see."))
    outcome = await Agent("a", model, tools=[look], role="talking").arun("Look.", app=world.app)
    assert isinstance(outcome, Answered)


@pytest.mark.parametrize("usage", [(-1_000_000, 0), (0, 0), (10**30, 5), (5, -1)])
async def test_usage_that_cannot_be_true_is_estimated(world: World, usage: tuple[int, int]) -> None:
    from capataz.events.facts import Usage
    from capataz.ports import Reply

    model = ScriptedModel(Reply("some words of an answer", usage=Usage(*usage)))
    outcome = await Agent("a", model, role="talking").arun("t", app=world.app)
    assert 0 < outcome.spend.tokens < 10_000
