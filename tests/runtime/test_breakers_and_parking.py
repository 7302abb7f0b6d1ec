"""What fails in a burst is left alone, by every run of the App; what has to wait long gives its slot back."""

from __future__ import annotations

from typing import Any

import pytest

from capataz import Agent, Answered, App, Escalated, Outcome, Policy, tool
from capataz.events.facts import (
    BreakerClosed,
    BreakerOpened,
    CapabilityLearned,
    Fault,
    ModelCallFailed,
    RunResumed,
    ToolFinished,
    WaitEnded,
    WaitStarted,
)
from capataz.policy.breaker import BreakerRule
from capataz.runtime.launch import Parked, advance
from capataz.runtime.yard import Task
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says
from tests.runtime.conftest import World

DOWN = Fault("transient", "server-error", "the provider is down", 503)
QUICK = Policy(breaker=BreakerRule(failures=3, within=60.0, rest=30.0))


def faults(facts: list[Any]) -> list[str]:
    return [fact.fault.reason for fact in facts if isinstance(fact, ModelCallFailed)]


async def test_a_burst_opens_the_breaker_of_the_provider_and_says_so(world: World) -> None:
    model = ScriptedModel(DOWN, DOWN, DOWN, says("hello"))
    agent = Agent("clerk", model, role="talking", policy=QUICK)
    outcome = await agent.arun("hi", app=world.app)
    assert isinstance(outcome, Escalated), "the one try left came too early"
    assert len(model.requests) == 3
    assert "left alone for another" in outcome.detail
    facts = await world.facts(outcome.run)
    [opened] = [fact for fact in facts if isinstance(fact, BreakerOpened)]
    assert (opened.of, opened.name, opened.failures, opened.seconds) == ("provider", "ScriptedModel", 3, 30.0)
    assert faults(facts) == ["server-error", "server-error", "server-error", "breaker-open"]


async def test_other_runs_wait_for_it_and_the_one_that_tries_closes_it(world: World) -> None:
    model = ScriptedModel(DOWN, DOWN, DOWN, says("hello"))
    agent = Agent("clerk", model, role="talking", policy=QUICK)
    await agent.arun("hi", app=world.app)
    world.clock.slept.clear()
    outcome = await agent.arun("hi", app=world.app)
    assert isinstance(outcome, Answered)
    facts = await world.facts(outcome.run)
    assert faults(facts) == ["breaker-open"]
    assert [fact.name for fact in facts if isinstance(fact, BreakerClosed)] == ["ScriptedModel"]
    assert len(world.clock.slept) == 1
    assert 25 < world.clock.slept[0] <= 30
    assert len(model.requests) == 4


async def test_each_provider_and_each_app_has_a_breaker_of_its_own(world: World) -> None:
    down = Agent("clerk", ScriptedModel(DOWN), role="talking", policy=QUICK)
    await down.arun("hi", app=world.app)
    well = ScriptedModel(says("hello"))
    assert isinstance(await Agent("clerk", well, role="talking", policy=QUICK).arun("hi", app=world.app), Answered)
    async with App(MemoryStore(), clock=FakeClock(), chance=FakeChance()) as other:
        outcome = await down.arun("hi", app=other)
        assert faults([event.fact for event in await other.store.read(outcome.run)])[0] == "server-error"


@pytest.mark.parametrize("row", ["auth", "invalid_input", "contract", "unknown"])
async def test_only_what_passes_opens_it(world: World, row: Any) -> None:
    model = ScriptedModel(Fault(row, "x", "no"))
    for _ in range(5):
        outcome = await Agent("clerk", model, role="talking", policy=QUICK).arun("hi", app=world.app)
        assert "breaker-open" not in faults(await world.facts(outcome.run))


async def test_one_run_alone_never_opens_the_default_one(world: World) -> None:
    model = ScriptedModel(Fault("rate_limit", "rate-limit", "slow down", 429))
    outcome = await Agent("clerk", model, role="talking").arun("hi", app=world.app)
    assert len(model.requests) == 6
    assert not [fact for fact in await world.facts(outcome.run) if isinstance(fact, BreakerOpened)]


async def test_the_policy_names_the_numbers_of_one_provider(world: World) -> None:
    policy = Policy(provider_breakers={"ScriptedModel": BreakerRule(failures=2, rest=5.0)})
    outcome = await Agent("clerk", ScriptedModel(DOWN), role="talking", policy=policy).arun("hi", app=world.app)
    [opened, *_] = [fact for fact in await world.facts(outcome.run) if isinstance(fact, BreakerOpened)]
    assert (opened.failures, opened.seconds) == (2, 5.0)


LOOK = calls(("look", {"order": "81"}))


async def look_with(world: World, look: Any, model: ScriptedModel | None = None) -> Outcome:
    agent = Agent("clerk", model or ScriptedModel(LOOK, says("no idea")), [look], role="talking", policy=QUICK)
    return await agent.arun("is 81 paid?", app=world.app)


