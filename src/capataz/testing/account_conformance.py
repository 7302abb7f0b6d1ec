"""What the accounts of every store must keep, each promise a test: never overspent, and nothing lost.

    class TestMyAccounts(AccountConformance):
        def make_store(self, folder: Path) -> AccountStore:
            return MyStore(folder / "log")

`make_store` called twice with one folder must give two stores on the same accounts, unless `durable` is False.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from capataz.events.facts import (
    Event,
    Fact,
    Fault,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunStarted,
    Usage,
)
from capataz.mistakes import Fenced
from capataz.money.accounts import Limit, Payer, Refusal, Reservation
from capataz.ports import Accounts, Lease, Store
from capataz.testing.conformance import refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

NOON = 1_796_040_000.0  # 2026-11-30 12:00 UTC
ANA = Payer("run-1", "clerk", "acme", "ana")


class AccountStore(Store, Protocol):
    """A store that keeps balances beside its logs."""

    def accounts(self) -> Accounts: ...


def wanted(tokens: int = 100, money: str | None = "0.10", payer: Payer = ANA, at: float = NOON) -> Reservation:
    return Reservation(payer, "loop", tokens, None if money is None else Decimal(money), at, at + 60)


def replied(tokens: int, money: str | None) -> ModelReplied:
    return ModelReplied(1, 0, "x", usage=Usage(0, tokens, money=None if money is None else Decimal(money)))


FAILED = ModelCallFailed(1, 0, Fault("transient", "server-error", "x", 500))


class Desk:
    """Runs of a store, by hand: what the runtime does with a call, in single steps."""

    def __init__(self, store: AccountStore) -> None:
        self.store, self.accounts = store, store.accounts()
        self.leases: dict[str, Lease] = {}
        self.seqs: dict[str, int] = {}

    async def begin(self, run: str) -> None:
        self.leases[run] = await self.store.claim(run, "me")
        await self.store.append(self.leases[run], 0, [Event(0, NOON, RunStarted(run, "clerk", "t"))])
        self.seqs[run] = 0

    async def start(self, run: str, ask: Reservation, *limits: Limit) -> Refusal | None:
        if run not in self.leases:
            await self.begin(run)
        return await self.asked(run, ask, *limits)

    def asked(self, run: str, ask: Reservation, *limits: Limit) -> Future[Refusal | None]:
        """The start of a call of a run that was begun, not waited for."""
        self.seqs[run] += 1
        started = [Event(self.seqs[run], ask.at, ModelCallStarted(1, 0, "m"))]
        return self.accounts.reserve(self.leases[run], self.seqs[run], started, ask, limits)

    def end(self, run: str, fact: Fact) -> Future[None]:
        self.seqs[run] += 1
        seq = self.seqs[run]
        return self.store.append(self.leases[run], seq, [Event(seq, NOON, fact)])

    async def used(self, by: str = "tenant", bucket: str = "total") -> tuple[int, Decimal]:
        rows = await self.accounts.spent(by, bucket)
        return sum(row.tokens for row in rows), sum((row.money for row in rows), Decimal(0))


class AccountConformance:
    """The suite. Subclass it, name the subclass `Test…`, and give it `make_store`."""

    durable = True
    """Whether a second store on the same folder sees what the first one wrote."""

    def make_store(self, folder: Path) -> AccountStore:
        raise NotImplementedError("give your test class a make_store")

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[Desk]:
        store = self.make_store(folder)
        try:
            yield Desk(store)
        finally:
            await store.close()

    # ── one call after another ───────────────────────────────────────────────────────────────────────────

    async def test_what_is_reserved_counts_until_it_is_settled(self, tmp_path: Path) -> None:
        limit = Limit("tenant", "acme", "day", tokens=100)
        async with self.opened(tmp_path) as desk:
            assert await desk.start("a", wanted(60), limit) is None
            no = await desk.start("b", wanted(60), limit)
            assert no is not None
            assert "60 reserved" in no.words
            assert "try again" in no.words
            await desk.end("a", replied(30, "0.01"))
            assert await desk.used() == (30, Decimal("0.01"))
            assert await desk.start("b", wanted(60), limit) is None
            await desk.end("b", FAILED)
            assert await desk.used() == (30, Decimal("0.01"))
            assert await desk.start("b", wanted(70), limit) is None

    async def test_a_refused_call_holds_nothing_and_its_start_is_written(self, tmp_path: Path) -> None:
        limit = Limit("user", "acme/ana", "total", tokens=10)
        async with self.opened(tmp_path) as desk:
            assert await desk.start("a", wanted(60), limit) is not None
            assert await desk.start("a", wanted(10), limit) is None
            assert len(await desk.store.read("a")) == 3

    async def test_whoever_lost_the_run_holds_nothing(self, tmp_path: Path) -> None:
        limit = Limit("tenant", "acme", "total", tokens=100)
        async with self.opened(tmp_path) as desk:
            await desk.begin("a")
            await desk.store.claim("a", "heir")
            await refused(desk.asked("a", wanted(60), limit), Fenced)
            assert await desk.start("b", wanted(100), limit) is None

    async def test_an_answer_that_broke_off_is_charged_as_reserved(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as desk:
            await desk.start("a", wanted(60))
            await desk.end("a", ModelCallFailed(1, 0, Fault("transient", "truncated", "x"), billed=True))
            (row,) = await desk.accounts.spent("tenant")
            assert (row.calls, row.tokens, row.money, row.guessed) == (1, 60, Decimal("0.10"), 1)

    async def test_a_reply_that_reports_no_usage_is_charged_as_reserved(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as desk:
            await desk.start("a", wanted(60))
            await desk.end("a", ModelReplied(1, 0, "x", usage=Usage(2, 1, money=Decimal("0.01"), reported=False)))
            (row,) = await desk.accounts.spent("tenant")
            assert (row.calls, row.tokens, row.money, row.guessed) == (1, 60, Decimal("0.10"), 1)

    async def test_users_are_kept_apart_whatever_they_are_called(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as desk:
            people = (("a", "b/c"), ("a/b", "c"), ("", "a/b/c"), ("a%2Fb", "c"))
            for n, (tenant, user) in enumerate(people):
                await desk.start(f"r{n}", wanted(payer=Payer(f"r{n}", "clerk", tenant, user)))
                await desk.end(f"r{n}", replied(1, "0"))
            assert len(await desk.accounts.spent("user")) == len(people)

    async def test_a_run_that_ends_with_a_call_under_way_is_charged_as_reserved(self, tmp_path: Path) -> None:
        limit = Limit("tenant", "acme", "total", tokens=100)
        async with self.opened(tmp_path) as desk:
            await desk.begin("a")
            asked = desk.asked("a", wanted(60), limit)
            await desk.end("a", RunEnded("aborted", "cancelled"))  # not waited for in between
            assert await asked is None
            assert await desk.used() == (60, Decimal("0.10"))
            assert await desk.start("b", wanted(41), limit) is not None

    async def test_more_than_was_reserved_is_recorded_and_the_next_is_refused(self, tmp_path: Path) -> None:
        limit = Limit("agent", "clerk", "month", tokens=100)
        async with self.opened(tmp_path) as desk:
            assert await desk.start("a", wanted(60), limit) is None
            await desk.end("a", replied(130, "0.50"))
            (row,) = await desk.accounts.spent("agent")
            assert (row.tokens, row.money, row.over) == (130, Decimal("0.50"), 1)
            assert await desk.start("b", wanted(1), limit) is not None

    async def test_a_call_nobody_heard_of_again_is_charged_once_its_time_is_over(self, tmp_path: Path) -> None:
        limit = Limit("tenant", "acme", "total", tokens=100)
        async with self.opened(tmp_path) as desk:
            assert await desk.start("lost", wanted(60), limit) is None
            assert await desk.start("b", wanted(60, at=NOON + 3600), limit) is not None
            assert (await desk.used())[0] == 60
            assert (await desk.accounts.spent("source"))[0].guessed == 1
            assert await desk.start("c", wanted(40, at=NOON + 3600), limit) is None
            await desk.end("lost", replied(10, "0.01"))
            assert (await desk.used())[0] == 60

    # ── whose, and in which period ───────────────────────────────────────────────────────────────────────

    async def test_yesterday_does_not_count_today(self, tmp_path: Path) -> None:
        limit = Limit("tenant", "*", "day", tokens=100)
        async with self.opened(tmp_path) as desk:
            assert await desk.start("a", wanted(80), limit) is None
            await desk.end("a", replied(80, None))
            assert await desk.start("b", wanted(80), limit) is not None
            assert await desk.start("b", wanted(80, at=NOON + 86400), limit) is None
            assert (await desk.used(bucket="2026-11-30"))[0] == 80
            (row,) = await desk.accounts.spent("tenant")
            assert row.unpriced == 1

    async def test_each_account_has_a_balance_of_its_own(self, tmp_path: Path) -> None:
        ben, eva = Payer("run-1", "clerk", "acme", "ben"), Payer("run-2", "scout", "rival", "ana")
        async with self.opened(tmp_path) as desk:
            assert await desk.start("a", wanted(60)) is None
            await desk.end("a", replied(40, "0.04"))
            assert await desk.start("a", wanted(60)) is None
            for whose, name, other in (
                ("user", "acme/ana", ben),
                ("tenant", "acme", eva),
                ("agent", "clerk", eva),
            ):
                limit = Limit(whose, "*", "total", tokens=100)  # type: ignore[arg-type]
                assert await desk.start(f"{whose}-same", wanted(1), limit) is not None, name
                assert await desk.start(f"{whose}-other", wanted(1, payer=other), limit) is None
                await desk.end(f"{whose}-other", FAILED)
            run = Limit("all", "*", "run", tokens=100)
            assert await desk.start("child", wanted(1, payer=ben), run) is not None
            assert await desk.start("stranger", wanted(1, payer=eva), run) is None
            assert await desk.start("anybody", wanted(1, payer=eva), Limit("all", "*", "total", tokens=101)) is not None

    async def test_money_is_summed_without_a_rest(self, tmp_path: Path) -> None:
        limit = Limit("tenant", "acme", "total", money=Decimal("0.03"))
        async with self.opened(tmp_path) as desk:
            for _ in range(3):
                assert await desk.start("a", wanted(1, "0.01"), limit) is None
                await desk.end("a", replied(1, "0.0099999999"))
            assert (await desk.used())[1] == Decimal("0.0299999997")
            assert await desk.start("a", wanted(1, "0.0000000004"), limit) is not None
            assert await desk.start("a", wanted(1, None), limit) is not None
            assert await desk.start("a", wanted(1, "0.0000000003"), limit) is None

    async def test_limits_set_in_the_store_go_before_those_of_the_code(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as desk:
            await desk.accounts.allow(Limit("tenant", "acme", "day", tokens=50))
            assert await desk.start("a", wanted(60), Limit("tenant", "acme", "day", tokens=1000)) is not None
            await desk.accounts.allow(Limit("tenant", "acme", "day", tokens=70, money=2))
            assert await desk.accounts.limits() == [Limit("tenant", "acme", "day", 70, Decimal(2))]
            assert await desk.start("a", wanted(60)) is None
            assert await desk.accounts.disallow("tenant", "acme", "day")
            assert not await desk.accounts.disallow("tenant", "acme", "day")
            assert await desk.start("b", wanted(10_000)) is None

    async def test_what_was_spent_is_listed_by_each_the_greatest_first(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as desk:
            for run, tenant, tokens, money in (("a", "x", 5, "1"), ("b", "y", 7, "3"), ("c", "x", 1, "1")):
                await desk.start(run, wanted(payer=Payer(run, "clerk", tenant, "ana")))
                await desk.end(run, replied(tokens, money))

            async def listed(by: str, limit: int = 100) -> list[tuple[str, int, int, Decimal]]:
                rows = await desk.accounts.spent(by, limit=limit)
                return [(row.name, row.calls, row.tokens, row.money) for row in rows]

            assert await listed("tenant") == [("y", 1, 7, Decimal(3)), ("x", 2, 6, Decimal(2))]
            assert await listed("tenant", 1) == [("y", 1, 7, Decimal(3))]
            assert [row[0] for row in await listed("user")] == ["y/ana", "x/ana"]
            assert await listed("source") == [("loop", 3, 13, Decimal(5))]
            assert [row[:2] for row in await listed("run")] == [("b", 1), ("a", 1), ("c", 1)]

    # ── many at once ─────────────────────────────────────────────────────────────────────────────────────

    async def test_many_at_once_are_admitted_up_to_the_limit_and_not_one_more(self, tmp_path: Path) -> None:
        limits = [Limit("tenant", "acme", "total", tokens=1000), Limit("user", "*", "day", tokens=2000)]
        async with self.opened(tmp_path) as here, self.opened(tmp_path) as other:
            there = other if self.durable else here

            async def call(n: int) -> bool:
                desk = here if n % 2 else there
                for _ in range(3):
                    if await desk.start(f"r{n}", wanted(50), *limits) is not None:
                        return False
                    await desk.end(f"r{n}", replied(20, "0.01"))
                return True

            await asyncio.gather(*(call(n) for n in range(60)))
            (row,) = await here.accounts.spent("tenant")
            assert row.tokens == row.calls * 20 <= 1000
            held = await asyncio.gather(
                *((here if n % 2 else there).start(f"s{n}", wanted(50), *limits) for n in range(60))
            )
            assert sum(each is None for each in held) == (1000 - row.tokens) // 50
