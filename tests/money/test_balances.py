"""What may be spent: refused before it leaves, never twice the same money, and nothing lost with a killed worker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from capataz import Agent, Answered, App, Misuse, Outcome, Partial, tool
from capataz.events.facts import Fault, ModelCallFailed, ModelCallStarted, Usage
from capataz.money.accounts import (
    Balance,
    Limit,
    Payer,
    applicable,
    begins,
    buckets,
    dollars,
    grains,
    refusal,
    resets,
)
from capataz.ports import ModelRequest, Reply
from capataz.stores.memory import MemoryStore
from capataz.stores.sqlite import SqliteStore
from capataz.testing.account_conformance import (
    ANA,
    NOON,
    AccountConformance,
    AccountStore,
    Desk,
    replied,
    wanted,
)
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says

PRICES = {"scripted": (0.0, 80.0)}
"""A thousand tokens of output cost eight cents."""


@tool(kind="read")
def look() -> str:
    """Look."""
    return "ok"


def clerk(model: Any, **given: Any) -> Agent:
    return Agent("clerk", model, [look], role="talking", max_output=given.pop("max_output", 1000), **given)


def spends(*outputs: int) -> ScriptedModel:
    return ScriptedModel(*(says("t", Usage(10, output)) for output in outputs))


# ── what a limit says ────────────────────────────────────────────────────────────────────────────────────────


def test_days_and_months_are_those_of_utc() -> None:
    assert buckets(NOON) == {"day": "2026-11-30", "month": "2026-11", "total": "total"}
    assert NOON - begins("day", NOON) == 12 * 3600
    assert begins("total", NOON) == 0.0
    assert resets("day", NOON) == "2026-12-01 00:00 UTC"
    assert resets("month", NOON) == "2026-12-01 00:00 UTC"
    assert resets("month", NOON + 86400 * 20) == "2027-01-01 00:00 UTC"
    assert resets("total", NOON) == ""


def test_a_limit_of_one_s_own_goes_before_the_plan_and_a_later_one_before_an_earlier_one() -> None:
    plan, own, later = Limit("user", "*", "day", 10), Limit("user", "acme/ana", "day", 20), Limit("user", "*", "day", 5)
    assert applicable([plan, own], ANA) == [own]
    assert applicable([plan, later], ANA) == [later]
    assert applicable([own], Payer("r", "clerk", "acme", "ben")) == []
    assert applicable([Limit("tenant", "*", "day", 1)], Payer("r", "clerk")) == []
    assert applicable([Limit("all", "*", "day", 1)], Payer("r", "clerk")) != []


def test_a_refusal_says_which_plan_and_what_would_help() -> None:
    limit = Limit("tenant", "acme", "day", money=10)
    refused = refusal(limit, Balance(money=Decimal("9.90"), held_money=Decimal("0.02")), wanted(money="0.10"))
    assert refused is not None
    assert refused.reason == "budget-tenant-day"
    for words in ("'acme'", "$10.00", "$9.9000 spent", "$0.0200 reserved", "$0.1000", "resets at 2026-12-01 00:00 UTC"):
        assert words in refused.words
    assert refusal(limit, Balance(money=Decimal("9.90")), wanted(money="0.10")) is None
    fault = refused.fault()
    assert (fault.row, fault.retries, fault.status) == ("ours", 0, None)


def test_an_unknown_price_is_never_taken_for_free() -> None:
    refused = refusal(Limit("all", "*", "total", money=1000), Balance(), wanted(money=None))
    assert refused is not None
    assert refused.reason == "budget-price-unknown"
    assert refusal(Limit("all", "*", "total", tokens=1000), Balance(), wanted(money=None)) is None


@pytest.mark.parametrize(
    "given",
    [
        ("planet", "x", "day", 1),
        ("user", "", "day", 1),
        ("user", "x", "week", 1),
        ("user", "x"),
        ("user", "x", "day", -1),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(Misuse):
        Limit(*given)


@given(st.decimals(min_value=0, max_value=10**6, places=10))
def test_money_is_counted_without_a_rest(money: Decimal) -> None:
    assert dollars(grains(money)) == money


# ── in the store ─────────────────────────────────────────────────────────────────────────────────────────────


class TestSqliteAccounts(AccountConformance):
    def make_store(self, folder: Path) -> AccountStore:
        return SqliteStore(folder / "capataz.db")


class TestMemoryAccounts(AccountConformance):
    durable = False

    def make_store(self, folder: Path) -> AccountStore:
        return MemoryStore()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 60), st.integers(0, 60)), max_size=30))
@settings(max_examples=40, deadline=None)
async def test_a_balance_is_never_overspent_while_calls_use_what_they_reserved(
    steps: list[tuple[int, int, int]],
) -> None:
    desk, limit, flying = Desk(MemoryStore()), Limit("tenant", "acme", "total", tokens=100), dict[str, int]()
    for number, most, used in steps:
        run = f"run-{number}"
        if run in flying:
            await desk.end(run, replied(min(used, flying.pop(run)), "0"))
        elif await desk.start(run, wanted(most), limit) is None:
            flying[run] = most
        assert (await desk.used())[0] + sum(flying.values()) <= 100


# ── in a run ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_refusal_is_an_outcome_and_nothing_leaves() -> None:
    model = spends(1000)
    limits = [Limit("tenant", "acme", "day", money=0.05)]
    async with App(MemoryStore(), clock=FakeClock(NOON), prices=PRICES, accounts=limits) as app:
        outcome = await clerk(model).arun("t", app=app, tenant="acme")
        facts = [event.fact for event in await app.store.read(outcome.run)]
    assert isinstance(outcome, Partial)
    assert outcome.reason == "budget-tenant-day"
    assert "resets at 2026-12-01" in outcome.detail
    assert model.requests == []
    assert len([fact for fact in facts if isinstance(fact, ModelCallStarted)]) == 1
    (failed,) = [fact for fact in facts if isinstance(fact, ModelCallFailed)]
    assert (failed.fault.row, failed.fault.status) == ("ours", None)


async def test_a_run_keeps_the_last_useful_answer_when_its_account_is_empty() -> None:
    model = ScriptedModel(calls(("look", {}), text="The lamp is in the hall.", usage=Usage(10, 900)), "never")
    limits = [Limit("user", "*", "run", tokens=2500)]
    async with App(MemoryStore(), clock=FakeClock(NOON), accounts=limits) as app:
        outcome = await clerk(model).arun("t", app=app, user="ana")
        again = await clerk(spends(5)).arun("t", app=app, user="ana")
    assert isinstance(outcome, Partial)
    assert outcome.reason == "budget-user-run"
    assert "The lamp is in the hall." in outcome.answer
    assert len(model.requests) == 1
    assert isinstance(again, Answered)


async def test_without_limits_everything_is_booked_and_nothing_refused() -> None:
    async with App(MemoryStore(), clock=FakeClock(NOON), prices=PRICES) as app:
        await clerk(spends(1000)).arun("t", app=app, tenant="acme", user="ana")
        for by, name in (("tenant", "acme"), ("user", "acme/ana"), ("agent", "clerk"), ("source", "loop")):
            (row,) = await app.accounts.spent(by)
            assert (row.name, row.input, row.output, row.money) == (name, 10, 1000, Decimal("0.08"))


async def test_a_limit_set_in_the_store_counts_at_once_here_and_soon_elsewhere() -> None:
    clock = FakeClock(NOON)
    store = MemoryStore()
    async with App(store, clock=clock) as here, App(store, clock=clock) as there:
        assert isinstance(await clerk(spends(5)).arun("t", app=here, tenant="a"), Answered)
        assert isinstance(await clerk(spends(5)).arun("t", app=there, tenant="a"), Answered)
        await here.accounts.allow(Limit("tenant", "a", "total", tokens=20))
        assert isinstance(await clerk(spends(5)).arun("t", app=here, tenant="a"), Partial)
        clock.move(6)
        assert isinstance(await clerk(spends(5)).arun("t", app=there, tenant="a"), Partial)


async def test_a_model_under_a_limit_is_told_how_much_it_may_say() -> None:
    seen: list[int | None] = []

    class Listening(ScriptedModel):
        async def complete(self, request: ModelRequest, beat: Any) -> Reply:
            seen.append(request.max_output)
            return await super().complete(request, beat)

    async with App(MemoryStore(), clock=FakeClock(NOON)) as app:
        await clerk(Listening("t"), max_output=None).arun("t", app=app, tenant="a")
        await app.accounts.allow(Limit("tenant", "a", "total", tokens=10**6))
        await clerk(Listening("t"), max_output=None).arun("t", app=app, tenant="a")
    assert seen[0] is None or seen[0] > 4096
    assert seen[1] is not None


async def test_each_source_has_its_own_line() -> None:
    boss = Agent("boss", spends(7), role="talking", instructions="You help.")
    down = Fault("transient", "server-error", "no", 500)
    worker = Agent(
        "worker", ScriptedModel(down, down, down, down, says("done", Usage(1, 2))), role="talking", supervisor=boss
    )
    async with App(MemoryStore(), clock=FakeClock(NOON), chance=FakeChance()) as app:
        assert isinstance(await worker.arun("t", app=app, tenant="acme"), Answered)
        rows = {row.name: row.tokens for row in await app.accounts.spent("source")}
        (run,) = await app.accounts.spent("run")
    assert rows == {"loop": 3, "supervisor": 17}
    assert run.tokens == 20


def children(count: int) -> tuple[list[Agent], list[ScriptedModel]]:
    models = [ScriptedModel(calls(("look", {}), usage=Usage(10, 1000))) for _ in range(count)]
    return [clerk(model) for model in models], models


async def test_children_that_start_together_cannot_overspend_together(tmp_path: Path) -> None:
    """Five at once on 9.90 of 10.00, eight cents a call: one is admitted."""
    limit = Limit("tenant", "acme", "total", money=10)
    store = SqliteStore(tmp_path / "log.db")
    desk = Desk(store)
    await desk.start("before", wanted(10, "9.90", Payer("before", "old", "acme")))
    await desk.end("before", replied(10, "9.90"))
    async with App(store, prices=PRICES, accounts=[limit]) as app:
        agents, models = children(5)
        outcomes: list[Outcome] = await asyncio.gather(*(agent.arun("t", app=app, tenant="acme") for agent in agents))
        (row,) = await app.accounts.spent("tenant")
    assert sum(len(model.requests) for model in models) == 1
    assert row.money == Decimal("9.98")
    assert all(isinstance(outcome, Partial) and outcome.reason == "budget-tenant-total" for outcome in outcomes)


def process(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)


CHILD = """
import asyncio, sys
from capataz import Agent, App, Partial
from capataz.events.facts import Usage
from capataz.money.accounts import Limit
from capataz.testing.scripted import ScriptedModel, says, calls
from tests.money.test_balances import look

