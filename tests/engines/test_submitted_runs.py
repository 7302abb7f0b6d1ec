"""Submitting runs, following them, calling them off; and what workers make of a queue."""

from __future__ import annotations

import asyncio
import math
import time
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from capataz import Aborted, Agent, Answered, App, Completed, Escalated, Fault, Misuse, tool
from capataz.events.facts import Fact, RunResumed, ToolFinished, WaitEnded, WaitStarted
from capataz.mistakes import NotFound, StoreError
from capataz.policy.policy import Policy
from capataz.ports import Claim
from capataz.runtime.erasing import erase
from capataz.runtime.inbox import answer
from capataz.runtime.shift import Terms
from capataz.runtime.supervise import Decision
from capataz.stores.sqlite.queue import SqlQueue
from capataz.testing.scripted import ScriptedModel, calls, says
from tests.engines.conftest import QUICK, Yard, until


def talker(*steps: object, name: str = "talker") -> Agent:
    return Agent(name, ScriptedModel(*(steps or ("hello",))), role="talking")  # type: ignore[arg-type]


async def test_a_submitted_run_is_driven_by_a_worker(yard: Yard) -> None:
    handle = await talker().asubmit("say hello", app=yard.app, task_type="greeting")
    assert await handle.apoll() is None
    assert await yard.work(talker()) is None
    outcome = await handle.await_(timeout=5)
    assert isinstance(outcome, Answered)
    assert (outcome.answer, outcome.run) == ("hello", handle.run)
    assert [row.task_type for row in await yard.app.store.runs()] == ["greeting"]
    assert (await yard.row(handle.run)).state == "done"


async def test_the_same_key_is_the_same_run(yard: Yard) -> None:
    first = await talker().asubmit("once", app=yard.app, key="webhook-17")
    second = await talker().asubmit("once", app=yard.app, key="webhook-17")
    await yard.work(talker())
    third = await talker().asubmit("once", app=yard.app, key="webhook-17")
    assert first.run == second.run == third.run
    assert len(await yard.app.store.runs()) == 1


@pytest.mark.parametrize(("name", "tenant", "user"), [("talker", "b", "u"), ("talker", "a", "v"), ("other", "a", "u")])
async def test_a_key_leads_nobody_to_the_run_of_somebody_else(yard: Yard, name: str, tenant: str, user: str) -> None:
    first = await talker().asubmit("secret of a", app=yard.app, key="ticket-1", tenant="a", user="u")
    with pytest.raises(Misuse, match="key='ticket-1' was used for another tenant") as refused:
        await talker(name=name).asubmit("hello", app=yard.app, key="ticket-1", tenant=tenant, user=user)
    assert first.run not in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"task": "refund 82"}, "another task:"),
        ({"priority": 5}, "another priority:"),
        ({"task_type": "refund", "task": "x", "conversation": "c-2"}, "another task, conversation, task_type:"),
    ],
)
async def test_a_key_is_for_one_submission(yard: Yard, asked: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"task": "refund 81", "priority": 1, "conversation": "c-1"}
    first = await talker().asubmit(**given, app=yard.app, key="ticket-1")
    with pytest.raises(Misuse, match=f"key='ticket-1' was used for run {first.run} with {said}"):
        await talker().asubmit(**{**given, **asked}, app=yard.app, key="ticket-1")
    again = await talker().asubmit(**given, app=yard.app, key="ticket-1", delay=60)
    assert again.run == first.run, "a delay is counted from when it is said: it is not compared"
    assert [row.job.run for row in await yard.queue.jobs()] == [first.run]


async def test_a_task_that_was_erased_is_still_known_by_its_key(yard: Yard) -> None:
    first = await talker().asubmit("the secret of Ana", app=yard.app, key="ticket-1")
    await yard.work(talker())
    await erase(yard.app.store, first.run)
    assert (await talker().asubmit("the secret of Ana", app=yard.app, key="ticket-1")).run == first.run
    with pytest.raises(Misuse, match="another priority"):
        await talker().asubmit("the secret of Ana", app=yard.app, key="ticket-1", priority=1)


async def test_events_can_be_followed_from_outside(yard: Yard) -> None:
    agent = talker()
    handle = await agent.asubmit("say hello", app=yard.app)

    async def follow() -> list[str]:
        return [type(event.fact).__name__ async for event in handle.aevents(patience=10)]

    following = asyncio.create_task(follow())
    await yard.work(agent)
    assert await following == ["RunStarted", "ModelCallStarted", "ModelReplied", "RunEnded"]


