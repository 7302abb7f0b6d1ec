"""What every queue must keep, each promise a test. A store with a queue of its own proves itself like this:

    class TestMyQueue(QueueConformance):
        def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue]:
            store = MyStore(folder / "log")
            return store, store.queue(clock)

Time is the test's: the queue must read no other clock than the one it is given (a server's own clock may only be used
where `server_time` is set; then the tests wait instead).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from capataz.events.facts import EscalationAnswered, Event, RunEscalated, RunStarted
from capataz.ports import Claim, Crashes, Job, JobState, Queue, Store, TurnBeat, WorkerBeat

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

LEASE = 0.6
"""Seconds of a lease in these tests: short, for queues whose time cannot be moved."""


class Tested:
    """A queue, its store, and the time they live in."""

    def __init__(self, store: Store, queue: Queue, passed: Callable[[float], None] | None) -> None:
        self.store, self.queue, self._passed = store, queue, passed

    async def wait(self, seconds: float) -> None:
        if self._passed is not None:
            self._passed(seconds)
        else:
            await asyncio.sleep(seconds)

    async def add(self, *runs: str, tenant: str = "", priority: int = 0, agent: str = "a") -> None:
        for run in runs:
            await self.queue.enqueue(Job(run, agent, f"task of {run}", tenant=tenant, priority=priority))

    async def take(self, worker: str = "w", *, per_tenant: int | None = None, agents: tuple[str, ...] = ("a",)) -> str:
        """The run that is claimed next; "" when there is none."""
        claims = await self.queue.claim(worker, agents, LEASE, per_tenant=per_tenant)
        return claims[0].job.run if claims else ""

    async def one(self, worker: str = "w") -> Claim:
        (claim,) = await self.queue.claim(worker, ("a",), LEASE)
        return claim

    async def state(self, run: str) -> str:
        row = await self.queue.look(run)
        return row.state if row is not None else ""


class QueueConformance:
    """The suite. Subclass it, name the subclass `Test…`, and give it `make`."""

    server_time = False
    """Whether leases end by a server's clock, which no test can move."""

    def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue]:
        raise NotImplementedError("give your test class a make")

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[Tested]:
        time = [1_000.0]

        def moved(seconds: float) -> None:
            time[0] += seconds

        store, queue = self.make(folder, lambda: time[0])
        try:
            yield Tested(store, queue, None if self.server_time else moved)
        finally:
            await store.close()

    # ── taking jobs in ───────────────────────────────────────────────────────────────────────────────────

    async def test_a_job_comes_back_as_it_was_given(self, tmp_path: Path) -> None:
        job = Job("r", "a", "größe\n'", "refund", "c7", "acme", -3, 5.0, "key-1", "ana")
        async with self.opened(tmp_path) as it:
            assert await it.queue.enqueue(job) == "r"
            row = await it.queue.look("r")
            assert row is not None
            assert (row.job, row.state, row.worker, row.crashes) == (job, "queued", None, Crashes(0, 0))
            claim = await it.one()
            assert (claim.job, claim.worker, claim.token, claim.order) == (job, "w", 1, None)
            assert await it.queue.look("ghost") is None

    async def test_the_same_key_is_the_same_run_even_when_it_is_over(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            assert await it.queue.enqueue(Job("first", "a", "t", key="k")) == "first"
            assert await it.queue.enqueue(Job("second", "a", "t", key="k")) == "first"
            await it.queue.finish(await it.one(), "done", "")
            assert await it.queue.enqueue(Job("third", "a", "t", key="k")) == "first"
            assert await it.queue.enqueue(Job("other", "a", "t")) == "other"
            assert [row.job.run for row in await it.queue.jobs()] == ["other", "first"]

    async def test_a_job_is_not_driven_before_it_is_due(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("now")
            now = (await it.one()).until - LEASE
            await it.queue.enqueue(Job("later", "a", "t", due=now + 0.4))
            assert (await it.take(), await it.state("later")) == ("", "parked")
            await it.wait(0.5)
            assert await it.take() == "later"

    async def test_the_list_can_be_narrowed(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r0", "r1", "r2")
            await it.one()
            queued: list[JobState] = ["queued"]
            claimed: list[JobState] = ["claimed"]
            assert [row.job.run for row in await it.queue.jobs(queued)] == ["r2", "r1"]
            assert [row.job.run for row in await it.queue.jobs(limit=2)] == ["r2", "r1"]
            assert [row.worker for row in await it.queue.jobs(claimed)] == ["w"]

    async def test_the_list_can_be_narrowed_to_a_tenant_and_to_what_no_worker_took(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r0")
            await it.queue.release(await it.one())
            for n, tenant in enumerate(("x", "y", "x"), 1):
                await it.queue.enqueue(Job(f"r{n}", "a", "t", tenant=tenant))
            assert [row.job.run for row in await it.queue.jobs(tenant="x")] == ["r3", "r1"]
            assert [row.job.run for row in await it.queue.jobs(tenant="x", limit=1)] == ["r3"]
            states: list[JobState] = ["queued", "parked"]
            assert [row.job.run for row in await it.queue.jobs(states)] == ["r3", "r2", "r1", "r0"]
            assert [row.job.run for row in await it.queue.jobs(states, untaken=True)] == ["r3", "r2", "r1"]
            assert [row.job.run for row in await it.queue.jobs(states, tenant="y", untaken=True)] == ["r2"]

    # ── whose turn it is ─────────────────────────────────────────────────────────────────────────────────

    async def test_first_come_first_served_and_higher_priority_first(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r0", "r1")
            await it.add("high", priority=5)
            await it.add("low", priority=-1)
            assert [await it.take() for _ in range(5)] == ["high", "r0", "r1", "low", ""]

    async def test_a_small_tenant_does_not_wait_behind_a_big_one(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add(*(f"big{n}" for n in range(6)), tenant="big", priority=9)
            await it.add("small0", "small1", tenant="small")
            assert [await it.take() for _ in range(5)] == ["big0", "small0", "big1", "small1", "big2"]

    async def test_tenants_take_turns_when_one_slot_serves_them_all(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("a0", "a1", "a2", tenant="a")
            await it.add("b0", "b1", tenant="b")
            order: list[str] = []
            for _ in range(5):
                claim = await it.one()
                order.append(claim.job.run)
                await it.queue.finish(claim, "done", "")
            assert order == ["a0", "b0", "a1", "b1", "a2"]

    async def test_no_tenant_gets_more_than_its_limit(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("a0", "a1", "a2", tenant="a")
            await it.add("b0", tenant="b")
            taken = [await it.take(per_tenant=1) for _ in range(3)]
            assert taken == ["a0", "b0", ""]
            assert await it.take(per_tenant=2) == "a1"

    async def test_a_worker_gets_only_runs_of_agents_it_has(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("other", agent="other")
            await it.add("mine")
            assert [await it.take(), await it.take()] == ["mine", ""]
            assert await it.take(agents=("a", "other")) == "other"

    async def test_several_at_once(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add(*(f"r{n}" for n in range(5)))
            claims = await it.queue.claim("w", ("a",), LEASE, most=3)
            assert [claim.job.run for claim in claims] == ["r0", "r1", "r2"]

    async def test_no_job_is_claimed_twice_by_workers_that_race(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add(*(f"r{n}" for n in range(30)))
            taken = await asyncio.gather(*(it.take(f"w{n % 7}") for n in range(40)))
            assert sorted(run for run in taken if run) == sorted(f"r{n}" for n in range(30))

    # ── leases and crashes ───────────────────────────────────────────────────────────────────────────────

    async def test_a_lease_that_ran_out_is_a_crash_counted_by_the_next_one(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r")
            claim = await it.one("first")
            assert await it.queue.begin(claim, "1:0") == Crashes(0, 0)
            assert await it.take("second") == ""
            await it.wait(LEASE + 0.1)
            heir = await it.one("second")
            assert heir.token == 2
            assert await it.queue.begin(heir, "1:0") == Crashes(1, 1)
            assert await it.queue.begin(claim, "1:0") is None
            assert not await it.queue.finish(claim, "done", "")
            assert await it.state("r") == "claimed"

    async def test_crashes_count_at_the_step_where_they_happen(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r")
            counted: list[Crashes | None] = []
            for step in ("1:0", "1:0", "4:0", "4:0", "5:1"):
                counted.append(await it.queue.begin(await it.one(), step))
                await it.wait(LEASE + 0.1)
            assert counted == [Crashes(0, 0), Crashes(1, 1), Crashes(1, 2), Crashes(2, 3), Crashes(1, 4)]

    async def test_a_crash_before_anything_was_begun_counts_too(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r")
            for _ in range(3):
                await it.one()
                await it.wait(LEASE + 0.1)
            assert await it.queue.begin(await it.one(), "") == Crashes(3, 3)

    async def test_polite_stops_are_no_crashes(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r")
            for _ in range(10):
                claim = await it.one()
                assert await it.queue.begin(claim, "1:0") == Crashes(0, 0)
                assert await it.queue.release(claim)

    async def test_a_lease_lost_without_a_crash_is_taken_back(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r")
            zombie = await it.one("zombie")
            await it.wait(LEASE + 0.1)
            heir = await it.one("heir")
            assert not await it.queue.release(zombie)
            assert not await it.queue.release(zombie), "and only once"
            assert await it.queue.begin(heir, "1:0") == Crashes(0, 0)
            assert await it.state("r") == "claimed"

    async def test_beats_keep_a_lease_alive_and_only_for_runs_that_beat(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r0", "r1")
            kept, silent = await it.one(), await it.one()
            turn = TurnBeat("r0", kept.token, 990.0, "tool", 60.0)
            for _ in range(4):
                await it.wait(LEASE / 2)
                orders = await it.queue.beat(WorkerBeat("w", 2, 1, 0.01, turns=(turn,)), LEASE)
                assert (orders.lost, dict(orders.breaks)) == ((), {})
            assert await it.take("other") == "r1"
            assert await it.take("other") == ""
            row = await it.queue.look("r0")
            assert row is not None
            assert row.beat == turn
            late = TurnBeat("r1", silent.token, 990.0, "own", 60.0)
            orders = await it.queue.beat(WorkerBeat("w", 2, 1, 0.0, turns=(turn, late)), LEASE)
            assert orders.lost == ("r1",)

    async def test_a_worker_that_leaves_gives_back_what_it_has(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r0", "r1")
            await it.queue.beat(WorkerBeat("w", 2, 2, 0.0), LEASE)
            await it.one()
            assert [row.beat.worker for row in await it.queue.workers()] == ["w"]
            assert await it.queue.leave("w") == 1
            assert await it.queue.workers() == []
            assert await it.queue.begin(await it.one("x"), "s") == Crashes(0, 0)
            assert await it.queue.leave("x", crashed=True) == 1
            assert await it.queue.begin(await it.one("y"), "s") == Crashes(1, 1)

    async def test_one_worker_at_a_time_looks_after_the_others(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            led = await asyncio.gather(*(it.queue.lead(f"w{n}", LEASE) for n in range(8)))
            assert sum(led) == 1
            leader = f"w{led.index(True)}"
            assert await it.queue.lead(leader, LEASE)
            assert not await it.queue.lead("other", LEASE)
            await it.wait(LEASE + 0.1)
            assert await it.queue.lead("other", LEASE)
            assert not await it.queue.lead(leader, LEASE)

    async def test_a_worker_that_is_frozen_shows(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.queue.beat(WorkerBeat("w", 3, 2, 0.25, "draining"), LEASE)
            await it.wait(LEASE + 0.1)
            await it.queue.beat(WorkerBeat("x", 1, 0, 0.0), LEASE)
            frozen, well = await it.queue.workers()
            assert frozen.beat == WorkerBeat("w", 3, 2, 0.25, "draining")
            assert frozen.until < well.beat_at

    # ── giving back, waiting, breaking off ───────────────────────────────────────────────────────────────

    async def test_a_parked_run_gives_its_slot_back_until_its_time(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r")
            claim = await it.one()
            assert await it.queue.release(claim, claim.until - LEASE + 0.4)
            assert (await it.state("r"), await it.take()) == ("parked", "")
            await it.wait(0.5)
            again = await it.one()
            assert await it.queue.begin(again, "s") == Crashes(0, 0)

    async def test_a_run_that_waits_for_a_person_goes_on_with_its_log(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r")
            claim = await it.one()
            lease = await it.store.claim("r", "w")
            written = [Event(0, 1.0, RunStarted("r", "a", "t")), Event(1, 1.0, RunEscalated("doubt", "?"))]
            await it.store.append(lease, 0, written)
            assert await it.queue.finish(claim, "waiting", "doubt")
            assert (await it.take(), await it.state("r")) == ("", "waiting")
            lease = await it.store.claim("r", "inbox")
            await it.store.append(lease, 2, [Event(2, 2.0, EscalationAnswered("retry", "Ana"))])
            assert await it.take() == "r"

    async def test_an_answer_that_comes_before_the_queue_knows_that_a_run_waits_is_not_lost(
        self, tmp_path: Path
    ) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r")
            claim = await it.one()
            lease = await it.store.claim("r", "w")
            asked = [Event(0, 1.0, RunStarted("r", "a", "t")), Event(1, 1.0, RunEscalated("doubt", "?"))]
            await it.store.append(lease, 0, asked)
            await it.store.append(lease, 2, [Event(2, 2.0, EscalationAnswered("retry", "Ana"))])
            assert await it.queue.finish(claim, "waiting", "doubt")
            assert await it.take() == "r"

    async def test_a_job_nobody_began_is_cancelled_at_once(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r")
            assert await it.queue.cancel("r", "no longer needed") == "cancelled"
            row = await it.queue.look("r")
            assert row is not None
            assert (row.state, row.reason) == ("cancelled", "no longer needed")
            assert await it.take() == ""
            assert await it.queue.cancel("ghost", "") is None
            assert await it.queue.cancel("r", "again") is None
            assert await it.queue.look("r") == row

    async def test_whoever_has_a_run_is_told_to_break_it_off(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r")
            claim = await it.one()
            assert await it.queue.cancel("r", "stop it") == "claimed"
            assert await it.queue.cancel("r", "again") is None
            turn = TurnBeat("r", claim.token, 1.0, "model", 60.0)
            orders = await it.queue.beat(WorkerBeat("w", 1, 1, 0.0, turns=(turn,)), LEASE)
            assert dict(orders.breaks) == {"r": "stop it"}
            assert await it.queue.finish(claim, "cancelled", "stop it")
            assert await it.queue.cancel("r", "again") is None

    async def test_an_order_outlives_the_worker_it_was_given_to(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("parked", "waiting", "crashed")
            parked, waiting = await it.one(), await it.one()
            await it.one()
            await it.queue.release(parked, parked.until + 1000.0)
            await it.queue.finish(waiting, "waiting", "doubt")
            for run in ("parked", "waiting", "crashed"):
                await it.queue.cancel(run, f"stop {run}")
                assert await it.queue.cancel(run, "again") is None
            assert await it.one("x") is not None
            assert await it.one("x") is not None
            await it.wait(LEASE + 0.1)
            orders = [(await it.one("y")).order for _ in range(3)]
            assert sorted(map(str, orders)) == ["stop crashed", "stop parked", "stop waiting"]

    async def test_an_order_that_comes_while_a_run_goes_to_wait_is_not_lost(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add("r0", "r1")
            first, second = await it.one(), await it.one()
            await it.queue.cancel("r0", "stop")
            await it.queue.cancel("r1", "stop")
            assert await it.queue.finish(first, "waiting", "doubt")
            assert await it.queue.release(second, second.until + 1000.0)
            assert sorted([await it.take(), await it.take()]) == ["r0", "r1"]

    async def test_several_event_loops_share_a_queue(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.add(*(f"r{n}" for n in range(8)))

            async def drain(worker: str) -> int:
                taken = 0
                while claims := await it.queue.claim(worker, ("a",), LEASE):
                    taken += await it.queue.finish(claims[0], "done", "")
                return taken

            taken = await asyncio.gather(*(asyncio.to_thread(asyncio.run, drain(f"w{n}")) for n in range(4)))
            assert sum(taken) == 8
