"""Agents that hand work to each other: the loop between their runs is seen, however deep the runs are nested."""

from __future__ import annotations

from typing import Any

import pytest

from capataz import Agent, App, Budget, Outcome, Partial, Policy
from capataz.events.facts import ChildEnded, Event, ModelReplied, RunStarted, ToolFinished, VerdictGiven
from capataz.guards.handing import Handing
from capataz.kernel.evolve import fold
from capataz.mistakes import Misuse
from capataz.ports import Reply
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says
from capataz.tools.define import Tool, tool
from tests.runtime.conftest import World


def handing(to: str, count: int = 40) -> ScriptedModel:
    return ScriptedModel(*[calls((to, {"task": f"please look again, wording {n}"})) for n in range(count)])


def ring(world: World, *, reviewer_role: Any = "talking", **settings: Any) -> Agent:
    """Two agents that only ever hand the work to each other."""
    developer = Agent(
        "developer",
        handing("reviewer"),
        [world.look, Agent.later("reviewer", lambda: reviewer, kind="exec")],
        **settings,
    )
    reviewer = Agent("reviewer", handing("developer"), [developer.as_tool()], role=reviewer_role)
    return developer


async def lineage(world: World, root: str) -> dict[str, list[Event]]:
    """The logs of a root and of all runs below it, the root first."""
    logs = {root: await world.events(root)}
    for event in logs[root]:
        if isinstance(event.fact, ChildEnded):
            logs.update(await lineage(world, event.fact.run))
    return logs


@pytest.mark.parametrize("role", ["talking", "acting"])
async def test_agents_that_wake_each_other_are_stopped_and_the_root_is_partial(world: World, role: Any) -> None:
    outcome = await ring(world, reviewer_role=role).arun("rename one field", app=world.app)
    assert isinstance(outcome, Partial)
    assert outcome.reason == "handoff"
    logs = await lineage(world, outcome.run)
    assert 7 <= len(logs) <= 9
    starts = [events[0].fact for events in logs.values()]
    assert [fact.agent for fact in starts if isinstance(fact, RunStarted)][:4] == ["developer", "reviewer"] * 2
    verdicts = [e.fact for events in logs.values() for e in events if isinstance(e.fact, VerdictGiven)]
    handoffs = [fact for fact in verdicts if fact.kind == "handoff"]
    assert {fact.action for fact in handoffs} == {"nudge", "stop"}
    assert {fact.identity for fact in handoffs} == {f"handoff:{outcome.run}:developer:reviewer"}
    own = [fact for fact in (e.fact for e in logs[outcome.run]) if isinstance(fact, VerdictGiven)]
    assert own[-1].action == "stop"
    assert "3 rounds" in own[-1].words
    assert isinstance(logs[outcome.run][own[-1].evidence[-1]].fact, ChildEnded)


async def test_what_all_of_them_used_is_charged_to_the_root(world: World) -> None:
    outcome = await ring(world).arun("rename one field", app=world.app)
    logs = await lineage(world, outcome.run)
    used = [e.fact.usage.tokens for events in logs.values() for e in events if isinstance(e.fact, ModelReplied)]
    assert len(used) > 10
    assert outcome.spend.tokens == sum(used)


async def test_the_same_is_said_again_when_the_logs_are_folded(world: World) -> None:
    agent = ring(world)
    outcome = await agent.arun("rename one field", app=world.app)
    for events in (await lineage(world, outcome.run)).values():
        guard, found = Handing(), list[Any]()
        state = guard.start()
        for event in events:
            state, signal = guard.step(state, event)
            if signal is not None:
                found.append((signal.identity, signal.evidence))
        given = [(f.identity, f.evidence) for f in (e.fact for e in events) if isinstance(f, VerdictGiven)]
        assert [one for one in given if one[0].startswith("handoff")] == found
    spec = agent.prepare(world.app)
    folded = fold(spec.rules, await world.events(outcome.run))
    assert folded.judgement.stop is not None
    assert folded.judgement.stop.kind == "handoff"


async def test_a_confirmed_change_in_every_round_goes_on(world: World) -> None:
    edits = list[int]()

    def is_edited(part: str, **_: Any) -> bool:
        return int(part) in edits

    @tool(kind="write", target="part", confirm=is_edited)
    def edit(part: str) -> str:
        """Rename the field in one part."""
        edits.append(int(part))
        return "ok"

    rounds = 10
    script = list[Reply]()
    for n in range(rounds):
        script += [calls(("edit", {"part": str(n)})), calls(("reviewer", {"task": f"wording {n}"}))]
    developer = Agent(
        "developer",
        ScriptedModel(*script, *[says("Renamed.")] * (rounds + 1)),
        [edit, Agent.later("reviewer", lambda: reviewer, kind="exec")],
    )
    reviewer = Agent(
        "reviewer",
        ScriptedModel(
            *[calls(("developer", {"task": f"one remark, wording {n}"})) for n in range(rounds - 1)],
            *[says("Fine now.")] * (rounds + 1),
        ),
        [developer.as_tool()],
        role="talking",
    )
    outcome = await developer.arun("rename one field", app=world.app)
    logs = await lineage(world, outcome.run)
    kinds = {e.fact.kind for events in logs.values() for e in events if isinstance(e.fact, VerdictGiven)}
    assert edits == list(range(rounds))
    assert "handoff" not in kinds


async def test_where_the_guard_only_observes_the_depth_is_bounded_all_the_same() -> None:
    app = App(MemoryStore(), clock=FakeClock(), chance=FakeChance(), policy=Policy(modes={"handing": "observe"}))
    world = World(app, FakeClock())
    outcome = await ring(world, budget=Budget(turns=60)).arun("rename one field", app=app)
    logs = await lineage(world, outcome.run)
    assert (
        max(fact.depth for fact in (events[0].fact for events in logs.values()) if isinstance(fact, RunStarted)) == 16
    )
    refused = [
        e.fact.result
        for events in logs.values()
        for e in events
        if isinstance(e.fact, ToolFinished) and e.fact.child is None and e.fact.error
    ]
    assert refused
    assert isinstance(refused[0], dict)
    assert refused[0]["reason"] == "too-deep"
    await app.close()


async def test_a_coordinator_may_ask_the_same_expert_many_questions(world: World) -> None:
    expert = Agent("expert", ScriptedModel(*[f"Answer {n}." for n in range(12)]), role="talking")
    boss = ScriptedModel(*[calls(("expert", {"task": f"question {n}?"})) for n in range(12)], says("All known."))
    outcome: Outcome = await Agent("boss", boss, [expert.as_tool()], role="coordinating").arun("ask", app=world.app)
    assert outcome.name == "answered"
    facts = await world.facts(outcome.run)
    assert not [fact for fact in facts if isinstance(fact, VerdictGiven)]


def test_what_comes_later_has_to_be_an_agent(world: World) -> None:
    wrong: Any = lambda: "reviewer"  # noqa: E731
    with pytest.raises(Misuse, match="has to give an Agent"):
        Agent("developer", handing("reviewer"), [Agent.later("reviewer", wrong)]).prepare(world.app)


def test_tools_may_be_added_to_a_list_later(world: World) -> None:
    tools: list[Tool[..., Any] | Any] = [world.look]
    developer = Agent("developer", handing("reviewer"), tools)
    reviewer = Agent("reviewer", handing("developer"), [developer.as_tool()], role="talking")
    tools.append(reviewer.as_tool())
    spec = developer.prepare(world.app)
    assert spec.children["reviewer"].children["developer"] is spec
