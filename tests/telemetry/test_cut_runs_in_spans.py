"""Runs that were cut, by the watchdog or by a ceiling: no span stays open, and each is counted for what it was."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from capataz import Agent, App, Budget, Policy, tool
from capataz.events.facts import TickPassed, Usage
from capataz.guards.limits import Thresholds
from capataz.runtime.perform import Performer
from capataz.runtime.shift import Terms
from capataz.runtime.watchdog import Pace
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says
from tests.telemetry.conftest import Received


@tool(kind="read")
def look(order: str) -> str:
    """Look an order up."""
    return f"{order} is paid"


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
    watch.flush()
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