async def test_a_delay_is_kept(yard: Yard) -> None:
    begun = time.time()
    handle = await talker().asubmit("later", app=yard.app, delay=0.3)
    shift = yard.app.worker(talker(), terms=Terms(pace=QUICK))
    working = asyncio.create_task(shift.work())
    await handle.await_(timeout=5)
    shift.stop()
    await working
    assert (await yard.app.store.read(handle.run))[0].at - begun >= 0.28


async def test_a_handle_works_without_a_loop_too(tmp_path: Path) -> None:
    app, agent = App(f"sqlite:///{tmp_path / 'capataz.db'}"), talker()

    def sync() -> None:
        handle = agent.submit("hello", app=app)
        assert handle.poll() is None
        with pytest.raises(TimeoutError):
            handle.wait(timeout=0.05)
        other = agent.handle(handle.run, app=app)
        asyncio.run(app.worker(agent, terms=Terms(pace=QUICK)).work(until_idle=True))
        assert isinstance(other.wait(timeout=5), Answered)
        assert [type(event.fact).__name__ for event in handle.events()][-1] == "RunEnded"
        assert not handle.cancel()

    await asyncio.to_thread(sync)
    with pytest.raises(Misuse, match="asubmit"):
        agent.submit("hello", app=app)
    await app.close()


async def test_what_cannot_be_submitted_says_why(yard: Yard) -> None:
    with pytest.raises(Misuse, match="empty task"):
        await talker().asubmit(" ", app=yard.app)
    for delay in (-1, math.inf, math.nan, 1e12, "3", True):
        with pytest.raises(Misuse, match="delay"):
            await talker().asubmit("x", app=yard.app, delay=cast("Any", delay))
    for priority in (1.5, "1", True, 10**30, math.nan):
        with pytest.raises(Misuse, match="priority"):
            await talker().asubmit("x", app=yard.app, priority=cast("Any", priority))
    for key in ("", "  ", 3):
        with pytest.raises(Misuse, match="key"):
            await talker().asubmit("x", app=yard.app, key=cast("Any", key))
    with pytest.raises(Misuse, match="needs agents"):
        yard.app.worker()
    handle = await talker().asubmit("x", app=yard.app)
    with pytest.raises(TimeoutError, match=f"{handle.run} has no outcome after 0.01 seconds"):
        await handle.await_(0.01)
    with pytest.raises(NotFound):
        await talker().handle("ghost", app=yard.app).apoll()


async def test_several_agents_share_a_worker_and_others_are_left_alone(yard: Yard) -> None:
    one, two, other = talker(name="one"), talker("ciao", name="two"), talker(name="other")
    handles = [await agent.asubmit("go", app=yard.app) for agent in (one, two, other)]
    await yard.work(one, two)
    outcomes = [await handle.apoll() for handle in handles]
    assert [None if outcome is None else outcome.answer for outcome in outcomes] == ["hello", "ciao", None]


@pytest.mark.parametrize("missing", ["tenant", "user"])
async def test_nobody_is_the_empty_text_and_not_none(yard: Yard, missing: str) -> None:
    none = cast("Any", {missing: None})
    for work in (talker().asubmit("x", app=yard.app, **none), talker().arun("x", app=yard.app, **none)):
        with pytest.raises(Misuse, match=f"{missing}=None: give text, or leave it out"):
            await work
    assert await yard.app.store.runs() == []


async def test_what_is_no_app_no_agent_and_no_time_is_said_to_be(yard: Yard) -> None:
    url, name = cast("Any", "postgresql://ana:secret@db/runs"), cast("Any", "talker")
    handle = await talker().asubmit("x", app=yard.app, delay=cast("float", Decimal("0.5")))
    for work in (talker().arun("x", app=url), talker().asubmit("x", app=url)):
        with pytest.raises(Misuse, match=r"app is str: give an App") as refused:
            await work
        assert "secret" not in str(refused.value)
    with pytest.raises(Misuse, match="app is str"):
        talker().handle(handle.run, app=url)
    for making in (lambda: yard.app.worker(name), lambda: App("memory:", agents=[name])):
        with pytest.raises(Misuse, match="'talker' is no agent"):
            making()
    for work in (yard.app.arun(name, "x"), yard.app.aresume(name, handle.run)):
        with pytest.raises(Misuse, match="'talker' is no agent"):
            await work
    with pytest.raises(Misuse, match="timeout=None: give a number of seconds"):
        await handle.await_(cast("Any", None))
    with pytest.raises(Misuse, match="patience='5': give a number of seconds"):
        await anext(handle.aevents(patience=cast("Any", "5")))
    for reason in (None, 5, "\ud800"):
        with pytest.raises(Misuse, match="reason="):
            await handle.acancel(cast("Any", reason))
    assert (await yard.row(handle.run)).order is None


