"""The trial of chaos.py on a cluster: two workers, PostgreSQL, and Temporal or the database's own queue.

Run: python benchmarks/chaos_cluster.py [--kills 500] [--seed N] [--engine temporal|local]

PostgreSQL and Temporal's development server are started and ended by this program. Payments are rows of an append-only
table in PostgreSQL, in a schema of the shop's own. The exit status is 1 if anything was lost or silently doubled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import psycopg

from benchmarks.chaos import PACE, Chaos, Reckoning, World, reckon
from capataz import App
from capataz.runtime.handle import queue_of
from capataz.runtime.shift import Terms
from capataz.testing.servers import postgres_server, temporal_server

BEAT = 0.4
"""Seconds: of a busy machine of two cores with four servers on it."""


@dataclass
class Cluster(World):
    """The shop and the logs in one PostgreSQL, the workers told by Temporal where there is an address of one."""

    url: str = ""
    temporal: str = ""

    def app(self) -> App:
        if not self.temporal:
            return App(self.url)
        from capataz.engines.temporal import TemporalEngine

        return App(self.url, engine=TemporalEngine(self.temporal, beat=BEAT))

    def shop(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url, autocommit=True)

    def open_shop(self) -> None:
        with self.shop() as connection:
            connection.execute("CREATE SCHEMA shop")
            connection.execute("CREATE TABLE shop.payment (key text NOT NULL, at timestamptz DEFAULT now())")
            # Append-only, whoever asks.
            connection.execute("CREATE RULE keep AS ON UPDATE TO shop.payment DO INSTEAD NOTHING")
            connection.execute("CREATE RULE stay AS ON DELETE TO shop.payment DO INSTEAD NOTHING")

    def pay(self, key: str) -> None:
        with self.shop() as connection:
            connection.execute("INSERT INTO shop.payment (key) VALUES (%s)", (key,))

    def payments(self) -> list[str]:
        with self.shop() as connection:
            return [str(key) for (key,) in connection.execute("SELECT key FROM shop.payment")]


@dataclass
class ClusterChaos(Chaos):
    """Workers here start slowly and beat more slowly; the kills are as random."""

    def pause(self) -> float:
        return self.chance.uniform(0.01, 1.2)

    def enqueue(self, count: int) -> None:
        super().enqueue(3 * count)  # so that there is always something to be killed in

    async def work(self) -> None:
        await _work(self.world)

    async def finish(self) -> None:
        await _finish(self.world)


def _terms() -> Terms:
    return Terms(slots=4, crashes=25, pace=replace(PACE, beat=BEAT))


async def _work(world: World) -> None:
    import signal

    async with world.app() as app:
        shift = app.worker(world.agent, terms=_terms())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, shift.stop)
        await shift.work()


async def _finish(world: World) -> None:
    """Drive what is left; fails as long as something is."""
    async with world.app() as app:
        shift = app.worker(world.agent, terms=_terms())
        work = asyncio.create_task(shift.work(until_idle=True))
        await asyncio.wait({work}, timeout=50)
        shift.stop()
        await work
        if await queue_of(app.store).jobs(("queued", "parked", "claimed")):
            await asyncio.sleep(0.5)
            raise SystemExit(1)


def trial(kills: int, seed: int, engine: str) -> tuple[Reckoning, dict[str, object]]:
    """One trial on servers of its own: the reckoning, and the figures."""
    if engine == "temporal":
        import_module("capataz.engines.temporal_slots")  # once, and not in each fork
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = stack.enter_context(postgres_server())
        address = stack.enter_context(temporal_server()) if engine == "temporal" else ""
        world = Cluster(folder, postgres.url(), address)
        world.open_shop()
        begun = time.monotonic()
        chaos = ClusterChaos(world, kills, random.Random(seed))
        chaos.run()
        reckoning = asyncio.run(reckon(world))
        if reckoning.figures["runs"] != chaos.enqueued:
            reckoning.wrong.append(f"lost: {chaos.enqueued} runs submitted, {reckoning.figures['runs']} there")
    figures: dict[str, object] = {"engine": engine, "kills": kills, "seed": seed}
    figures["seconds"] = round(time.monotonic() - begun, 1)
    return reckoning, {**figures, **dict(sorted(reckoning.figures.items()))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=["temporal", "local"], default="temporal")
    chosen = parser.parse_args()
    reckoning, figures = trial(chosen.kills, chosen.seed, chosen.engine)
    print(json.dumps({**figures, "wrong": reckoning.wrong}, indent=1))
    return 1 if reckoning.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
