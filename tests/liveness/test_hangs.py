"""Every kind of hang: noticed within its limit, the slot free again, and an honest end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from capataz import Aborted, Agent, Answered, Deadlines, Escalated, Outcome, Partial, Policy, tool
from capataz.events.facts import ModelCallFailed, RunResumed, TickPassed, ToolFinished
from capataz.guards.limits import Thresholds, ToolLimits
from capataz.policy.table import FaultTable
from capataz.ports import ModelRequest, Reply
from capataz.runtime.perform import Performer
from capataz.runtime.shift import Terms
from capataz.testing.script import Script, Trouble, say
from capataz.testing.scripted import ScriptedModel, calls, says
from capataz.testing.worker import UnreliableWorker
from capataz.tools.define import Tool, ToolContext
from tests.liveness import apart
from tests.liveness.conftest import Yard, until

LIMIT = 0.2
SLACK = 1.5
"""Seconds a busy machine may be late."""


@pytest.fixture
async def worker() -> AsyncIterator[UnreliableWorker]:
    async with UnreliableWorker() as worker:
        yield worker


async def beside(yard: Yard, agent: Agent, slots: int = 1) -> tuple[Outcome | None, float, list[object]]:
    """Drive the agent's run, and after it one that needs its slot. The outcome, seconds, and facts of the first."""
    other = Agent("other", ScriptedModel("here"), role="talking")
    handle = await agent.asubmit("go", app=yard.app)
    behind = await other.asubmit("next please", app=yard.app, priority=-1)
    begun = time.monotonic()
    assert await yard.work(agent, other, slots=slots) is None
    seconds = time.monotonic() - begun
    assert isinstance(await behind.apoll(), Answered), "the slot was free again"
    return await handle.apoll(), seconds, list(await yard.facts(handle.run))


def hung(facts: list[object]) -> ToolFinished:
    (finished,) = (fact for fact in facts if isinstance(fact, ToolFinished))
    assert finished.fault is not None
    assert finished.fault.reason == "timeout"
    return finished


def using(what: Tool[..., Any], **arguments: object) -> Agent:
    model = ScriptedModel(calls((what.name, arguments)), says("That did not work out."))  # type: ignore[arg-type]
    role = "talking" if what.kind == "read" else "acting"
    return Agent("hanger", model, tools=[what], role=role, policy=NO_RETRIES)  # type: ignore[arg-type]


RULES = FaultTable().rules
NO_RETRIES = Policy(faults=FaultTable({row: replace(rule, retries=0) for row, rule in RULES.items()}))


# ── tools ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_asynchronous_tool(yard: Yard) -> None:
    @tool(kind="read", timeout=LIMIT)
    async def look() -> str:
        await asyncio.sleep(60)
        return "never"

    outcome, seconds, facts = await beside(yard, using(look))
    assert hung(facts).result == {"error": "no answer within 0.2 s"}
    assert isinstance(outcome, Answered)
    assert seconds < LIMIT + SLACK


async def test_an_asynchronous_tool_that_ignores_being_cancelled(yard: Yard) -> None:
    release = asyncio.Event()

    @tool(kind="write", timeout=LIMIT)
    async def act() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    outcome, seconds, facts = await beside(yard, using(act))
    assert hung(facts).in_doubt
    assert isinstance(outcome, Escalated)
    assert outcome.reason == "in-doubt"
    assert seconds < LIMIT + 0.5 + SLACK
    assert yard.app.threads.leaked_tasks == 1
    release.set()


async def test_a_synchronous_tool(yard: Yard) -> None:
    @tool(kind="write", timeout=LIMIT)
    def act() -> str:
        time.sleep(1.5)
        return "late"

    outcome, seconds, facts = await beside(yard, using(act))
    assert hung(facts).in_doubt
    assert isinstance(outcome, Escalated)
    assert seconds < LIMIT + SLACK


async def test_an_isolated_tool_with_grandchildren(yard: Yard, tmp_path: object) -> None:
    quick = replace(apart.hang, timeout=1.0)
    outcome, seconds, facts = await beside(yard, using(quick, file=f"{tmp_path}/pids"))
    assert hung(facts).in_doubt
    assert isinstance(outcome, Escalated)
    assert seconds < 1.0 + SLACK


