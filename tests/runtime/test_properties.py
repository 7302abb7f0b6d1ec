"""Properties of every run, whatever the model does: it ends, honestly, within its ceilings, and can be had again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from capataz import Agent, App, Budget, Completed, Outcome, ToolContext, tool
from capataz.events import codec
from capataz.events.facts import Event, Fault, RunEnded, RunEscalated, ToolFinished, ToolStarted, Usage
from capataz.kernel.decide import decide
from capataz.kernel.evolve import begin, evolve, fold
from capataz.kernel.state import Rules, State
from capataz.ports import RawCall, Reply
from capataz.runtime import drive as driving
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls

Behaviour = Any


@dataclass
class Counted:
    """A world in which every act is counted, and in which tools fail or lie as they are told."""

    mood: Sequence[str]
    acts: Counter[str] = field(default_factory=Counter[str])
    paid: Counter[str] = field(default_factory=Counter[str])
    posted: Counter[str] = field(default_factory=Counter[str])
    asked: int = 0

    def _mood(self) -> str:
        self.asked += 1
        return self.mood[self.asked % len(self.mood)]

    def tools(self) -> list[Any]:
        def is_paid(order: str, cents: int) -> bool:
            return self.paid[f"{order}/{cents}"] > 0

        @tool(kind="write", target="order", confirm=is_paid)
        def refund(order: str, cents: int, context: ToolContext) -> str:
            """Pay back."""
            self.acts[context.idempotency_key] += 1
            mood = self._mood()
            if mood == "fails":
                raise RuntimeError("down")
            if mood != "lies":
                self.paid[f"{order}/{cents}"] += 1
            if mood == "fails late":
                raise ConnectionError("lost")
            return "paid"

        @tool(kind="message", target="order")
        def post(order: str, context: ToolContext) -> str:
            """Tell the customer."""
            self.acts[context.idempotency_key] += 1
            self.posted[order] += 1
            return "sent"

        @tool(kind="search")
        def find(words: str) -> list[str]:
            """Search."""
            return [] if self._mood() == "empty" else [words]

        return [refund, post, find]


orders = st.sampled_from(["1", "2"])
wanted: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
    st.tuples(
        st.just("refund"), st.fixed_dictionaries({"order": orders, "cents": st.sampled_from([100, 100.0, 200, 10**30])})
    ),
    st.tuples(st.just("post"), st.fixed_dictionaries({"order": orders})),
    st.tuples(st.just("find"), st.fixed_dictionaries({"words": st.sampled_from(["lamp", "lamps", "", "\ud800"])})),
    st.tuples(st.just("refund"), st.just({"cents": "many"})),
    st.tuples(st.just("invent"), st.just({})),
)
replies = st.one_of(
    st.lists(wanted, min_size=1, max_size=3).map(lambda many: calls(*many)),
    st.sampled_from(["All done, refunded!", "", "Let me think.", "   "]).map(
        lambda text: Reply(text, usage=Usage(50, 9))
    ),
    st.sampled_from(["refusal", "length", "pause", "filter"]).map(
        lambda stop: Reply("hm", stop=stop, usage=Usage(9, 9))
    ),
    st.just(Reply("", (RawCall("x", "refund", '{"order": "1", "ce', cut=True),), "length", Usage(9, 9))),
    st.builds(
        Fault,
        st.sampled_from(["transient", "rate_limit", "invalid_input", "auth", "contract", "unknown"]),
        st.just("x"),
        st.just("no"),
        wait=st.one_of(st.none(), st.floats(0, 100)),
    ),
)
budgets = st.builds(
    Budget,
    turns=st.integers(1, 8),
    calls=st.integers(1, 10),
    tokens=st.integers(1_000, 20_000),
    seconds=st.floats(1.0, 500.0),
)
moods = st.lists(st.sampled_from(["works", "fails", "fails late", "lies", "empty"]), min_size=1, max_size=4)


@dataclass
class Played:
    outcome: Outcome
    events: list[Event]
    decisions: list[tuple[int, Any]]
    rules: Rules
    world: Counted
    agent: Agent
    model: ScriptedModel
    budget: Budget


def play(steps: Sequence[Behaviour], budget: Budget, mood: Sequence[str], checked: bool) -> Played:
    """One run, with every decision that was made on the way and the position it was made at."""
    world = Counted(mood)
    decisions: list[tuple[int, Any]] = []

    def refunded() -> bool:
        return world.paid["1/100"] > 0

    model = ScriptedModel(*steps)
    agent = Agent("clerk", model, tools=world.tools(), budget=budget, done_when=[refunded] if checked else [])

    async def main() -> Played:
        async with App(MemoryStore(), clock=FakeClock(), chance=FakeChance()) as app:
            outcome = await app.arun(agent, "refund order 1")
            rules = agent.prepare(app).rules
            events = await app.store.read(outcome.run)
            return Played(outcome, events, decisions, rules, world, agent, model, budget)

    def noted(state: State) -> Any:
        commands = decide(state)
        decisions.append((state.seq, commands))
        return commands

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driving, "decide", noted)
        return asyncio.run(main())


many = settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
scripts = st.lists(replies, min_size=1, max_size=8)


@many
@given(scripts, budgets, moods, st.booleans())
def test_every_run_ends_honestly_within_its_ceilings(
    steps: list[Behaviour], budget: Budget, mood: list[str], checked: bool
) -> None:
    played = play(steps, budget, mood, checked)
    spend, limits = played.outcome.spend, budget.ceilings()
    assert isinstance(played.events[-1].fact, (RunEnded, RunEscalated))
    assert limits.turns is not None
    assert spend.turns <= limits.turns
    assert limits.calls is not None
    assert spend.calls <= limits.calls
    assert limits.seconds is not None
    assert spend.seconds <= limits.seconds
    assert played.outcome.answer.strip()
    if isinstance(played.outcome, Completed):
        for proof in played.outcome.evidence:
            if proof.what == "check":
                assert played.world.paid["1/100"] > 0
        assert any(count for count in played.world.paid.values())


@many
@given(scripts, budgets, moods, st.booleans())
def test_the_same_effect_never_happens_twice(
    steps: list[Behaviour], budget: Budget, mood: list[str], checked: bool
) -> None:
    world = play(steps, budget, mood, checked).world
    assert all(count == 1 for count in world.acts.values())
    assert all(count <= 1 for count in world.paid.values())
    assert all(count <= 1 for count in world.posted.values())


@many
@given(scripts, budgets, moods, st.booleans())
def test_live_decisions_equal_replayed_decisions_and_every_prefix_folds(
    steps: list[Behaviour], budget: Budget, mood: list[str], checked: bool
) -> None:
    played = play(steps, budget, mood, checked)
    live = dict(played.decisions)
    state = begin(played.rules)
    for event in played.events:
        stored = codec.decode(event.seq, event.at, codec.encode(event))
        assert stored == event
        evolve(state, stored)
        commands = decide(state)
        if event.seq in live:
            assert commands == live[event.seq]


def resumed(played: Played, cut: int, steps: Sequence[Behaviour]) -> tuple[Outcome, list[Event]]:
    """The run taken up by a fresh worker from the first `cut` events of its log."""
    agent = Agent(
        "clerk",
        ScriptedModel(*steps),
        tools=played.world.tools(),
        budget=played.budget,
        done_when=played.agent.done_when,
    )

    async def main() -> tuple[Outcome, list[Event]]:
        store = MemoryStore()
        lease = await store.claim("run-x", "dead worker")
        await store.append(lease, 0, played.events[:cut])
        async with App(store, clock=FakeClock(), chance=FakeChance()) as app:
            outcome = await app.aresume(agent, "run-x")
            return outcome, await store.read("run-x")

    return asyncio.run(main())


@many
@given(scripts, budgets, moods, st.booleans(), st.data())
def test_a_run_resumed_from_any_prefix_repeats_no_act_that_was_begun(
    steps: list[Behaviour], budget: Budget, mood: list[str], checked: bool, data: st.DataObject
) -> None:
    played = play(steps, budget, mood, checked)
    cut = data.draw(st.integers(1, len(played.events)))
    begun = [event.fact for event in played.events[:cut] if isinstance(event.fact, ToolStarted)]
    before = Counter({fact.idempotency_key: played.world.acts[fact.idempotency_key] for fact in begun})
    outcome, events = resumed(played, cut, steps)
    assert outcome.answer.strip()
    assert isinstance(events[-1].fact, (RunEnded, RunEscalated))
    for key, count in before.items():
        assert played.world.acts[key] == count
    finished = Counter(
        (event.fact.call.turn, event.fact.call.position) for event in events if isinstance(event.fact, ToolFinished)
    )
    assert all(count == 1 for count in finished.values())
    state = fold(played.rules, events)
    assert decide(state) == ()


def test_a_model_is_asked_with_a_history_that_only_grows() -> None:
    turns = [calls(("find", {"words": str(n)})) for n in range(6)]
    asked = play(turns, Budget(turns=5), ["works"], checked=False).model.requests
    loop = [request.history for request in asked if request.tool_choice == "auto"]
    assert len(loop) == 5
    for earlier, later in pairwise(loop):
        assert list(later)[: len(earlier)] == list(earlier)