@pytest.mark.parametrize("given", [{"slots": 0}, {"slots": 1.5}, {"crashes": 0}, {"per_tenant": 0}])
def test_a_worker_that_could_never_take_anything_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Misuse, match=f"Terms: {next(iter(given))}=.*: give a whole number of at least 1"):
        Terms(**given)


# ── calling off ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_nobody_began_is_cancelled_at_once(yard: Yard) -> None:
    handle = await talker().asubmit("never mind", app=yard.app)
    assert await handle.acancel("not needed any more")
    assert not await handle.acancel("a second time")
    outcome = await handle.apoll()
    assert isinstance(outcome, Aborted)
    assert (outcome.reason, outcome.detail) == ("cancelled", "not needed any more")
    await yard.work(talker())
    assert await yard.app.store.runs() == []


async def test_a_cancelled_run_ends_within_a_beat_and_its_act_is_in_doubt(yard: Yard) -> None:
    begun = asyncio.Event()

    @tool(kind="write", target="order", timeout=30)
    async def refund(order: str) -> str:
        begun.set()
        await asyncio.sleep(30)
        return "ok"

    agent = Agent("clerk", ScriptedModel(calls(("refund", {"order": "81"})), says("done")), tools=[refund])
    handle = await agent.asubmit("refund 81", app=yard.app)
    shift = yard.app.worker(agent, terms=Terms(pace=QUICK))
    working = asyncio.create_task(shift.work())
    await begun.wait()
    called_off = time.monotonic()
    assert await handle.acancel("wrong order")
    assert not await handle.acancel("a second time")
    outcome = await handle.await_(timeout=5)
    assert time.monotonic() - called_off < 1.0
    assert isinstance(outcome, Aborted)
    assert (outcome.reason, outcome.detail) == ("cancelled", "wrong order")
    assert outcome.missing == ("refund(81) is in doubt",)
    assert not await handle.acancel("once it is over")
    finished = [fact for fact in await yard.facts(handle.run) if isinstance(fact, ToolFinished)]
    assert [fact.in_doubt for fact in finished] == [True]
    await until(lambda: shift.busy == 0)
    assert (await yard.row(handle.run)).state == "cancelled"
    shift.stop()
    await working


# ── giving the slot back ─────────────────────────────────────────────────────────────────────────────────


async def test_a_long_wait_gives_the_slot_back_and_the_run_goes_on_in_time(yard: Yard) -> None:
    slow = Fault("rate_limit", "rate-limit", "slow down", wait=0.5)
    agent = Agent("patient", ScriptedModel(slow, "hello"), role="talking", policy=Policy(long_wait=0.2))
    handle = await agent.asubmit("go", app=yard.app)
    await yard.work(agent)
    assert (await yard.row(handle.run)).state == "parked"
    await talker().asubmit("meanwhile", app=yard.app, key="other")
    shift = yard.app.worker(agent, talker(), terms=Terms(slots=1, pace=QUICK))
    working = asyncio.create_task(shift.work())
    assert isinstance(await handle.await_(timeout=5), Answered)
    shift.stop()
    await working
    facts = await yard.facts(handle.run)
    (wait,) = (fact for fact in facts if isinstance(fact, WaitStarted))
    assert wait.seconds >= 0.5
    assert any(isinstance(fact, WaitEnded) for fact in facts)
    assert [fact.reason for fact in facts if isinstance(fact, RunResumed)] == ["continued"]


async def test_a_person_answers_and_the_run_goes_on_by_itself(yard: Yard) -> None:
    asked = Fault("auth", "unauthorised", "the key is refused")
    agent = talker(asked, "hello")
    handle = await agent.asubmit("go", app=yard.app)
    await yard.work(agent)
    assert isinstance(await handle.apoll(), Escalated)
    assert (await yard.row(handle.run)).state == "waiting"
    await yard.work(agent)
    assert isinstance(await handle.apoll(), Escalated), "nobody has answered"
    await answer(yard.app.store, yard.app.yard().around.clock, handle.run, Decision("retry"), "Ana")
    await yard.work(agent)
    assert isinstance(await handle.apoll(), Answered)


