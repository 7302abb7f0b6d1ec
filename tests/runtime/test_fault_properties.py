"""Whatever tools raise, wherever a worker dies: no act is repeated that may not be, every call gets one result."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from capataz import Agent, App, Budget, Outcome, Policy, ToolContext, ToolError, tool
from capataz.events.facts import Event, ToolFailed, ToolFinished, ToolRefused, ToolStarted
from capataz.kernel.decide import decide
from capataz.kernel.evolve import begin, evolve
from capataz.policy.breaker import BreakerRule
from capataz.policy.table import DEFAULT_TABLE, FaultTable, Override, Rule
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says


class Limited(Exception):
    status_code = 429

    def __init__(self, wait: float) -> None:
        super().__init__("slow down")
        self.headers = {"retry-after": str(wait)}


ERRORS: tuple[Any, ...] = (
    None,
    None,
    ConnectionResetError("lost"),
    ConnectionRefusedError("down"),
    TimeoutError("late"),
    PermissionError("no"),
    RuntimeError("odd"),
    ToolError("no such order"),
    Limited(3.0),
    Limited(5000.0),
)


@dataclass
class Faulty:
    """Tools that raise what they are told to, one error a use, and count what they did."""

    errors: Sequence[Any]
    keys: Counter[str] = field(default_factory=Counter[str])
    looks: Counter[tuple[int, str]] = field(default_factory=Counter[tuple[int, str]])
    used: int = 0

    def _raise(self) -> None:
        self.used += 1
        error = self.errors[self.used % len(self.errors)]
        if error is not None:
            raise error

    def tools(self) -> list[Any]:
        @tool(kind="read")
        def look(order: str, context: ToolContext) -> str:
            """Look."""
            self.looks[context.turn, order] += 1
            self._raise()
            return order

        @tool(kind="write", target="order", repeatable=True)
        def pay(order: str, context: ToolContext) -> str:
            """Pay once."""
            self.keys["pay " + context.idempotency_key] += 1
            self._raise()
            return "paid"

        @tool(kind="write", target="order", idempotent=True, repeatable=True)
        def set_state(order: str, context: ToolContext) -> str:
            """Set a state, as often as one likes."""
            self.keys["set " + context.idempotency_key] += 1
            self._raise()
            return "set"

        return [look, pay, set_state]


orders = st.sampled_from(["1", "2", "3"])
asked: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.tuples(
    st.sampled_from(["look", "pay", "set_state"]), st.fixed_dictionaries({"order": orders})
)
turns = st.lists(st.lists(asked, min_size=1, max_size=3).map(lambda many: calls(*many)), min_size=1, max_size=4)
errors = st.lists(st.sampled_from(ERRORS), min_size=1, max_size=6)


def policy_of(retries: int, odd: int, failures: int) -> Policy:
    rows = {**DEFAULT_TABLE, "transient": Rule(retries, "supervisor")}
    table = FaultTable(rows, tools={"look": {"unknown": Override(retries=odd)}})
    return Policy(table, breaker=BreakerRule(failures, 60.0, 5.0))


policies = st.builds(policy_of, st.integers(0, 3), st.integers(0, 2), st.integers(0, 4))
some = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass
class Played:
    world: Faulty
    agent: Agent
    outcome: Outcome
    events: list[Event]


def play(steps: Sequence[Any], raised: Sequence[Any], policy: Policy, log: Sequence[Event] = ()) -> Played:
    """A run from its beginning, or from the first events of a log."""
    world = Faulty(raised)
    model = ScriptedModel(*steps, says("That is all."))
    agent = Agent("clerk", model, world.tools(), policy=policy, budget=Budget(turns=8, calls=12, seconds=600.0))

    async def main() -> Played:
        store = MemoryStore()
        async with App(store, clock=FakeClock(), chance=FakeChance()) as app:
            if not log:
                outcome = await app.arun(agent, "do it")
            else:
                lease = await store.claim("run-x", "dead")
                await store.append(lease, 0, list(log))
                outcome = await app.aresume(agent, "run-x")
            return Played(world, agent, outcome, await store.read("run-x" if log else outcome.run))

    return asyncio.run(main())


def holds(played: Played) -> None:
    facts = [event.fact for event in played.events]
    ends = Counter((f.call.turn, f.call.position) for f in facts if isinstance(f, (ToolFinished, ToolRefused)))
    assert all(count == 1 for count in ends.values()), "one result for every call"
    started = Counter((f.turn, f.position) for f in facts if isinstance(f, ToolStarted))
    assert set(started) <= set(ends), "what was begun has an end"
    assert played.outcome.spend.calls <= 12
    assert played.outcome.spend.seconds <= 600.0
    assert played.outcome.name != "completed" or played.outcome.evidence
    again = [f for f in facts if isinstance(f, ToolFailed)]
    assert all(f.call.tool != "pay" for f in again), "an act that is not idempotent is never tried again"
    assert all(f.fault.row in ("transient", "rate_limit", "unknown") for f in again)
    assert all(count == 1 for key, count in played.world.keys.items() if key.startswith("pay "))


@some
@given(turns, errors, policies)
def test_no_error_of_a_tool_repeats_an_act_or_loses_a_result(steps: Any, raised: Any, policy: Policy) -> None:
    holds(play(steps, raised, policy))


@some
@given(turns, errors, policies, st.data())
def test_nor_does_a_crash_in_the_middle_of_it(steps: Any, raised: Any, policy: Policy, data: st.DataObject) -> None:
    first = play(steps, raised, policy)
    cut = data.draw(st.integers(1, len(first.events)))
    begun = {
        f"pay {event.fact.idempotency_key}"
        for event in first.events[:cut]
        if isinstance(event.fact, ToolStarted) and event.fact.tool == "pay"
    }
    second = play(steps, raised, policy, first.events[:cut])
    holds(second)
    assert not begun & set(second.world.keys), "an act that was begun before the crash is not begun again"


@some
@given(turns, errors, policies)
def test_the_decisions_can_be_had_again_from_the_log(steps: Any, raised: Any, policy: Policy) -> None:
    played = play(steps, raised, policy)
    state = begin(played.agent.prepare(App("memory:")).rules)
    for event in played.events:
        evolve(state, event)
        decide(state)
    assert decide(state) == ()
