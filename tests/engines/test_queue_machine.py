"""Store, queue and kernel under any order of crashes, frozen workers, clock jumps and duplicate deliveries.

No run is lost, none is driven by two workers at once, no act happens twice, and none is completed without evidence.
CAPATAZ_STEPS=10000 runs so many steps instead of the few that fit into a test run.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from capataz import Agent, App, Budget, ToolContext, tool
from capataz.events.facts import RunEnded, RunEscalated, RunResumed
from capataz.kernel.cutting import break_off, step_of
from capataz.kernel.decide import decide
from capataz.mistakes import Fenced
from capataz.ports import Claim, Job, ModelRequest, Queue, Reply, TurnBeat, WorkerBeat
from capataz.runtime.journal import Journal
from capataz.runtime.launch import begun, taken
from capataz.runtime.perform import Performer
from capataz.runtime.yard import Spec, Task
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says

STEPS = int(os.environ.get("CAPATAZ_STEPS", "4000"))
EACH = 50
LEASE = 3.0
WORKERS = ("w0", "w1", "w2")


class Planner(ScriptedModel):
    """Looks, pays twice, says that it is done."""

    def __init__(self) -> None:
        super().__init__(self.next)

    def next(self, request: ModelRequest) -> Reply:
        turns = sum(message.role == "assistant" for message in request.history)
        plan = (calls(("look", {})), calls(("pay", {"order": "1"})), calls(("pay", {"order": "2"})))
        return plan[turns] if turns < len(plan) else says("done")


@dataclass
class Held:
    """A run as one worker has it."""

    claim: Claim
    journal: Journal
    performer: Performer
    epoch: int


@dataclass
class World:
    """What the tools act on. `gate` stops an act on one side of its effect."""

    paid: Counter[str] = field(default_factory=Counter[str])
    gate: str = ""
    at_gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, side: str) -> None:
        if self.gate == side:
            self.at_gate.set()
            await asyncio.Event().wait()

    def agent(self) -> Agent:
        @tool(kind="read")
        async def look() -> str:
            return "seen"

        @tool(kind="write", target="order", confirm=lambda idempotency_key, **_: idempotency_key in self.paid)
        async def pay(order: str, context: ToolContext) -> str:
            await self.wait("before")
            self.paid[context.idempotency_key] += 1
            await self.wait("after")
            return "paid"

        return Agent("clerk", Planner(), tools=[look, pay], budget=Budget(turns=30, seconds=None))


class Machine(RuleBasedStateMachine):
    """Three workers, stepped one at a time."""

    @initialize()
    def open(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.app = App(self.store, clock=self.clock, chance=FakeChance())
        self.queue: Queue = self.store.queue(self.clock.now)
        self.world = World()
        self.spec: Spec = self.world.agent().prepare(self.app)
        self.held: dict[str, dict[str, Held]] = {name: {} for name in WORKERS}
        self.keys: dict[str, str] = {}
        for key, worker in zip("ab", WORKERS, strict=False):
            self.submit_one(key, "", 0.0)
            self.do(self._claim(worker))

    def do(self, work: object) -> object:
        return self.loop.run_until_complete(work)  # type: ignore[arg-type]

    # ── what may happen ──────────────────────────────────────────────────────────────────────────────────

    @rule(key=st.sampled_from("abc"), tenant=st.sampled_from(["", "x"]), delay=st.sampled_from([0.0, 0.0, 2.0]))
    def submit(self, key: str, tenant: str, delay: float) -> None:
        """Delivered once, twice, or many times."""
        self.submit_one(key, tenant, delay)

    def submit_one(self, key: str, tenant: str, delay: float) -> None:
        agent = self.world.agent()

        async def deliver() -> str:
            job = Job(f"run-{key}-{len(self.keys)}", agent.name, "pay", None, None, tenant, 0, self.due(delay), key)
            return await self.queue.enqueue(job)

        run = str(self.do(deliver()))
        assert self.keys.setdefault(key, run) == run

    def due(self, delay: float) -> float:
        return self.clock.now() + delay if delay else 0.0

    @rule(worker=st.sampled_from(WORKERS))
    def claim(self, worker: str) -> None:
        self.do(self._claim(worker))

    async def _claim(self, worker: str) -> None:
        for claim in await self.queue.claim(worker, ("clerk",), LEASE, most=1):
            run, yard = claim.job.run, self.app.yard()
            known = {row.run for row in await self.store.runs(1000)}
            if run in known:
                journal, epoch = await taken(self.spec, run, yard)
            else:
                journal, epoch = await begun(self.spec, Task(claim.job.task, run=run), yard), 1
            assert await self.queue.begin(claim, step_of(journal.state)) is not None
            performer = Performer(journal, self.spec.worker, yard.around, {})
            self.held[worker][run] = Held(claim, journal, performer, epoch)
            if claim.order is not None:
                while records := break_off(journal.state, "cancelled", claim.order):
                    for record in records:
                        journal.record(record.fact)
            elif run in known and not journal.state.over:
                journal.record(RunResumed(epoch))
            await journal.durable()

    @precondition(lambda self: any(self.held.values()))
    @rule(
        data=st.data(),
        times=st.integers(1, 12),
        how=st.sampled_from(["on", "on", "on", "dies before", "dies after"]),
    )
    def step(self, data: st.DataObject, times: int, how: str) -> None:
        worker = data.draw(st.sampled_from([name for name in WORKERS if self.held[name]]))
        run = data.draw(st.sampled_from(sorted(self.held[worker])))
        for _ in range(times):
            if run in self.held[worker]:
                self.do(self._step(worker, run, how))

    async def _step(self, worker: str, run: str, how: str) -> None:
        held = self.held[worker][run]
        self.world.gate = how.removeprefix("dies ") if how != "on" else ""
        self.world.at_gate = asyncio.Event()
        before = Counter(self.world.paid)
        stepping = asyncio.ensure_future(self._perform(held))
        gated = asyncio.ensure_future(self.world.at_gate.wait())
        await asyncio.wait({stepping, gated}, return_when=asyncio.FIRST_COMPLETED, timeout=10)
        gated.cancel()
        if not stepping.done():  # the process dies in the middle of an act, with all it has
            stepping.cancel()
            await asyncio.wait({stepping}, timeout=10)
            self.held[worker].clear()
        elif stepping.exception() is not None:
            assert isinstance(stepping.exception(), Fenced), stepping.exception()
            del self.held[worker][run]
            await self.queue.release(held.claim)
        elif stepping.result():
            del self.held[worker][run]
        if self.world.paid != before:
            newest = self.store._logs[run].epoch
            assert held.epoch == newest, f"{worker} acted in epoch {held.epoch}, the newest is {newest}"

    async def _perform(self, held: Held) -> bool:
        """One decision; whether the run is over or waits, and the queue was told."""
        state = held.journal.state
        if commands := decide(state):
            await held.performer.perform(commands)
            await held.journal.durable()
        if not state.over:
            return False
        over = "done" if state.ended is not None else "waiting"
        await self.queue.finish(held.claim, over, "")  # type: ignore[arg-type]
        return True

    @rule(worker=st.sampled_from(WORKERS))
    def beat(self, worker: str) -> None:
        held = self.held[worker]
        turns = tuple(TurnBeat(run, each.claim.token, 0.0, "own", 60.0) for run, each in held.items())
        orders = self.do(self.queue.beat(WorkerBeat(worker, 3, len(held), 0.0, turns=turns), LEASE))
        for run in orders.lost:  # type: ignore[attr-defined]
            self.do(self.queue.release(held.pop(run).claim))

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def a_worker_acts_after_it_was_frozen(self, data: st.DataObject) -> None:
        """It was stopped between two steps, its run was taken over, and it goes on as if nothing had been."""
        frozen, heir = data.draw(st.permutations(WORKERS))[:2]
        if not self.held[frozen]:
            return
        run = data.draw(st.sampled_from(sorted(self.held[frozen])))
        for _ in range(data.draw(st.integers(0, 10))):
            if run in self.held[frozen]:
                self.do(self._step(frozen, run, "on"))
        self.clock.move(LEASE + 1.0)
        self.do(self._claim(heir))
        for worker in data.draw(st.lists(st.sampled_from((frozen, heir)), max_size=8)):
            if run in self.held[worker]:
                self.do(self._step(worker, run, "on"))

    @precondition(lambda self: any(self.held.values()))
    @rule(heir=st.sampled_from(WORKERS))
    def freeze_and_be_taken_over(self, heir: str) -> None:
        """Nobody beats for longer than a lease; another worker claims what is due; the first still thinks it has it."""
        self.clock.move(LEASE + 1.0)
        self.do(self._claim(heir))

    @rule(worker=st.sampled_from(WORKERS))
    def crash(self, worker: str) -> None:
        self.held[worker].clear()

    @rule(worker=st.sampled_from(WORKERS))
    def stop_politely(self, worker: str) -> None:
        for held in self.held[worker].values():
            self.do(self.queue.release(held.claim))
        self.held[worker].clear()

    @rule(seconds=st.sampled_from([0.5, 2.0, 4.0, 30.0, -5.0]))
    def time_passes_or_jumps(self, seconds: float) -> None:
        self.clock.move(seconds)

    @rule(worker=st.sampled_from(WORKERS))
    def look_after_the_others(self, worker: str) -> None:
        async def sweep() -> None:
            if not await self.queue.lead(worker, LEASE):
                return
            for row in await self.queue.workers():
                if row.until < self.clock.now() and row.beat.worker != worker:
                    await self.queue.leave(row.beat.worker, crashed=True)

        self.do(sweep())

    @precondition(lambda self: self.keys)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        run = self.keys[data.draw(st.sampled_from(sorted(self.keys)))]
        self.do(self.queue.cancel(run, "a person"))

    # ── what must hold ───────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def no_act_happens_twice(self) -> None:
        if hasattr(self, "world"):
            assert all(count == 1 for count in self.world.paid.values()), self.world.paid

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            self.do(self._to_the_end())
        finally:
            self.do(self.app.close())
            self.do(self.store.close())
            self.loop.close()

    async def _to_the_end(self) -> None:
        """One worker that is well brings everything to its end, however it was left."""
        self.held = {name: {} for name in WORKERS}
        self.clock.move(100.0)
        for _ in range(40 * max(1, len(self.keys))):
            if not self.held["w0"]:
                await self._claim("w0")
            if not self.held["w0"]:
                break
            await self._step("w0", next(iter(self.held["w0"])), "on")
        for run in self.keys.values():
            row = await self.queue.look(run)
            assert row is not None
            assert row.state in ("done", "waiting", "cancelled"), f"run {run} is lost: {row}"
            if row.state != "cancelled":
                await self._ended(run)

    async def _ended(self, run: str) -> None:
        last = [event.fact for event in await self.store.read(run)][-1]
        assert isinstance(last, RunEnded | RunEscalated), last
        if isinstance(last, RunEnded) and last.outcome == "completed":
            assert last.evidence
            assert sum(key.startswith(f"{run}:") for key in self.world.paid) == 2


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=max(1, STEPS // EACH),
    stateful_step_count=EACH,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
