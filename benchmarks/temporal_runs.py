"""300 runs through Temporal and PostgreSQL with two worker processes: how long, how soon, at what price.

Run: python benchmarks/temporal_runs.py [--runs 300] [--turns 5] [--workers 2] [--slots 50] [--engine temporal|local]

PostgreSQL (fsync as by default) and Temporal's development server (one file) are started by this program. Each run has
so many turns with one tool call each, a model that answers within 50 ms, and one act that is confirmed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.chaos import ended, forked
from capataz import Agent, App, Budget, tool
from capataz.events.facts import RunEnded, RunStarted
from capataz.ports import ModelRequest, Reply
from capataz.runtime.shift import Terms
from capataz.testing.scripted import calls, says
from capataz.testing.servers import postgres_server, temporal_server

SERVER = 0.05
"""Seconds a model takes."""


class Steps:
    """Looks, acts once, and says that it is done."""

    name = "steps"

    def __init__(self, turns: int) -> None:
        self.turns = turns

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        await asyncio.sleep(SERVER)
        turn = sum(message.role == "assistant" for message in request.history)
        if turn == 0:
            return calls(("pay", {"order": "1"}))
        return says("done") if turn >= self.turns else calls(("look", {"page": turn}))

    async def close(self) -> None:
        """Nothing is open."""


@tool(kind="write", target="order", confirm=lambda order, result, **_: result is not None)
async def pay(order: str) -> str:
    return "paid"


@tool(kind="read")
async def look(page: int) -> str:
    return f"page {page}"


def agent(turns: int) -> Agent:
    return Agent("steps", Steps(turns), tools=[pay, look], budget=Budget(turns=turns + 5))


def app_of(url: str, temporal: str) -> App:
    if not temporal:
        return App(url)
    from capataz.engines.temporal import TemporalEngine

    return App(url, engine=TemporalEngine(temporal))


async def work(url: str, temporal: str, turns: int, slots: int) -> None:
    async with app_of(url, temporal) as app:
        shift = app.worker(agent(turns), terms=Terms(slots))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, shift.stop)
        await shift.work()


async def submit(url: str, temporal: str, turns: int, runs: int) -> None:
    """Submit all, wait for all, and say how it went."""
    async with app_of(url, temporal) as app:
        begun = time.time()
        gate = asyncio.Semaphore(20)
        steps = agent(turns)

        async def one(number: int) -> tuple[str, float]:
            async with gate:
                at = time.time()
                return (await steps.asubmit(f"Case {number}", app=app)).run, at

        submitted = dict(await asyncio.gather(*(one(number) for number in range(runs))))
        took = time.time() - begun
        while len(await app.store.runs(runs + 1, outcome="completed")) < runs:  # noqa: ASYNC110 - it happens elsewhere
            await asyncio.sleep(0.2)
        whole = time.time() - begun
        begins: list[float] = []
        lengths: list[float] = []
        events = 0
        for run, at in submitted.items():
            log = await app.store.read(run)
            events += len(log)
            first = next(e.at for e in log if isinstance(e.fact, RunStarted))
            begins.append(first - at)
            lengths.append(next(e.at for e in log if isinstance(e.fact, RunEnded)) - first)
    begins.sort()
    lengths.sort()
    print(json.dumps({
        "engine": "temporal" if temporal else "local", "runs": runs, "turns each": turns + 1, "events": events,
        "submitted in s": round(took, 2), "all done in s": round(whole, 2), "runs/s": round(runs / whole, 1),
        "begun after s, p50": round(begins[runs // 2], 2), "begun after s, p99": round(begins[int(runs * 0.99)], 2),
        "length s, p50": round(lengths[runs // 2], 2), "length s, p99": round(lengths[int(runs * 0.99)], 2),
    }))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slots", type=int, default=50)
    parser.add_argument("--engine", choices=["temporal", "local"], default="temporal")
    chosen = parser.parse_args()
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server(durable=True)).url()
        temporal = stack.enter_context(temporal_server()) if chosen.engine == "temporal" else ""
        workers = [forked(lambda: work(url, temporal, chosen.turns, chosen.slots)) for _ in range(chosen.workers)]
        time.sleep(4)
        status = ended(forked(lambda: submit(url, temporal, chosen.turns, chosen.runs)), 300)
        for worker in workers:
            os.kill(worker, signal.SIGTERM)
        used = 0.0
        for worker in workers:
            _, _, usage = os.wait4(worker, 0)
            used += usage.ru_utime + usage.ru_stime
        print(json.dumps({"CPU s of the workers": round(used, 1), "ms a run": round(1000 * used / chosen.runs, 1)}))
    raise SystemExit(status)


if __name__ == "__main__":
    main()
