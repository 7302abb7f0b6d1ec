"""A fork goes on from the record with one edit, costs nothing for what was, and acts only where that was allowed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from capataz import Agent, App, tool
from capataz.events.facts import Event, ModelReplied, RunResumed, RunStarted, ToolFinished
from capataz.lens.fork import Edit, forked, steps_to_fork
from capataz.lens.trace.fold import trace
from capataz.mistakes import Misuse
from capataz.outcome import Outcome
from capataz.runtime.fork import fork
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says


@dataclass
class Shop:
    """Counts every refund that really took place."""

    refunds: list[str] = field(default_factory=list[str])

    def agent(self, model: ScriptedModel, **more: Any) -> Agent:
        @tool(kind="read")
        def find_order(order: str) -> dict[str, Any]:
            """Look an order up."""
            return {"order": order, "state": "paid"}

        @tool(kind="write", target="order", confirm=lambda order, **_: order in self.refunds)
        def refund(order: str) -> str:
            """Pay it back."""
            self.refunds.append(order)
            return "ok"

        return Agent("support", model, [find_order, refund], "Be kind.", **more)


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with App(MemoryStore(), clock=FakeClock(), chance=FakeChance()) as app:
        yield app


def script() -> ScriptedModel:
    return ScriptedModel(calls(("find_order", {"order": "81"})), calls(("refund", {"order": "81"})), says("Refunded."))


async def recorded(app: App, shop: Shop) -> tuple[str, list[Event]]:
    outcome = await app.arun(shop.agent(script()), "Refund 81")
    assert outcome.name == "completed"
    return outcome.run, await app.store.read(outcome.run)


def result_of(events: list[Event], tool: str) -> int:
    return next(e.seq for e in events if isinstance(e.fact, ToolFinished) and e.fact.call.tool == tool)


async def go_on(
    app: App, agent: Agent, run: str, step: int, edit: Edit, *, allow_acts: bool = False
) -> tuple[Outcome, list[Event]]:
    outcome = await fork(agent.prepare(app), app.yard(), run, step, edit, allow_acts=allow_acts)
    return outcome, await app.store.read(outcome.run)


async def test_the_edited_result_is_what_the_model_reads_and_nothing_else_is_asked_again(app: App) -> None:
    shop = Shop()
    run, events = await recorded(app, shop)
    step = result_of(events, "find_order")
    model = ScriptedModel(says("It was not paid, so there is nothing to refund."))
    outcome, log = await go_on(app, shop.agent(model), run, step, Edit(({"order": "81", "state": "unpaid"},)))
    assert "unpaid" in str(model.requests[0].history[-1])
    assert len(model.requests) >= 1
    assert outcome.run != run
    started = log[0].fact
    assert isinstance(started, RunStarted)
    assert started.fork is not None
    assert (started.fork.run, started.fork.step, started.fork.edit) == (run, step, "another result")
    assert await app.store.read(run) == events, "the forked run is left as it is"


async def test_the_prefix_costs_nothing(app: App) -> None:
    run, events = await recorded(app, shop := Shop())
    step = result_of(events, "find_order")
    model = ScriptedModel(says("Done talking."))
    _, log = await go_on(app, shop.agent(model), run, step, Edit())
    asked = len(model.requests)
    assert trace(log).spend.tokens == 120 * asked
    assert all(fact.usage.tokens == 0 for fact in (e.fact for e in log[: step + 1]) if isinstance(fact, ModelReplied))


async def test_an_act_after_the_fork_is_only_described_and_never_counts(app: App) -> None:
    run, events = await recorded(app, shop := Shop())
    shop.refunds.clear()
    step = result_of(events, "find_order")
    model = ScriptedModel(calls(("refund", {"order": "81"})), says("Refunded."))
    outcome, log = await go_on(app, shop.agent(model), run, step, Edit())
    assert shop.refunds == []
    assert outcome.name != "completed"
    [finished] = [e.fact for e in log[step + 1 :] if isinstance(e.fact, ToolFinished)]
    assert isinstance(finished.result, dict)
    assert finished.result["dry_run"] is True


async def test_an_act_after_the_fork_takes_place_where_it_is_allowed(app: App) -> None:
    run, events = await recorded(app, shop := Shop())
    shop.refunds.clear()
    model = ScriptedModel(calls(("refund", {"order": "81"})), says("Refunded."))
    outcome, _ = await go_on(app, shop.agent(model), run, result_of(events, "find_order"), Edit(), allow_acts=True)
    assert shop.refunds == ["81"]
    assert outcome.name == "completed"


async def test_a_worker_that_takes_a_dry_fork_up_again_does_not_act_either(app: App) -> None:
    _, events = await recorded(app, shop := Shop())
    shop.refunds.clear()
    lease = await app.store.claim("again", "me")
    prefix = forked(events, result_of(events, "find_order"), Edit(), "again", 5.0)
    await app.store.append(lease, 0, prefix)
    model = ScriptedModel(calls(("refund", {"order": "81"})), says("Refunded."))
    await app.aresume(shop.agent(model), "again")
    assert shop.refunds == []


async def test_other_instructions_are_what_the_model_gets(app: App) -> None:
    run, events = await recorded(app, shop := Shop())
    model = ScriptedModel(says("No."))
    step = result_of(events, "find_order")
    _, log = await go_on(app, shop.agent(model), run, step, Edit(instructions="Refuse."))
    assert model.requests[0].system == "Refuse."
    resumed = next(event.fact for event in log if isinstance(event.fact, RunResumed))
    assert resumed.versions is not None
    assert resumed.versions.prompt not in ("", events[0].fact.versions.prompt)  # type: ignore[union-attr]
    started = log[0].fact
    assert isinstance(started, RunStarted)
    assert started.instructions == "Refuse."


async def test_whoever_takes_a_fork_up_obeys_the_edits_in_its_log(app: App) -> None:
    """A worker that only has the agent as it is: the prompt and the policy come from the log, in forks of forks too."""
    _, events = await recorded(app, shop := Shop())
    rules = '[guards]\nrepeating = "observe"\n'
    step = result_of(events, "find_order")
    first = forked(events, step, Edit(instructions="Refuse.", policy="p", rules=rules), "first", 5.0)
    second = forked(first, step, Edit(), "second", 6.0)
    for run, prefix in (("first", first), ("second", second)):
        lease = await app.store.claim(run, "me")
        await app.store.append(lease, 0, prefix)
        model = ScriptedModel(*[calls(("find_order", {"order": "81"}))] * 9, says("No."))
        outcome = await app.aresume(shop.agent(model), run)
        assert {request.system for request in model.requests} == {"Refuse."}
        assert len(model.requests) == 10, "the guard that would have stopped it only observes"
        assert outcome.answer == "No."


async def test_a_step_that_cannot_be_forked_at_says_why(app: App) -> None:
    _, events = await recorded(app, Shop())
    with pytest.raises(Misuse, match=f"has no event {len(events)}"):
        forked(events, len(events), Edit(), "new", 0.0)
    with pytest.raises(Misuse, match="has ended"):
        forked(events, events[-1].seq, Edit(), "new", 0.0)
    with pytest.raises(Misuse, match="no result of a tool"):
        forked(events, 0, Edit(("x",)), "new", 0.0)
    foreign = replace(events[0], fact=RunStarted("r", "a", "t", source="otel"))
    with pytest.raises(Misuse, match="driven by otel"):
        forked([foreign, *events[1:]], 1, Edit(), "new", 0.0)


async def test_every_step_offered_can_be_forked_at_and_folds(app: App) -> None:
    _, events = await recorded(app, Shop())
    offered = steps_to_fork(events)
    assert len(offered) >= 4
    for step, _ in offered:
        prefix = forked(events, step, Edit(), "new", 9.0)
        assert trace(prefix).status == "running"
        assert {event.at for event in prefix} == {9.0}
