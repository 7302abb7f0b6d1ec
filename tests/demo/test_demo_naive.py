"""The naive loop is a fair one: it does well with a good worker, and what it does with a bad one is real."""

import asyncio
import re
from pathlib import Path

import aiohttp
import pytest

from capataz.demo.clerk import TURNS, tools
from capataz.demo.naive import Chat, ProviderError, Tally, naive
from capataz.demo.shop import Shop
from capataz.demo.worker import BEHAVIOURS, TASK
from capataz.testing.script import Script, say, status
from capataz.testing.worker import UnreliableWorker


async def let_loose(worker: UnreliableWorker, model: str, shop: Shop, tally: Tally, patience: float = 5.0) -> str:
    offered = tools(shop)
    specs = [{"type": "function", "function": {"name": t.name, "parameters": dict(t.spec.schema)}} for t in offered]
    functions = {item.name: item.function for item in offered}
    async with aiohttp.ClientSession() as session, asyncio.timeout(patience):
        said = await naive(TASK, Chat(session, worker.url("openai"), model, specs), functions, TURNS, tally)
    assert worker.violations == []
    return said


async def test_with_a_good_worker_it_does_well(tmp_path: Path) -> None:
    shop, tally = Shop.open(tmp_path / "shop.db"), Tally()
    async with UnreliableWorker(BEHAVIOURS) as worker:
        said = await let_loose(worker, "worker-well", shop, tally)
    assert "refunded" in said
    assert (shop.rows().refunds, shop.rows().messages) == (1, 1)
    assert (tally.turns, tally.calls, tally.cut) == (4, 3, False)
    assert tally.tokens > 100


async def test_it_pays_again_and_again_up_to_its_ceiling(tmp_path: Path) -> None:
    shop, tally = Shop.open(tmp_path / "shop.db"), Tally()
    async with UnreliableWorker(BEHAVIOURS) as worker:
        await let_loose(worker, "worker-repeats-refund", shop, tally)
    assert shop.rows().refunds == TURNS - 1
    assert (tally.turns, tally.cut) == (TURNS, True)


@pytest.mark.parametrize("model", ["worker-narrates", "worker-claims"])
async def test_it_believes_what_it_is_told(tmp_path: Path, model: str) -> None:
    shop = Shop.open(tmp_path / "shop.db")
    async with UnreliableWorker(BEHAVIOURS) as worker:
        said = await let_loose(worker, model, shop, Tally())
    assert re.search("Done! I have refunded", said)
    assert shop.rows().refunds == 0


async def test_it_takes_half_a_sentence_for_the_answer(tmp_path: Path) -> None:
    shop = Shop.open(tmp_path / "shop.db")
    async with UnreliableWorker(BEHAVIOURS) as worker:
        said = await let_loose(worker, "worker-breaks-off", shop, Tally())
    assert "Let me see" in said
    assert shop.rows().refunds == 0


async def test_it_waits_for_ever_for_one_that_hangs(tmp_path: Path) -> None:
    shop = Shop.open(tmp_path / "shop.db")
    async with UnreliableWorker(BEHAVIOURS) as worker:
        with pytest.raises(TimeoutError):
            await let_loose(worker, "worker-hangs", shop, Tally(), patience=0.5)


async def test_it_retries_twice_like_the_vendors_clients(tmp_path: Path) -> None:
    shop = Shop.open(tmp_path / "shop.db")
    script = Script((status(429, wait=0.01), status(500), say("hello")))
    async with UnreliableWorker({"m": script}) as worker:
        assert await let_loose(worker, "m", shop, Tally()) == "hello"
    async with UnreliableWorker({"m": Script((), after=status(429, wait=0.01))}) as worker:
        with pytest.raises(ProviderError, match="429"):
            await let_loose(worker, "m", shop, Tally())
        assert len(worker.served) == 3


@pytest.mark.parametrize(("model", "error"), [("worker-unknown-tool", KeyError), ("worker-bad-arguments", ValueError)])
async def test_it_falls_over_what_it_did_not_expect(tmp_path: Path, model: str, error: type[Exception]) -> None:
    shop = Shop.open(tmp_path / "shop.db")
    async with UnreliableWorker(BEHAVIOURS) as worker:
        with pytest.raises(error):
            await let_loose(worker, model, shop, Tally())
