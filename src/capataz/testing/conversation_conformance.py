"""What the conversations of every store must keep, each promise a test: one run at a time, in order, nothing lost.

    class TestMyConversations(ConversationConformance):
        def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue, Conversations]:
            store = MyStore(folder / "log")
            return store, store.queue(clock), store.conversations(clock)

Time is the test's: the store must read no other clock than the one it is given (a server's own clock may only be used
where `server_time` is set; then the tests wait instead). `make` called twice with one folder must give two stores on
the same conversations, unless `durable` is False.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capataz.events.facts import RunEnded, RunStarted, Said
from capataz.memory.conversation import Arrived, Conversations, Entered, Told
from capataz.mistakes import Misuse, NotFound
from capataz.ports import Job, Queue, Store
from capataz.testing.conformance import events, refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

LEASE = 0.6
"""Seconds of a lease in these tests: short, for stores whose time cannot be moved."""
LONG = 600.0


@dataclass(eq=False)
class Talk:
    """Conversations, with the store and queue beside them, and the time they live in."""

    store: Store
    queue: Queue
    talks: Conversations
    passed: Callable[[float], None] | None

    async def wait(self, seconds: float) -> None:
        if self.passed is not None:
            self.passed(seconds)
        else:
            await asyncio.sleep(seconds)

    async def say(self, run: str, text: str = "", patience: float = LONG, conversation: str = "c") -> None:
        await self.talks.arrive(Arrived(conversation, run, "a", text or f"from {run}", "acme", "ana", patience))

    async def enter(self, run: str, lease: float = LONG, conversation: str = "c") -> Entered | None:
        return await self.talks.enter(conversation, run, lease)

    async def inside(self, run: str, lease: float = LONG, conversation: str = "c") -> Entered:
        entered = await self.enter(run, lease, conversation)
        assert entered is not None, f"run {run} was not let in"
        return entered

    async def texts(self, conversation: str = "c") -> list[str]:
        return [said.text for said in (await self.talks.thread(conversation))[1]]

    async def log(self, run: str, conversation: str | None = None, root: str = "") -> None:
        lease = await self.store.claim(run, "w")
        started = RunStarted(run, "a", "t", conversation=conversation, root=root, parent=root or None)
        await self.store.append(lease, 0, events([started, RunEnded("answered", "answered")]))


class ConversationConformance:
    """The suite. Subclass it, name the subclass `Test…`, and give it `make`."""

    server_time = False
    """Whether leases end by a server's clock, which no test can move."""
    durable = True
    """Whether a second store on the same folder sees what the first one wrote."""

    def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue, Conversations]:
        raise NotImplementedError("give your test class a make")

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[Talk]:
        time = [1_000.0]

        def moved(seconds: float) -> None:
            time[0] += seconds

        store, queue, talks = self.make(folder, lambda: time[0])
        try:
            yield Talk(store, queue, talks, None if self.server_time else moved)
        finally:
            await store.close()

    # ── what is remembered ───────────────────────────────────────────────────────────────────────────────

    async def test_the_next_run_is_told_what_was_said_and_done(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.say("r1", "hi größe\udce9\0")
            assert await it.inside("r1") == Entered("", (), 0, ())
            await it.talks.leave("c", "r1", Told("hello", standing=("refund 81",)))
            await it.say("r2", "again")
            said = (Said("user", "hi größe\udce9\0", "r1"), Said("assistant", "hello", "r1"))
            assert await it.inside("r2") == Entered("", said, 0, ("refund 81",))
            assert await it.inside("r2") == Entered("", said, 0, ("refund 81",))

    async def test_what_a_run_leaves_may_be_told_twice_and_replaced(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.say("r1")
            await it.inside("r1")
            for told in (Told("so", standing=("k",)), Told("so", standing=("k",)), Told("rather so", standing=())):
                await it.talks.leave("c", "r1", told)
            await it.say("r2")
            entered = await it.inside("r2")
            assert [said.text for said in entered.said] == ["from r1", "rather so"]
            assert entered.standing == ()

    async def test_a_summary_stands_for_what_it_holds_and_counts_only_where_it_is_news(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            for n in range(3):
                await it.say(f"r{n}")
                await it.inside(f"r{n}")
                await it.talks.leave("c", f"r{n}", Told(f"answer {n}", "S" * n, 2 if n else 0))
            await it.say("r3")
            entered = await it.inside("r3")
            assert (entered.summary, entered.upto) == ("S", 2)
            assert [said.text for said in entered.said] == ["from r1", "answer 1", "from r2", "answer 2"]
            thread, said = await it.talks.thread("c")
            assert (thread.summary, thread.summarised, thread.messages, thread.waiting) == ("S", 2, 7, 0)
            assert len(said) == 7
            await it.talks.leave("c", "r3", Told("", "beyond the end", 99))
            assert (await it.talks.thread("c"))[0].summarised == 2

    # ── whose turn it is ─────────────────────────────────────────────────────────────────────────────────

    async def test_one_run_at_a_time_in_the_order_of_arrival(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            for run in ("r1", "r2", "r3"):
                await it.say(run)
            assert await it.enter("r2") is None
            await it.inside("r1")
            assert await it.enter("r2") is None
            await it.talks.leave("c", "r1", Told("one"))
            assert await it.enter("r3") is None
            await it.inside("r2")
            assert await it.texts() == ["from r1", "one", "from r2", "from r3"]
            assert [(row.run, row.messages, row.waiting) for row in await it.talks.threads()] == [("r2", 3, 1)]
            assert await it.talks.stay("c", "r2", 0)
            await it.inside("r3")

    async def test_other_conversations_do_not_wait(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.say("r1")
            await it.inside("r1")
            await it.say("r2", conversation="d")
            await it.inside("r2", conversation="d")
            assert [row.conversation for row in await it.talks.threads()] == ["d", "c"]
            assert len(await it.talks.threads(limit=1)) == 1

    async def test_whoever_stays_is_not_given_up(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.say("r1")
            await it.inside("r1", LEASE)
            await it.say("r2")
            await it.wait(LEASE / 2)
            assert await it.talks.stay("c", "r1", LONG)
            await it.wait(LEASE)
            assert await it.enter("r2") is None

    async def test_whoever_says_nothing_is_given_up_and_has_to_be_settled(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.say("r1")
            await it.inside("r1", LEASE)
            await it.say("r2")
            await it.wait(LEASE + 0.2)
            assert (await it.inside("r2")).unsettled == ("r1",)
            assert not await it.talks.stay("c", "r1", LONG)
            await it.talks.leave("c", "r1", Told("", standing=("refund 81",)))
            entered = await it.inside("r2")
            assert (entered.unsettled, entered.standing) == ((), ("refund 81",))
            assert await it.enter("r1") is None

    async def test_a_run_of_the_queue_has_its_turn_as_long_as_its_job_lives(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.queue.enqueue(Job("r1", "a", "t", conversation="c"))
            await it.say("r1", patience=0)
            await it.say("r2")
            await it.wait(LEASE)
            assert await it.enter("r2") is None
            await it.inside("r1", LEASE)
            await it.wait(LEASE + 0.2)
            assert await it.enter("r2") is None
            (claim,) = await it.queue.claim("w", ("a",), LONG)
            await it.queue.finish(claim, "done", "")
            assert (await it.inside("r2")).unsettled == ("r1",)

    async def test_a_message_nobody_stands_beside_any_more_counts_as_said(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.say("gone", patience=LEASE)
            await it.say("r2")
            assert await it.enter("r2") is None
            await it.wait(LEASE + 0.2)
            assert [said.text for said in (await it.inside("r2")).said] == ["from gone"]

    async def test_standing_beside_a_message_for_longer_keeps_its_turn(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.say("r1", patience=LEASE)
            await it.say("r2")
            await it.say("r1")
            await it.wait(LEASE + 0.2)
            assert await it.enter("r2") is None
            await it.talks.stay("c", "r1", 0)
            await it.inside("r2")

    async def test_the_job_of_the_next_message_is_woken(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.say("r1")
            await it.inside("r1")
            await it.queue.enqueue(Job("r2", "a", "t", conversation="c"))
            await it.say("r2", patience=0)
            (claim,) = await it.queue.claim("w", ("a",), LONG)
            await it.queue.release(claim, claim.until)
            assert await it.queue.claim("w", ("a",), LONG) == []
            await it.talks.leave("c", "r1", Told("one"))
            assert [claim.job.run for claim in await it.queue.claim("w", ("a",), LONG)] == ["r2"]

    async def test_a_conversation_is_one_person_s_with_one_agent(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.say("r1")
            for agent, tenant, user in (("b", "acme", "ana"), ("a", "rival", "ana"), ("a", "acme", "ben")):
                other = Arrived("c", "r2", agent, "tell me", tenant, user, LONG)
                assert "with another" in await refused(it.talks.arrive(other), Misuse)
            thread, said = await it.talks.thread("c")
            assert (thread.agent, thread.tenant, thread.user, len(said)) == ("a", "acme", "ana", 1)

    async def test_many_at_once_work_one_at_a_time_and_no_message_is_lost(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            at_work: list[str] = []

            async def run(n: int) -> None:
                it, name = (one if n % 2 or not self.durable else two), f"r{n}"
                await it.say(name)
                while (entered := await it.enter(name)) is None:  # noqa: ASYNC110 - others' turns
                    await asyncio.sleep(0.01)
                at_work.append(name)
                assert at_work == [name]
                assert entered.unsettled == ()
                await asyncio.sleep(0.005)
                at_work.remove(name)
                await it.talks.leave("c", name, Told(f"to {name}"))

            await asyncio.gather(*(run(n) for n in range(24)))
            said = (await one.talks.thread("c"))[1]
            assert sorted(item.run for item in said[::2]) == sorted(f"r{n}" for n in range(24))
            assert [(item.role, item.text) for item in said[1::2]] == [
                ("assistant", f"to {item.run}") for item in said[::2]
            ]

    # ── erasing ──────────────────────────────────────────────────────────────────────────────────────────

    async def test_an_erased_conversation_takes_its_runs_and_jobs_with_it(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as it:
            await it.queue.enqueue(Job("r1", "a", "t", conversation="c"))
            await it.say("r1", patience=0)
            await it.log("r1", "c")
            await it.log("child", root="r1")
            await it.log("other", "d")
            await it.say("r1x", conversation="d")
            await it.inside("r1")
            assert "at work" in await refused(it.talks.erase("c"), Misuse)
            assert await it.queue.cancel("r1", "erased") == "cancelled"
            await it.talks.leave("c", "r1", Told("one", "S", 1, ("k",)))
            assert await it.talks.erase("c") == 2
            assert [row.run for row in await it.store.runs()] == ["other"]
            assert await it.queue.jobs() == []
            assert [row.conversation for row in await it.talks.threads()] == ["d"]
            for work in (it.talks.thread("c"), it.talks.erase("c"), it.talks.enter("c", "r2", LONG)):
                assert "no conversation" in await refused(work, NotFound)
            await refused(it.store.read("r1"), NotFound)
            await it.say("r2")
            assert await it.inside("r2") == Entered("", (), 0, ())
