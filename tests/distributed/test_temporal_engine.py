"""Temporal as dispatcher: it is told ids, sleeps while a run sleeps, and is told again what it has missed."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from capataz import Aborted, Agent, Answered, App, Escalated
from capataz.engines.temporal import TemporalEngine
from capataz.engines.temporal_workflow import RunWorkflow
from capataz.events.facts import Fault
from capataz.mistakes import Misuse
from capataz.policy.policy import Policy
from capataz.ports import JobRow, ModelRequest, Reply
from capataz.runtime.inbox import answer
from capataz.runtime.shift import Terms
from capataz.runtime.supervise import Decision
from capataz.runtime.watchdog import Pace
from capataz.runtime.world import RealClock
from capataz.testing.scripted import ScriptedModel, calls, says
from capataz.testing.servers import free_port, temporal_server
from tests.distributed.cluster_crew import DOWN, look
from tests.stores.test_sealed_store import key

SECRET = "Ana Pérez, order 4711"


def clerk(*script: object, name: str = "clerk", **more: object) -> Agent:
    return Agent(name, ScriptedModel(*script), role="talking", **more)  # type: ignore[arg-type]


@asynccontextmanager
async def working(app: App, *agents: Agent, beat: float = 0.4) -> AsyncIterator[None]:
    shift = app.worker(*agents, terms=Terms(4, pace=Pace(beat=beat, drain=3.0, poll=0.05)))
    work = asyncio.create_task(shift.work())
    try:
        yield
    finally:
        shift.stop()
        await work


@asynccontextmanager
async def opened(database: str, temporal: str, queue: str) -> AsyncIterator[App]:
    async with App(database, engine=TemporalEngine(temporal, task_queue=queue, beat=0.4)) as app:
        yield app


async def row_of(app: App, run: str) -> JobRow:
    row = await app.engine.look(run)
    assert row is not None
    return row


async def told_of(workflow: WorkflowHandle[Any, Any]) -> list[dict[str, Any]]:
    """All that Temporal was ever told of a run, except plain values such as the run's id alone."""
    found: list[dict[str, Any]] = []

    def look_through(part: Any) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("data"), str):
                value = json.loads(base64.b64decode(part["data"]))
                found.extend([value] if isinstance(value, dict) else [])
            for inner in part.values():
                look_through(inner)
        elif isinstance(part, list):
            for inner in part:
                look_through(inner)

    look_through(json.loads((await workflow.fetch_history()).to_json()))
    return found


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - what is waited for happens elsewhere
            await asyncio.sleep(0.05)


async def test_a_run_goes_through_temporal_and_temporal_learns_nothing_but_its_id(database: str, temporal: str) -> None:
    agent = clerk(says(f"Hello {SECRET}"), instructions="Be kind.")
    async with opened(database, temporal, "ids") as app, working(app, agent):
        handle = await agent.asubmit(f"Greet {SECRET}", app=app, tenant="acme", key="k1")
        outcome = await handle.await_(timeout=20)
        assert isinstance(outcome, Answered)
        assert outcome.answer == f"Hello {SECRET}"
        again = await agent.asubmit(f"Greet {SECRET}", app=app, tenant="acme", key="k1")
        assert again.run == handle.run, "the key is known"
        with pytest.raises(Misuse, match="another task, priority"):
            await agent.asubmit("Greet again", app=app, tenant="acme", key="k1", priority=1)
        workflow = (await Client.connect(temporal)).get_workflow_handle(handle.run)
        assert await workflow.result() == "done"
        told = await told_of(workflow)
        assert {key for payload in told for key in payload} == {"run", "silence", "longest", "state", "pause"}
        assert {payload["run"] for payload in told if "run" in payload} == {handle.run}
        assert SECRET not in str(told)
        replayer = Replayer(workflows=[RunWorkflow], workflow_runner=UnsandboxedWorkflowRunner())
        assert (await replayer.replay_workflow(await workflow.fetch_history())).replay_failure is None


async def test_a_long_wait_is_a_timer_and_holds_no_slot(database: str, temporal: str) -> None:
    agent = clerk(DOWN, says("hello"), policy=Policy(long_wait=0.3))
    async with opened(database, temporal, "timers") as app, working(app, agent):
        handle = await agent.asubmit("hi", app=app)

        async def parked() -> bool:
            return (await row_of(app, handle.run)).state == "parked"

        await until(parked)
        outcome = await handle.await_(timeout=20)
        assert isinstance(outcome, Answered)
        history = (await (await Client.connect(temporal)).get_workflow_handle(handle.run).fetch_history()).to_json()
        assert "EVENT_TYPE_TIMER_FIRED" in history
        assert (await row_of(app, handle.run)).crashes.total == 0


