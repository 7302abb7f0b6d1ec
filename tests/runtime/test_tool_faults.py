"""Errors of tools: repeated where that is harmless, told to the model where not, a person's where they must be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from capataz import (
    Agent,
    Answered,
    App,
    Budget,
    Completed,
    Decision,
    Escalated,
    Misuse,
    Outcome,
    Partial,
    Policy,
    ToolError,
    tool,
)
from capataz.events.facts import (
    Call,
    Event,
    Fact,
    RunStarted,
    ToolFailed,
    ToolFinished,
    ToolStarted,
    VerdictGiven,
    WaitStarted,
)
from capataz.kernel.commands import DrawWait, UseTool
from capataz.kernel.decide import decide
from capataz.kernel.evolve import fold
from capataz.policy.table import FaultTable, Override
from capataz.runtime.inbox import answer
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, ScriptedModel, calls, says
from tests.runtime.conftest import World

Raise = Callable[[int], BaseException | None]


def looking(raised: Raise, seen: list[int]) -> Any:
    """A reading tool; `raised` says what its n-th use raises."""

    @tool(kind="read")
    def look(order: str) -> str:
        """Look an order up."""
        seen.append(len(seen))
        if (error := raised(len(seen))) is not None:
            raise error
        return f"order {order} is paid"

    return look


def until(uses: int, error: BaseException) -> Raise:
    return lambda use: error if use < uses else None


LOOK = calls(("look", {"order": "81"}))


async def talk(world: World, look: Any, model: ScriptedModel | None = None, **settings: Any) -> Outcome:
    model = model or ScriptedModel(LOOK, says("It is paid."))
    return await Agent("clerk", model, [look], role="talking", **settings).arun("is 81 paid?", app=world.app)


async def test_a_look_that_fails_in_passing_is_repeated_before_the_model_sees_anything(world: World) -> None:
    seen: list[int] = []
    model = ScriptedModel(LOOK, says("It is paid."))
    outcome = await talk(world, looking(until(3, ConnectionResetError("reset")), seen), model)
    assert isinstance(outcome, Answered)
    assert len(seen) == 3
    assert model.requests[1].history[-1].text == "order 81 is paid"
    assert world.clock.slept == [0.5, 1.0]
    facts = await world.facts(outcome.run)
    assert [fact.attempt for fact in facts if isinstance(fact, ToolFailed)] == [0, 1]
    assert [fact.seconds for fact in facts if isinstance(fact, WaitStarted)] == [0.5, 1.0]
    assert len([fact for fact in facts if isinstance(fact, ToolStarted)]) == 3
    assert [fact.error for fact in facts if isinstance(fact, ToolFinished)] == [False]


async def test_what_goes_on_failing_is_told_to_the_model_after_the_tables_retries(world: World) -> None:
    seen: list[int] = []
    model = ScriptedModel(LOOK, says("I could not look it up."))
    outcome = await talk(world, looking(lambda _: ConnectionResetError("reset"), seen), model)
    assert isinstance(outcome, Answered)
    assert len(seen) == 4
    assert "reset" in model.requests[1].history[-1].text
    assert model.requests[1].history[-1].error


@pytest.mark.parametrize(
    "error", [ToolError("no such order"), PermissionError("no"), RuntimeError("odd"), TypeError("bug"), KeyError("81")]
)
async def test_nothing_else_is_repeated(world: World, error: BaseException) -> None:
    seen: list[int] = []
    await talk(world, looking(lambda _: error, seen))
    assert len(seen) == 1
    assert world.clock.slept == []


async def test_a_tool_that_asks_to_be_left_alone_is_left_alone(world: World) -> None:
    class Limited(Exception):
        status_code = 429
        headers = {"retry-after": "7"}  # noqa: RUF012 - as clients of HTTP write it

    seen: list[int] = []
    await talk(world, looking(until(2, Limited("slow down")), seen))
    assert len(seen) == 2
    assert world.clock.slept == [7.0]


async def test_there_is_no_wait_beyond_the_end_of_the_run(world: World) -> None:
    class Limited(Exception):
        status_code = 429
        headers = {"retry-after": "3600"}  # noqa: RUF012 - as clients of HTTP write it

    seen: list[int] = []
    outcome = await talk(world, looking(lambda _: Limited("later"), seen), budget=Budget(seconds=60))
    assert isinstance(outcome, Answered), "the model read the error and answered"
    assert (len(seen), world.clock.slept) == (1, [])


async def test_a_repeated_try_counts_as_a_call_and_stops_at_the_ceiling(world: World) -> None:
    seen: list[int] = []
    outcome = await talk(world, looking(lambda _: ConnectionResetError("x"), seen), budget=Budget(calls=2))
    assert len(seen) == 2
    assert outcome.spend.calls == 2


async def test_looks_side_by_side_share_one_wait(world: World) -> None:
    seen: list[int] = []
    model = ScriptedModel(calls(("look", {"order": "1"}), ("look", {"order": "2"})), says("Both are paid."))
    await talk(world, looking(lambda use: ConnectionResetError("x") if use <= 2 else None, seen), model)
    assert len(seen) == 4
    assert world.clock.slept == [0.5]
    assert [message.text for message in model.requests[1].history[-2:]] == ["order 1 is paid", "order 2 is paid"]


async def test_the_policy_can_forbid_it_and_can_ask_for_more(world: World) -> None:
    seen: list[int] = []
    none = Policy(FaultTable(tools={"*": {"transient": Override(retries=0)}}))
    await talk(world, looking(lambda _: ConnectionResetError("x"), seen), policy=none)
    assert len(seen) == 1
    odd = Policy(FaultTable(tools={"look": {"unknown": Override(retries=2)}}))
    await talk(world, looking(lambda _: RuntimeError("x"), seen), policy=odd)
    assert len(seen) == 4


def paying(world: World, error: Raise, *, idempotent: bool, keys: list[str], confirmed: bool = True) -> Any:
    from capataz import ToolContext

    def is_paid(order: str, **_: Any) -> bool:
        return ("pay", order) in world.done

    @tool(kind="write", target="order", idempotent=idempotent, confirm=is_paid if confirmed else None)
    def pay(order: str, context: ToolContext) -> str:
        """Pay an order."""
        keys.append(context.idempotency_key)
        if (raised := error(len(keys))) is not None:
            raise raised
        world.done.append(("pay", order))
        return "paid"

    return pay


PAY = calls(("pay", {"order": "81"}))


@pytest.mark.parametrize("error", [ConnectionResetError("lost"), ConnectionRefusedError("down"), TimeoutError("late")])
async def test_an_idempotent_act_is_repeated_with_its_key_and_no_other_act_is(world: World, error: Any) -> None:
    keys: list[str] = []
    again = paying(world, until(3, error), idempotent=True, keys=keys)
    outcome = await Agent("clerk", ScriptedModel(PAY, says("Paid.")), [again]).arun("pay 81", app=world.app)
    assert isinstance(outcome, Completed)
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert world.done == [("pay", "81")]
    keys.clear()
    world.done.clear()
    once = paying(world, until(3, error), idempotent=False, keys=keys)
    await Agent("clerk", ScriptedModel(PAY, says("Paid.")), [once]).arun("pay 81", app=world.app)
    assert len(keys) == 1


async def test_a_hung_look_is_repeated_once_and_no_more(world: World) -> None:
    seen: list[int] = []

    @tool(kind="read", timeout=0.02)
    async def look(order: str) -> str:
        """Never comes back."""
        seen.append(1)
        await asyncio.sleep(5)
        return order

    await talk(world, look)
    assert len(seen) == 2


async def test_an_exception_of_ones_own_is_in_the_row_one_says(world: World) -> None:
    class ShopClosed(Exception):
        pass

    seen: list[int] = []
    agent = Agent("clerk", ScriptedModel(LOOK, says("ok")), [looking(until(2, ShopClosed()), seen)], role="talking")
    async with App(MemoryStore(), clock=world.clock, chance=FakeChance(), faults={ShopClosed: "transient"}) as app:
        await agent.arun("is 81 paid?", app=app)
    assert len(seen) == 2
    with pytest.raises(Misuse, match="no row 'odd'"):
        App("memory:", faults={ShopClosed: "odd"})  # type: ignore[dict-item]


# ── what needs a person ──────────────────────────────────────────────────────────────────────────────────


async def test_an_act_one_has_no_right_to_ends_with_a_person_who_can_mend_it(world: World) -> None:
    keys: list[str] = []
    allowed: list[bool] = []
    pay = paying(world, lambda _: None if allowed else PermissionError("not yours"), idempotent=False, keys=keys)
    model = ScriptedModel(PAY, says("I may not pay it."), calls(("pay", {"order": "81"})), says("Paid."))
    agent = Agent("clerk", model, [pay])
    first = await agent.arun("pay 81", app=world.app)
    assert isinstance(first, Escalated)
    assert first.reason == "auth"
    assert "not yours" in first.detail
    assert "not yours" in model.requests[1].history[-1].text, "the model has read it first"
    assert len(keys) == 1
    allowed.append(True)
    await answer(world.app.store, world.clock, first.run, Decision("retry"), "ana")
    final = await world.app.aresume(agent, first.run)
    assert isinstance(final, Completed)
    assert "may be used again" in model.requests[2].history[-1].text


async def test_a_model_that_finds_another_way_needs_nobody(world: World) -> None:
    barred = looking(lambda _: PermissionError("no"), [])
    model = ScriptedModel(LOOK, calls(("refund", {"order": "81"})), says("Refunded."))
    outcome = await Agent("clerk", model, [barred, world.refund]).arun("refund 81", app=world.app)
    assert isinstance(outcome, Completed)


async def test_a_look_one_has_no_right_to_is_not_a_reason_to_do_nothing(world: World) -> None:
    barred = looking(lambda _: PermissionError("no"), [])
    agent = Agent("clerk", ScriptedModel(LOOK, says("I cannot see it.")), [barred, world.refund])
    first = await agent.arun("refund 81", app=world.app)
    assert isinstance(first, Escalated)
    assert first.reason == "auth"


async def test_words_of_a_person_let_the_model_end_it(world: World) -> None:
    barred = looking(lambda _: PermissionError("no"), [])
    agent = Agent("clerk", ScriptedModel(LOOK, says("I cannot."), says("It stays as it is.")), [barred, world.refund])
    first = await agent.arun("refund 81", app=world.app)
    await answer(world.app.store, world.clock, first.run, Decision("answer", "Leave it, tell the customer."), "ana")
    final = await world.app.aresume(agent, first.run)
    assert isinstance(final, Answered)
    assert final.no_action


async def test_try_again_ends_even_if_nothing_has_changed(world: World) -> None:
    keys: list[str] = []
    pay = paying(world, lambda _: PermissionError("no"), idempotent=False, keys=keys)
    agent = Agent("clerk", ScriptedModel(PAY, says("I may not.")), [pay])
    first = await agent.arun("pay 81", app=world.app)
    await answer(world.app.store, world.clock, first.run, Decision("retry"), "ana")
    final = await world.app.aresume(agent, first.run)
    assert isinstance(final, Partial)
    assert final.reason == "barred"
    verdicts = [fact for fact in await world.facts(first.run) if isinstance(fact, VerdictGiven)]
    assert verdicts[-1].action == "stop"


async def test_a_supervisor_is_asked_where_the_policy_says_so(world: World) -> None:
    policy = Policy(FaultTable(tools={"pay": {"auth": Override(terminal="supervisor")}}))
    pay = paying(world, lambda _: PermissionError("no"), idempotent=False, keys=[])
    asked: list[str] = []

    def boss(escalation: Any) -> Decision:
        asked.append(escalation.reason)
        return Decision("abort", "not today")

    model = ScriptedModel(PAY, says("I may not."))
    outcome = await Agent("clerk", model, [pay], policy=policy, supervisor=boss).arun("pay 81", app=world.app)
    assert (outcome.name, asked) == ("aborted", ["auth"])


# ── after a crash ────────────────────────────────────────────────────────────────────────────────────────


async def test_tries_are_counted_across_a_crash(world: World) -> None:
    seen: list[int] = []
    look = looking(lambda _: ConnectionResetError("x"), seen)
    agent = Agent("clerk", ScriptedModel(LOOK, says("no")), [look], role="talking")
    outcome = await agent.arun("is 81 paid?", app=world.app)
    events = await world.events(outcome.run)
    cut = next(event.seq for event in events if isinstance(event.fact, ToolFailed) and event.fact.attempt == 1)
    seen.clear()
    facts = await resumed(world, agent, events[: cut + 1])
    assert len(seen) == 2, "two of the four tries were made before"
    assert [fact.attempt for fact in facts if isinstance(fact, ToolFailed)] == [0, 1, 2]


async def resumed(world: World, agent: Agent, events: list[Event]) -> list[Any]:
    async with App(MemoryStore(), clock=world.clock, chance=world.app.yard().around.chance) as app:
        lease = await app.store.claim("run-x", "dead")
        await app.store.append(lease, 0, events)
        await app.aresume(agent, "run-x")
        return [event.fact for event in await app.store.read("run-x")]


def test_the_kernel_decides_it_and_needs_no_runtime(world: World) -> None:
    from capataz.events.facts import Fault, ModelCallStarted, ModelReplied, ToolFacts, WaitEnded
    from capataz.guards.watch import Watch
    from capataz.kernel.state import Rules
    from capataz.testing.scripted import given

    call = Call(1, 0, "c", "look", {}, "read")
    fault = Fault("transient", "connection", "reset", origin="tool")
    facts: list[Fact] = [
        RunStarted("r", "a", "t", role="talking", tools=(ToolFacts("look", "read"),)),
        ModelCallStarted(1, 0, "m"),
        ModelReplied(1, 0, "", (call,)),
        ToolStarted(1, 0, "look"),
        ToolFailed(call, 0, fault, {"error": "reset"}),
    ]
    rules = Rules(Policy(), Watch(()))
    [wait] = decide(fold(rules, given(*facts)))
    assert isinstance(wait, DrawWait)
    [use] = decide(fold(rules, given(*facts, WaitStarted(0.5, "connection", 1), WaitEnded(1))))
    assert isinstance(use, UseTool)