async def test_a_worker_that_stops_lets_runs_reach_their_next_step(yard: Yard) -> None:
    begun, done = asyncio.Event(), list[str]()

    @tool(kind="write", target="order", confirm=lambda order, **_: order in done)
    async def refund(order: str) -> str:
        begun.set()
        await asyncio.sleep(0.2)
        done.append(order)
        return "ok"

    model = ScriptedModel(calls(("refund", {"order": "81"})), says("done"))
    agent = Agent("clerk", model, tools=[refund])
    handle = await agent.asubmit("refund 81", app=yard.app)
    shift = yard.app.worker(agent, terms=Terms(pace=QUICK))
    working = asyncio.create_task(shift.work())
    await begun.wait()
    shift.stop()
    assert await working is None
    assert done == ["81"]
    row = await yard.row(handle.run)
    assert (row.state, row.crashes.total) == ("queued", 0)
    assert await handle.apoll() is None
    await yard.work(agent)
    assert isinstance(await handle.apoll(), Completed)
    assert done == ["81"]
    assert await yard.queue.workers() == []


async def test_ten_deployments_do_not_use_a_run_up(yard: Yard) -> None:
    begun = asyncio.Event()

    @tool(kind="read")
    async def look(n: int) -> str:
        begun.set()
        await asyncio.sleep(0.02)
        return f"found {n}"

    model = ScriptedModel(*(calls(("look", {"n": n})) for n in range(11)), says("done"))
    agent = Agent("looker", model, tools=[look], role="talking")
    handle = await agent.asubmit("look", app=yard.app)
    for _ in range(10):
        begun.clear()
        shift = yard.app.worker(agent, terms=Terms(crashes=1, pace=QUICK))
        working = asyncio.create_task(shift.work())
        async with asyncio.timeout(10):
            await begun.wait()
        shift.stop()
        await working
        assert await handle.apoll() is None
    await yard.work(agent, crashes=1)
    assert isinstance(await handle.apoll(), Answered)
    facts = await yard.facts(handle.run)
    assert sum(isinstance(fact, RunResumed) for fact in facts) == 10
    assert (await yard.row(handle.run)).crashes.total == 0


# ── who gets the slots ───────────────────────────────────────────────────────────────────────────────────


class Looker(ScriptedModel):
    """Looks once in every run, then says so."""

    def __init__(self, who: str) -> None:
        super().__init__(lambda request: "ok" if len(request.history) > 1 else calls(("look", {"who": who})))


async def test_slots_are_shared_out_among_tenants_and_kept_to(yard: Yard) -> None:
    most, now, order = [0], [0], list[str]()

    @tool(kind="read")
    async def look(who: str) -> str:
        order.append(who)
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0.03)
        now[0] -= 1
        return "ok"

    agents = [Agent(who, Looker(who), tools=[look], role="talking") for who in ("big", "small")]
    for agent, count in zip(agents, (6, 2), strict=True):
        for _ in range(count):
            await agent.asubmit("go", app=yard.app, tenant=agent.name)
    await yard.work(*agents, slots=2)
    assert sorted(order[:4]) == ["big", "big", "small", "small"]
    assert len(order) == 8
    assert most[0] == 2


async def test_a_worker_that_cannot_tell_the_queue_of_an_end_leaves_the_run_to_the_next_claim(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, finish, ended = talker(), SqlQueue.finish, list[list[Fact]]()
    handle = await agent.asubmit("go", app=yard.app)

    async def fails_once(
        queue: SqlQueue, claim: Claim, state: Literal["done", "waiting", "dead", "cancelled"], reason: str
    ) -> bool:
        if not ended:
            ended.append(await yard.facts(handle.run))
            raise StoreError("the disk is gone")
        return await finish(queue, claim, state, reason)

    monkeypatch.setattr(SqlQueue, "finish", fails_once)
    await yard.work(agent)
    row = await yard.row(handle.run)
    assert (row.state, row.tries, row.crashes.total) == ("done", 2, 1)
    assert await yard.facts(handle.run) == ended[0], "an ended run is not touched again"
