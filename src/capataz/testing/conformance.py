"""What every store must keep, each promise a test. A store of your own proves itself like this:

    class TestMyStore(StoreConformance):
        def make_store(self, folder: Path) -> Store:
            return MyStore(folder / "log")

`make_store` called twice with one folder must give two stores on the same logs, unless `durable` is False. The tests
are coroutines taking pytest's `tmp_path`; run them with pytest-asyncio in its automatic mode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from capataz.events.facts import (
    Call,
    ChildEnded,
    Event,
    Fact,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunResumed,
    RunStarted,
    Spend,
    ToolFinished,
    ToolStarted,
    Usage,
    WaitEnded,
)
from capataz.mistakes import CapatazError, Fenced, Misuse, NotFound, StoreError
from capataz.ports import Store

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable


def events(facts: Sequence[Fact], first: int = 0, at: float = 100.0) -> list[Event]:
    """The facts as events from position `first`, a second apart."""
    return [Event(first + n, at + n, fact) for n, fact in enumerate(facts)]


async def refused(work: Awaitable[object], kind: type[CapatazError]) -> str:
    """The words of the error the work must fail with."""
    try:
        await work
    except kind as error:
        return str(error)
    except CapatazError as error:
        raise AssertionError(f"expected {kind.__name__}, got {error!r}") from error
    raise AssertionError(f"expected {kind.__name__}, nothing was raised")


class StoreConformance:
    """The suite. Subclass it, name the subclass `Test…`, and give it `make_store`."""

    durable = True
    """Whether a second store on the same folder sees what the first one wrote."""

    def make_store(self, folder: Path) -> Store:
        raise NotImplementedError("give your test class a make_store")

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[Store]:
        store = self.make_store(folder)
        try:
            yield store
        finally:
            await store.close()

    # ── reading what was written ─────────────────────────────────────────────────────────────────────────

    async def test_events_come_back_in_order_and_as_they_were(self, tmp_path: Path) -> None:
        call = Call(1, 0, "c1", "find", {"q": "größe", "n": 2**70, "deep": [{"x": None}]}, kind="search")
        written = events(
            [
                RunStarted("r", "agent", "task"),
                ModelReplied(1, 1, "", (call,), usage=Usage(3, 4, money=Decimal("0.001"))),
                ToolStarted(1, 0, "find"),
                ToolFinished(call, {"rows": []}),
                RunEnded("answered", "answered", answer="nothing"),
            ]
        )
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "w")
            for event in written:
                await store.append(lease, event.seq, [event])
            assert await store.read("r") == written
            assert await store.read("r", after=2) == written[3:]
            assert await store.read("r", after=4) == []

    async def test_appends_not_waited_for_keep_the_order_of_the_calls(self, tmp_path: Path) -> None:
        written = events([RunStarted("r", "a", "t"), *(WaitEnded(n) for n in range(200))])
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "w")
            done = [store.append(lease, event.seq, [event]) for event in written]
            await asyncio.gather(*done)
            assert await store.read("r") == written

    async def test_what_is_queued_when_the_store_is_closed_is_written(self, tmp_path: Path) -> None:
        store = self.make_store(tmp_path)
        lease = await store.claim("r", "w")
        done = store.append(lease, 0, events([RunStarted("r", "a", "t")]))
        await store.close()
        await done
        await store.close()
        if self.durable:
            async with self.opened(tmp_path) as again:
                assert len(await again.read("r")) == 1

    async def test_a_closed_store_says_so(self, tmp_path: Path) -> None:
        store = self.make_store(tmp_path)
        lease = await store.claim("r", "w")
        await store.close()
        assert "closed" in await refused(store.append(lease, 0, events([RunStarted("r", "a", "t")])), StoreError)
        assert "closed" in await refused(store.claim("r", "w"), StoreError)

    async def test_what_was_acknowledged_is_there_after_reopening(self, tmp_path: Path) -> None:
        if not self.durable:
            return
        written = events([RunStarted("r", "a", "t"), WaitEnded(1), RunEscalated("doubt", "?")])
        async with self.opened(tmp_path) as store:
            await store.append(await store.claim("r", "w"), 0, written)
        async with self.opened(tmp_path) as store:
            assert await store.read("r") == written
            assert [row.status for row in await store.runs()] == ["escalated"]
            lease = await store.claim("r", "w2")
            assert lease.epoch == 2
            await store.append(lease, 3, events([RunResumed(2)], 3))
            assert [row.status for row in await store.runs()] == ["running"]

    async def test_there_is_no_such_run(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            assert "ghost" in await refused(store.read("ghost"), NotFound)
            assert await store.runs() == []
            await store.claim("claimed", "w")
            assert "claimed" in await refused(store.read("claimed"), NotFound)
            assert await store.runs() == []

    # ── the fence ────────────────────────────────────────────────────────────────────────────────────────

    async def test_every_claim_raises_the_epoch_and_shuts_out_earlier_holders(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            zombie = await store.claim("r", "zombie")
            await store.append(zombie, 0, events([RunStarted("r", "a", "t")]))
            heir = await store.claim("r", "heir")
            assert (zombie.epoch, heir.epoch) == (1, 2)
            assert (heir.run, heir.owner) == ("r", "heir")
            assert "heir" in await refused(store.append(zombie, 1, events([WaitEnded(1)], 1)), Fenced)
            await store.append(heir, 1, events([WaitEnded(2)], 1))
            assert [event.fact for event in await store.read("r", after=0)] == [WaitEnded(2)]

    async def test_a_position_that_is_taken_is_refused_and_nothing_changes(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "w")
            written = events([RunStarted("r", "a", "t"), WaitEnded(1)])
            await store.append(lease, 0, written)
            assert "taken" in await refused(store.append(lease, 1, events([WaitEnded(9), WaitEnded(9)], 1)), Fenced)
            assert await store.read("r") == written
            assert [row.events for row in await store.runs()] == [2]

    async def test_a_gap_is_refused_and_so_is_all_that_follows_it(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "w")
            first = store.append(lease, 0, events([RunStarted("r", "a", "t")]))
            gap = store.append(lease, 2, events([WaitEnded(2)], 2))
            after = store.append(lease, 3, events([WaitEnded(3)], 3))
            await first
            await refused(gap, Fenced)
            await refused(after, Fenced)
            assert len(await store.read("r")) == 1

    async def test_one_refused_append_does_not_trouble_the_others(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            leases = [await store.claim(f"r{n}", "w") for n in range(20)]
            await store.claim("r7", "heir")
            done = [store.append(lease, 0, events([RunStarted(lease.run, "a", "t")])) for lease in leases]
            results = await asyncio.gather(*done, return_exceptions=True)
            assert isinstance(results[7], Fenced)
            assert [result for result in results if result is not None] == [results[7]]
            assert len(await store.runs()) == 19

    async def test_without_a_claim_nothing_is_written(self, tmp_path: Path) -> None:
        from capataz.ports import Lease

        async with self.opened(tmp_path) as store:
            await refused(store.append(Lease("r", "w", 1), 0, events([RunStarted("r", "a", "t")])), Fenced)
            await refused(store.read("r"), NotFound)

    async def test_events_that_do_not_follow_one_another_are_the_callers_mistake(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "w")

            async def wrong() -> None:
                await store.append(lease, 0, [Event(0, 0.0, WaitEnded(1)), Event(2, 0.0, WaitEnded(2))])

            assert "position 1" in await refused(wrong(), Misuse)

    # ── many at once ─────────────────────────────────────────────────────────────────────────────────────

    async def test_many_runs_at_once(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:

            async def one(run: str) -> None:
                lease = await store.claim(run, "w")
                await store.append(lease, 0, events([RunStarted(run, "a", "t")]))
                for n in range(1, 10):
                    await store.append(lease, n, events([WaitEnded(n)], n))

            await asyncio.gather(*(one(f"r{n}") for n in range(60)))
            for n in range(60):
                assert [event.seq for event in await store.read(f"r{n}")] == list(range(10))

    async def test_several_event_loops_share_a_store(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:

            async def one(run: str) -> int:
                lease = await store.claim(run, "w")
                for n in range(5):
                    await store.append(lease, n, events([WaitEnded(n)], n))
                return len(await store.read(run))

            lengths = await asyncio.gather(*(asyncio.to_thread(asyncio.run, one(f"r{n}")) for n in range(4)))
            assert lengths == [5] * 4

    async def test_giving_up_waiting_does_not_take_the_events_back(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "w")
            done = store.append(lease, 0, events([RunStarted("r", "a", "t")]))
            done.cancel()
            await store.append(lease, 1, events([WaitEnded(1)], 1))
            assert len(await store.read("r")) == 2

    # ── the list ─────────────────────────────────────────────────────────────────────────────────────────

    async def test_the_list_says_what_folding_the_log_would_say(self, tmp_path: Path) -> None:
        call = Call(1, 0, "c", "refund", {}, kind="write")
        facts: list[Fact] = [
            RunStarted(
                "r", "shop", "refund 81", model="m", task_type="refund", conversation="c7", parent="p", root="p"
            ),
            ModelReplied(1, 1, "", (call,), usage=Usage(100, 10, money=Decimal("0.25"))),
            ToolStarted(1, 0, "refund"),
            ToolFinished(call, "ok"),
            ModelReplied(1, 1, "summary", purpose="compressing", usage=Usage(50, 5, money=Decimal("0.05"))),
            ChildEnded("k", "helper", "answered", Spend(2, 3, 7, 8, Decimal("0.10"), 4.0), 1, 0),
            ModelReplied(2, 1, "done", usage=Usage(120, 12, money=Decimal("0.25"))),
        ]
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "w")
            await store.append(lease, 0, events(facts))
            (row,) = await store.runs()
            assert (row.run, row.agent, row.task, row.model) == ("r", "shop", "refund 81", "m")
            assert (row.root, row.parent, row.conversation, row.task_type) == ("p", "p", "c7", "refund")
            assert (row.status, row.outcome, row.reason, row.events) == ("running", None, "", 7)
            assert (row.started_at, row.ended_at) == (100.0, None)
            assert row.spend == Spend(4, 4, 277, 35, Decimal("0.65"), 6.0)
            await store.append(lease, 7, events([RunEnded("partial", "ceiling")], 7, at=110.0))
            (row,) = await store.runs()
            assert (row.status, row.outcome, row.reason) == ("ended", "partial", "ceiling")
            assert (row.ended_at, row.spend.seconds) == (110.0, 10.0)

    async def test_an_unknown_price_makes_the_money_unknown(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "w")
            paid = ModelReplied(1, 1, "", usage=Usage(1, 1, money=Decimal(1)))
            await store.append(lease, 0, events([RunStarted("r", "a", "t"), paid]))
            assert (await store.runs())[0].spend.money == Decimal(1)
            await store.append(lease, 2, events([ModelReplied(2, 1, "", usage=Usage(1, 1)), paid], 2))
            assert (await store.runs())[0].spend.money is None

    async def test_the_list_is_newest_first_and_can_be_narrowed(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for n in range(6):
                agent, root = ("even", "r0") if n % 2 == 0 else ("odd", "")
                lease = await store.claim(f"r{n}", "w")
                await store.append(lease, 0, events([RunStarted(f"r{n}", agent, "t", root=root)], at=float(n)))
                if n < 2:
                    await store.append(lease, 1, events([RunEnded("aborted", "auth")], 1))

            async def names(**filters: object) -> list[str]:
                return [row.run for row in await store.runs(**filters)]  # type: ignore[arg-type]

            assert await names() == ["r5", "r4", "r3", "r2", "r1", "r0"]
            assert await names(limit=2) == ["r5", "r4"]
            assert await names(agent="odd") == ["r5", "r3", "r1"]
            assert await names(outcome="aborted") == ["r1", "r0"]
            assert await names(root="r0") == ["r4", "r2", "r0"]
            assert await names(root="r5") == ["r5"]
            assert await names(before=3.0) == ["r2", "r1", "r0"]
            assert await names(before=3.0, agent="odd", limit=1) == ["r1"]

    async def test_a_very_long_task_and_broken_text_are_kept_whole_in_the_log(self, tmp_path: Path) -> None:
        task = "a\udce9" * 100_000
        async with self.opened(tmp_path) as store:
            lease = await store.claim("r", "w")
            await store.append(lease, 0, events([RunStarted("r", "a", task)]))
            (event,) = await store.read("r")
            assert isinstance(event.fact, RunStarted)
            assert event.fact.task == task
            assert len((await store.runs())[0].task) <= len(task)