async def main(url, count, limit):
    app = App(url, accounts=[Limit("tenant", "acme", "total", tokens=limit)])
    models = [ScriptedModel(calls(("look", {}), usage=Usage(50, 100))) for _ in range(count)]
    async with app:
        outcomes = await asyncio.gather(*(
            Agent(f"a{n}", model, [look], role="talking", max_output=100).arun("t", app=app, tenant="acme")
            for n, model in enumerate(models)
        ))
    assert all(isinstance(o, Partial) for o in outcomes), outcomes
    print(sum(len(model.requests) for model in models))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


async def test_two_hundred_runs_in_four_processes_never_overspend_one_balance(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await SqliteStore(path).claim("made", "before the race")
    await two_hundred_runs(f"sqlite:///{path}", SqliteStore(path))


async def two_hundred_runs(url: str, store: AccountStore) -> None:
    """In four processes, on one balance."""
    limit = 60_000
    started = [process(CHILD, url, "50", str(limit)) for _ in range(4)]
    made = [int((await asyncio.to_thread(each.communicate, timeout=110))[0]) for each in started]
    assert [each.returncode for each in started] == [0] * 4
    (row,) = await store.accounts().spent("tenant")
    await store.close()
    assert row.tokens <= limit
    assert row.tokens == sum(made) * 150 == row.calls * 150
    assert row.tokens > limit - 5_000  # and the balance was used: nobody was refused while there was room
    assert (row.guessed, row.over) == (0, 0)


KILLED = """
import asyncio, sys
from capataz import Agent, App
from capataz.money.accounts import Limit
from capataz.testing.scripted import says

class Hangs:
    name = "scripted"
    async def complete(self, request, beat):
        print("in flight", flush=True)
        await asyncio.sleep(100)
    async def close(self): ...

async def main(url):
    async with App(url, accounts=[Limit("tenant", "acme", "total", tokens=10_000)]) as app:
        await Agent("clerk", Hangs(), role="talking", max_output=1000).arun("t", app=app, tenant="acme")

asyncio.run(main(sys.argv[1]))
"""


async def test_a_worker_killed_with_a_call_in_flight_loses_no_reservation_and_frees_none(tmp_path: Path) -> None:
    await killed_with_a_call_in_flight(f"sqlite:///{tmp_path / 'log.db'}")


async def killed_with_a_call_in_flight(url: str) -> None:
    child = process(KILLED, url)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "in flight"
    os.kill(child.pid, signal.SIGKILL)
    child.wait(timeout=10)
    child.stdout.close()
    limit = Limit("tenant", "acme", "total", tokens=10_000)
    async with App(url, accounts=[limit]) as app:
        assert await app.accounts.spent("tenant") == []
        (row,) = await app.store.runs()
        outcome = await app.aresume(clerk(spends(5)), row.run)
        (spent,) = await app.accounts.spent("tenant")
    assert isinstance(outcome, Answered)
    assert (spent.calls, spent.guessed) == (2, 1)
    assert spent.tokens > 1000 + 15  # the call in flight, as reserved, and the one that was made in its place