async def test_a_delay_is_kept_by_temporal(database: str, temporal: str) -> None:
    agent = clerk(says("hello"))
    async with opened(database, temporal, "delays") as app, working(app, agent):
        begun = time.time()
        handle = await agent.asubmit("hi", app=app, delay=1.5)
        await handle.await_(timeout=20)
        (first, *_) = await app.store.read(handle.run)
        assert 1.2 < first.at - begun < 10


@pytest.mark.parametrize("told", [True, False])
async def test_a_person_is_waited_for_and_the_answer_is_a_signal(database: str, temporal: str, told: bool) -> None:
    refused = Fault("auth", "forbidden", "not allowed", 403)
    agent = clerk(refused, says("hello"))
    async with opened(database, temporal, f"people-{told}") as app, working(app, agent):
        handle = await agent.asubmit("hi", app=app)
        outcome = await handle.await_(timeout=20)
        assert isinstance(outcome, Escalated)

        async def waiting() -> bool:
            return (await row_of(app, handle.run)).state == "waiting"

        await until(waiting)
        await answer(app.store, RealClock(), handle.run, Decision("retry"), "Ana")
        if told:
            assert await app.engine.wake(handle.run)

        async def over() -> bool:
            return isinstance(await handle.apoll(), Answered)

        await until(over)


async def test_whoever_cancels_in_temporal_breaks_the_run_off(database: str, temporal: str) -> None:
    agent = Agent("slow", _Looks(), tools=[look], role="talking")
    async with opened(database, temporal, "cancels") as app, working(app, agent):
        handle = await agent.asubmit("go", app=app)

        async def begun() -> bool:
            return (await row_of(app, handle.run)).state == "claimed"

        await until(begun)
        await (await Client.connect(temporal)).get_workflow_handle(handle.run).cancel()
        outcome = await handle.await_(timeout=20)
        assert isinstance(outcome, Aborted)
        assert (outcome.reason, outcome.detail) == ("cancelled", "it was cancelled in Temporal")


async def test_a_run_nobody_has_begun_is_cancelled_at_once(database: str, temporal: str) -> None:
    agent = clerk(says("hello"))
    async with opened(database, temporal, "nobody") as app:
        handle = await agent.asubmit("hi", app=app)
        assert await handle.acancel("no need")
        assert not await handle.acancel("a second time")
        outcome = await handle.apoll()
        assert isinstance(outcome, Aborted)
        async with working(app, agent):
            workflow = (await Client.connect(temporal)).get_workflow_handle(handle.run)
            assert await workflow.result() == "cancelled"


async def test_temporal_may_be_away_when_a_run_is_submitted_and_forget_all_it_knew(
    database: str, temporal: str
) -> None:
    """The server of the other tests only shows that there is one: this test starts its own, late."""
    agent = clerk(says("hello"), says("hello"), says("hello"))
    port = free_port()
    async with App(database, engine=TemporalEngine(f"127.0.0.1:{port}", beat=0.4)) as app:
        handle = await agent.asubmit("hi", app=app)
        assert (await row_of(app, handle.run)).state == "queued"
    with temporal_server() as address:
        async with opened(database, address, "capataz") as app, working(app, agent):
            assert isinstance(await agent.handle(handle.run, app=app).await_(timeout=40), Answered)


async def test_a_worker_without_the_key_loses_no_run(
    database: str, temporal: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CAPATAZ_KEY", raising=False)
    monkeypatch.setattr("capataz.engines.temporal_slots.NOT_MINE", 0.2)
    agent, engine = clerk(says("hello")), TemporalEngine(temporal, task_queue="sealed", beat=0.4)
    async with App(database, engine=engine, key=key()) as app, App(database, engine=engine) as keyless:
        handle = await agent.asubmit("hi", app=app)
        async with working(keyless, agent):

            async def was_there() -> bool:
                return "left to a worker that has the key" in caplog.text

            await until(was_there)
        async with working(app, agent):
            assert isinstance(await handle.await_(timeout=20), Answered)


def test_a_store_that_machines_cannot_share_is_refused() -> None:
    with pytest.raises(Misuse, match="use PostgreSQL"):
        _ = App("memory:", engine=TemporalEngine()).engine
    with pytest.raises(Misuse, match="host:port"):
        TemporalEngine("temporal")


class _Looks:
    """Looks for ever, each time at something else."""

    name = "looks"

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        await asyncio.sleep(0.05)
        return calls(("look", {"step": int(time.time() * 1000)}))

    async def close(self) -> None:
        """Nothing is open."""