async def test_the_breaker_of_a_tool_opens_closes_and_the_model_reads_of_it(world: World) -> None:
    seen: list[int] = []

    @tool(kind="read")
    def look(order: str) -> str:
        """Look an order up."""
        seen.append(1)
        if len(seen) <= 3:
            raise ConnectionResetError("reset")
        return f"order {order} is paid"

    model = ScriptedModel(LOOK, says("no idea"))
    first = await look_with(world, look, model)
    assert len(seen) == 3
    facts = await world.facts(first.run)
    assert [fact.name for fact in facts if isinstance(fact, BreakerOpened)] == ["look"]
    read = model.requests[1].history[-1]
    assert "left alone" in read.text
    assert read.error
    [finished] = [fact for fact in facts if isinstance(fact, ToolFinished)]
    assert finished.fault is not None
    assert finished.fault.reason == "breaker-open"
    await look_with(world, look)
    assert len(seen) == 3, "another run of this App does not try either"
    world.clock.move(30.0)
    last = await look_with(world, look)
    assert len(seen) == 4
    assert [fact.name for fact in await world.facts(last.run) if isinstance(fact, BreakerClosed)] == ["look"]


async def test_an_act_held_back_is_a_failed_act(world: World) -> None:
    used: list[int] = []

    @tool(kind="write", target="order", confirm=lambda order: False)
    def pay(order: str) -> str:
        """Pay an order."""
        used.append(1)
        raise ConnectionRefusedError("down")

    for number in range(4):
        model = ScriptedModel(calls(("pay", {"order": str(number)})), says("Paid."))
        outcome = await Agent("clerk", model, [pay], policy=QUICK).arun("pay", app=world.app)
        assert outcome.name == "partial"
    assert len(used) == 3


# ── a parameter that a model refuses ─────────────────────────────────────────────────────────────────────


async def test_a_refusal_that_names_a_parameter_is_written_down_and_never_applied(world: World) -> None:
    refused = Fault("invalid_input", "unsupported-parameter", "Unsupported parameter: 'temperature'", 400)
    model = ScriptedModel(refused, name="o9")
    agent = Agent("clerk", model, role="talking", temperature=0.5)
    for _ in range(2):
        outcome = await agent.arun("hi", app=world.app)
        [learned] = [fact for fact in await world.facts(outcome.run) if isinstance(fact, CapabilityLearned)]
        assert (learned.model, learned.parameter) == ("o9", "temperature")
        assert learned.advice == "[[model]]\nmatch = '^o9$'\ntemperature = \"never\""
    assert len(model.requests) == 2


# ── long waits ───────────────────────────────────────────────────────────────────────────────────────────

LATER = Fault("rate_limit", "rate-limit", "come back later", 429, wait=120.0)


async def test_a_long_wait_gives_the_slot_back_and_the_run_goes_on_when_it_is_over(world: World) -> None:
    agent = Agent("clerk", ScriptedModel(LATER, LATER, says("hello")), role="talking")
    spec, yard = agent.prepare(world.app), world.app.yard()
    run = await begun(world, agent)
    first = await advance(spec, run, yard)
    assert isinstance(first, Parked)
    assert (first.run, first.until) == (run, world.clock.now() + 120.0)
    assert world.clock.slept == []
    early = await advance(spec, run, yard)
    assert early == first, "woken too early, it goes on waiting for the same moment"
    world.clock.move(120.0)
    second = await advance(spec, run, yard)
    assert isinstance(second, Parked)
    world.clock.move(500.0)
    outcome = await advance(spec, run, yard)
    assert isinstance(outcome, Answered)
    facts = await world.facts(run)
    assert [fact.seconds for fact in facts if isinstance(fact, WaitStarted)] == [120.0, 120.0]
    assert len([fact for fact in facts if isinstance(fact, WaitEnded)]) == 2
    assert len([fact for fact in facts if isinstance(fact, RunResumed)]) == 4


async def test_a_short_wait_is_sat_out_and_without_a_queue_so_is_a_long_one(world: World) -> None:
    short = Fault("rate_limit", "rate-limit", "soon", 429, wait=10.0)
    agent = Agent("clerk", ScriptedModel(short, says("hello")), role="talking")
    outcome = await advance(agent.prepare(world.app), await begun(world, agent), world.app.yard())
    assert isinstance(outcome, Answered)
    long = Agent("clerk", ScriptedModel(LATER, says("hello")), role="talking")
    assert isinstance(await long.arun("hi", app=world.app), Answered)
    assert world.clock.slept == [10.0, 120.0]


async def begun(world: World, agent: Agent) -> str:
    """A run that was begun by somebody else: its first fact, and nothing more."""
    from capataz.events.facts import Event
    from capataz.runtime.launch import _started

    spec = agent.prepare(world.app)
    lease = await world.app.store.claim("run-parked", "queue")
    await world.app.store.append(lease, 0, [Event(0, world.clock.now(), _started(spec, Task("hi"), "run-parked"))])
    return "run-parked"
