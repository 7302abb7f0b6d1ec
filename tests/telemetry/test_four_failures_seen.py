"""The four ways in which agents fail, each with real runs: seen in the spans, in the metrics and in an alert."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from capataz import Agent, App, Budget, Deadlines, Policy, tool
from capataz.events.facts import Fault, TickPassed, Usage
from capataz.guards.limits import Thresholds
from capataz.lens.alerts import evaluate
from capataz.lens.alerts_points import Point, point_of
from capataz.lens.alerts_rules import made
from capataz.lens.metrics import figures_of
from capataz.runtime.perform import Performer
from capataz.runtime.shift import Terms
from capataz.runtime.watchdog import Pace
from capataz.stores.memory import MemoryStore
from capataz.testing.script import Script, Trouble, say
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says
from capataz.testing.worker import UnreliableWorker
from tests.telemetry.conftest import Received


@tool(kind="read")
def look(order: str) -> str:
    """Look an order up."""
    return f"{order} is paid"


async def points(store: MemoryStore) -> list[Point]:
    return [point_of(figures_of(await store.read(row.run))) for row in await store.runs(1000)]


async def fires(store: MemoryStore, now: float, **rule: Any) -> Sequence[str]:
    """The runs the alert points to; it has to fire."""
    reading = evaluate(made(rule, "test"), await points(store), now)
    assert reading.standing == "firing", reading.words
    return reading.runs


async def test_a_loop_is_a_rate_of_tokens_and_a_verdict(received: Received) -> None:
    store, clock = MemoryStore(), FakeClock()
    app = App(store, clock=clock, chance=FakeChance(), telemetry=received.watch())
    again = calls(("look", {"order": "7"}), usage=Usage(30_000, 200))
    well = ScriptedModel(calls(("look", {"order": "7"}), usage=Usage(300, 20)), says("paid", Usage(300, 20)))
    calm = await app.arun(Agent("calm", well, [look], role="talking"), "Is 7 paid?")
    clock.move(600)
    looping = await app.arun(Agent("looper", ScriptedModel(again), [look], role="talking"), "Is 7 paid?")
    turns: dict[Any, Any] = {}
    for span in received.named("capataz.turn"):
        told: dict[str, Any] = dict(span.attributes or {})
        turns[told["capataz.run.id"]] = turns.get(told["capataz.run.id"], 0) + told["capataz.turn.tokens"]
    assert turns[looping.run] > 50 * turns[calm.run]
    verdicts = received.events("gen_ai.evaluation.result")
    assert any(verdict["capataz.guard"] == "repeating" for verdict in verdicts)
    assert received.total("capataz.loops", gen_ai__agent__name="looper") >= 1
    assert received.total("capataz.loops", gen_ai__agent__name="calm") == 0
    used = [point.sum for labels, point in received.metric("gen_ai.client.token.usage")
            if labels["gen_ai.token.type"] == "input"]  # fmt: skip
    assert sum(used) > 90_000
    now = clock.now()
    assert looping.run in await fires(store, now, metric="tokens_per_minute", over=50_000)
    assert await fires(store, now, metric="loop_rate", over=0.05, at_least=1, agent="looper") == (looping.run,)
    await app.close()


async def test_a_hang_is_a_span_that_others_end(received: Received) -> None:
    store = MemoryStore()
    app = App(store, telemetry=received.watch())
    async with UnreliableWorker({"hangs": Script((Trouble("hang"), Trouble("hang"), say("there")))}) as provider:
        agent = Agent("a", "openai:hangs", role="talking", base_url=provider.url(), api_key="any",
                      deadlines=Deadlines(0.3, 0.3, 0.3, 0.5), budget=Budget(seconds=30))  # fmt: skip
        await asyncio.wait_for(app.arun(agent, "go"), 60)
    cut = [span for span in received.named("chat") if (span.attributes or {}).get("error.type") == "timeout"]
    assert len(cut) == 2
    assert all(span.end_time for span in received.spans)
    assert received.total("capataz.watchdog.kills", capataz__waiting_for="model") == 2
    now = max(point.at for point in await points(store))
    assert await fires(store, now, metric="watchdog_kills_total", over=1)
    assert await fires(store, now, metric="hang_rate", over=0.02, at_least=1)
    await app.close()


async def test_a_hang_the_watchdog_ends_is_told_by_the_recovery(received: Received) -> None:
    """What a worker's heart records when it cuts a silent run, and what the next worker then tells."""
    from tests.telemetry.test_otel_export import crashed

    story = crashed()
    head, tick = story[:4], TickPassed(story[3].at, "tool")
    watch = received.watch()
    late = [*head, type(head[0])(4, head[3].at + 400, tick)]
    for event in late:
        watch("r", event)
    other = received.watch()
    other.recall("r", late)
    for event in story[4:]:
        other("r", type(event)(event.seq + 1, event.at + 400, event.fact))
    [hung] = received.named("execute_tool pay")
    assert (hung.attributes or {})["error.type"] == "hung"
    assert "watchdog" in str(hung.status.description)
    assert received.total("capataz.watchdog.kills", capataz__waiting_for="tool") == 1