async def test_a_tool_that_falls_silent_is_given_up_before_its_time(yard: Yard) -> None:
    """A tool that tells of its progress may take long, as long as it goes on telling."""
    heard: list[float] = []

    @tool(kind="read", timeout=30)
    async def crawl(context: ToolContext) -> str:
        for _ in range(4):
            await asyncio.sleep(LIMIT / 2)
            context.progress("still there")
            heard.append(time.monotonic())
        await asyncio.sleep(60)
        return "never"

    limits = Thresholds(tools={"crawl": ToolLimits(silence=LIMIT)})
    agent = replace(using(crawl), policy=replace(NO_RETRIES, thresholds=limits))
    _, seconds, facts = await beside(yard, agent)
    assert hung(facts).result == {"error": "no answer within 0.2 s"}
    assert len(heard) == 4
    assert 3 * LIMIT - 0.05 < seconds < 3 * LIMIT + SLACK


# ── models ───────────────────────────────────────────────────────────────────────────────────────────────

QUICK = Deadlines(connect=1.0, first_byte=LIMIT, silence=LIMIT, total=1.0)


@pytest.mark.parametrize(("kind", "limit"), [("hang", LIMIT), ("stall", LIMIT), ("trickle", 1.0)])
async def test_a_provider(yard: Yard, worker: UnreliableWorker, kind: str, limit: float) -> None:
    """One that accepts and never answers, one whose stream stops, one that sends a sign of life for ever."""
    name = worker.play(kind, Script((Trouble(kind), say("never"))))  # type: ignore[arg-type]
    agent = Agent(
        "asker", f"openai:{name}", role="talking", base_url=worker.url("openai"), api_key="any",
        deadlines=QUICK, policy=NO_RETRIES,
    )  # fmt: skip
    outcome, seconds, facts = await beside(yard, agent)
    (failed,) = (fact for fact in facts if isinstance(fact, ModelCallFailed))
    assert failed.fault.row == "transient"
    assert failed.seconds >= limit - 0.05
    assert isinstance(outcome, Escalated)
    assert seconds < limit + SLACK


async def test_a_slow_model_is_legal_where_it_is_declared(yard: Yard, worker: UnreliableWorker) -> None:
    async def slowly(request: ModelRequest, beat: Callable[[], None]) -> Reply:
        await asyncio.sleep(3 * LIMIT)
        return says("I had to think.")

    model = ScriptedModel("unused")
    model.complete = slowly  # type: ignore[method-assign]
    patient = Agent("thinker", model, role="talking", deadlines=Deadlines(total=5.0))
    outcome, _, facts = await beside(yard, patient)
    assert isinstance(outcome, Answered)
    assert not [fact for fact in facts if isinstance(fact, ModelCallFailed)]


class Stubborn(ScriptedModel):
    """Swallows every cancellation until it is let go: no limit inside the loop can end it."""

    def __init__(self) -> None:
        super().__init__("never")
        self.release = asyncio.Event()

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                continue
        return says("too late")


async def test_what_no_limit_can_end_is_left_behind_and_the_run_ends_as_poison(yard: Yard) -> None:
    model = Stubborn()
    agent = Agent("stuck", model, role="talking", deadlines=Deadlines(total=LIMIT), policy=NO_RETRIES)
    other = Agent("other", ScriptedModel("here"), role="talking")
    handle = await agent.asubmit("go", app=yard.app)
    shift = yard.app.worker(agent, other, terms=Terms(slots=10, crashes=2, pace=yard.pace))
    working = asyncio.create_task(shift.work())
    outcome = await handle.await_(timeout=20)
    assert isinstance(outcome, Aborted)
    assert outcome.reason == "poison"
    behind = await other.asubmit("next please", app=yard.app)
    assert isinstance(await behind.await_(timeout=5), Answered)
    model.release.set()
    await asyncio.sleep(0.05)
    shift.stop()
    assert await working is None
    facts = await yard.facts(handle.run)
    assert sum(isinstance(fact, RunResumed) for fact in facts) == 1
    assert facts[-1].__class__.__name__ == "RunEnded", "nothing was written by those left behind"


async def test_a_run_that_is_stuck_outside_of_every_wait_is_cut_and_told(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy(thresholds=Thresholds(own_silence=0.2))
    agent = Agent("quiet", ScriptedModel("hello"), role="talking", policy=policy)
    stuck = asyncio.Event()

    async def never(*_: object) -> None:
        stuck.set()
        await asyncio.Event().wait()

    handle = await agent.asubmit("go", app=yard.app)
    shift = yard.app.worker(agent, terms=Terms(slots=4, pace=yard.pace))
    with monkeypatch.context() as broken:
        broken.setattr(Performer, "perform", never)
        working = asyncio.create_task(shift.work())
        await stuck.wait()
        await until(lambda: shift.busy == 0)
    assert isinstance(await handle.await_(timeout=10), Answered | Partial)
    shift.stop()
    await working
    facts = await yard.facts(handle.run)
    assert [fact.waiting_for for fact in facts if isinstance(fact, TickPassed)] == ["own"]
    assert (await yard.row(handle.run)).crashes.total == 1