async def test_a_worker_that_cuts_a_stuck_run_leaves_no_span_open(
    received: Received, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way with a real worker: stuck after a tool was begun, cut by the heart, taken up again from the log."""
    usual, stuck = Performer._run_tool, asyncio.Event()

    async def first_never(self: Performer, command: Any) -> Any:
        if stuck.is_set():
            return await usual(self, command)
        stuck.set()
        return await asyncio.Event().wait()

    monkeypatch.setattr(Performer, "_run_tool", first_never)

    @tool(kind="write", target="order", idempotent=True)
    def act(order: str) -> str:
        """Do something: that it was begun is on disk before it is."""
        return "ok"

    policy = Policy(thresholds=Thresholds(own_silence=0.2))
    agent = Agent("a", ScriptedModel(calls(("act", {"order": "7"})), says("done")), [act],
                  policy=policy)  # fmt: skip
    async with App(f"sqlite:///{tmp_path / 'runs.db'}", telemetry=received.watch()) as app:
        handle = await agent.asubmit("go", app=app)
        shift = app.worker(agent, terms=Terms(2, pace=Pace(beat=0.5, stall=5.0, grace=0.2, poll=0.02, drain=2.0)))
        working = asyncio.create_task(shift.work())
        outcome = await handle.await_(timeout=20)
        shift.stop()
        await working
    assert outcome.name in ("answered", "partial"), outcome
    first, *again = received.named("execute_tool act")
    assert (first.attributes or {})["error.type"] == "hung"
    assert "watchdog" in str(first.status.description)
    assert all("error.type" not in (span.attributes or {}) for span in again)
    assert received.total("capataz.watchdog.kills", capataz__waiting_for="own") == 1
    [run] = received.named("invoke_agent")
    assert run.context is not None
    assert {span.context.trace_id for span in received.spans if span.context} == {run.context.trace_id}
    ids = {span.context.span_id for span in received.spans if span.context}
    assert len(ids) == len(received.spans)
    assert all(span.parent is None or span.parent.span_id in ids for span in received.spans)


async def test_a_narration_is_a_turn_without_a_tool_below_it(received: Received) -> None:
    store, clock = MemoryStore(), FakeClock()
    app = App(store, clock=clock, chance=FakeChance(), telemetry=received.watch())
    paid: set[str] = set()

    @tool(kind="write", target="order", confirm=lambda order, **_: order in paid)
    def refund(order: str) -> str:
        """Pay back."""
        paid.add(order)
        return "ok"

    model = ScriptedModel(says("I have refunded it."), calls(("refund", {"order": "8"})), says("Refunded."))
    done = await app.arun(Agent("a", model, [refund]), "Refund 8")
    assert done.name == "completed"
    empty = []
    for turn in received.named("capataz.turn"):
        children = [span for span in received.spans if received.parent(span) is turn]
        tools = [span for span in children if span.name.startswith("execute_tool")]
        assert len(tools) == (turn.attributes or {})["capataz.turn.tool_calls"]
        failed = any((event.attributes or {}).get("capataz.verdict.action") == "fail-turn" for event in turn.events)
        if failed:
            assert not tools
            empty.append(turn)
    assert len(empty) == 1
    assert received.total("capataz.turns.empty") == 1
    assert received.total("capataz.effects.confirmed") == 1
    assert await fires(store, clock.now(), metric="empty_turn_rate", over=0.0, at_least=3) == (done.run,)
    await app.close()


async def test_an_error_is_a_burst_of_retries_on_one_class(received: Received) -> None:
    store, clock = MemoryStore(), FakeClock()
    app = App(store, clock=clock, chance=FakeChance(), telemetry=received.watch())
    busy = Fault("transient", "overloaded", "busy", status=529)
    outcome = await app.arun(Agent("a", ScriptedModel(busy, busy, says("here")), role="talking"), "go")
    failed = [span for span in received.named("chat") if (span.attributes or {}).get("capataz.error.class")]
    assert [(span.attributes or {})["error.type"] for span in failed] == ["overloaded", "overloaded"]
    assert len({received.parent(span).context.span_id for span in failed if received.parent(span)}) == 1  # type: ignore[union-attr]
    assert len(received.events("capataz.wait")) == 2
    assert received.total("capataz.retries", capataz__error__class="transient") == 2
    assert received.total("capataz.retries", capataz__error__class="rate_limit") == 0
    assert await fires(store, clock.now(), metric="retry_burst", over=1) == (outcome.run,)
    await app.close()


@pytest.mark.parametrize("ceiling", ["turns", "calls", "tokens"])
async def test_a_budget_that_refuses_is_counted(received: Received, ceiling: str) -> None:
    app = App("memory:", clock=FakeClock(), chance=FakeChance(), telemetry=received.watch())
    steps = [calls(("look", {"order": f"{number}"}), usage=Usage(4000, 20)) for number in range(30)]
    budget = Budget(**{ceiling: 20_000 if ceiling == "tokens" else 3})
    outcome = await app.arun(Agent("a", ScriptedModel(*steps), [look], role="talking", budget=budget), "go")
    assert outcome.name == "partial"
    assert received.total("capataz.budget.refusals", capataz__ceiling=ceiling) == 1
    [run] = received.named("invoke_agent")
    assert (run.attributes or {})["error.type"] == outcome.reason
    await app.close()
