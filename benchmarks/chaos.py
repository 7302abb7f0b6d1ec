"""Kill workers with SIGKILL at random instants, many times over, and count what was lost and what was done twice.

Run: python benchmarks/chaos.py [--kills 500] [--seed N] [--folder DIR]

Two workers share one SQLite file. Whichever is killed is replaced at once, and the runs go on from their logs. Every
act leaves a line in an append-only file, and payments a row in a database, both written by the tools themselves; at
the end the logs are held against what is really there. The exit status is 1 if anything was lost or silently doubled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from capataz import Agent, App, Budget, ToolContext, tool
from capataz.events.facts import Call, Event, ModelReplied, RunEnded, RunEscalated, ToolFinished, ToolStarted
from capataz.guards.catalogue import default_guards
from capataz.guards.watch import Watch
from capataz.kernel.evolve import fold
from capataz.kernel.state import Rules
from capataz.policy.policy import Policy
from capataz.ports import JobRow, ModelRequest, Reply
from capataz.runtime.handle import queue_of
from capataz.runtime.shift import Terms
from capataz.runtime.watchdog import Pace
from capataz.testing.scripted import calls, says

PACE = Pace(beat=0.1, stall=5.0, poll=0.02, drain=1.0)
WAIT = 0.003
"""Seconds a tool takes on each side of its effect, so that many kills fall inside."""
RULES = Rules(Policy(), Watch(default_guards()))


class Planner:
    """A model that follows a plan: how far it is can be read from the history, so a resumed run goes on with it."""

    name = "planner"
    plan = (
        calls(("look", {"order": "1"}), ("look", {"order": "2"})),
        calls(("pay", {"order": "1"})),
        calls(("stamp", {"order": "1"})),
        calls(("poke", {"order": "1"})),
        calls(("pay", {"order": "2"}), ("stamp", {"order": "2"})),
        says("All of it is done."),
    )

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        beat()
        await asyncio.sleep(WAIT)
        turns = sum(message.role == "assistant" for message in request.history)
        return self.plan[min(turns, len(self.plan) - 1)]

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class World:
    """Where the acts leave their traces."""

    folder: Path

    def app(self) -> App:
        return App(f"sqlite:///{self.folder / 'capataz.db'}")

    def act(self, name: str, key: str) -> None:
        """One line, in one write, at the end of the file: this is the effect."""
        descriptor = os.open(self.folder / "effects.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{name} {key}\n".encode())
        os.close(descriptor)

    def lines(self) -> Counter[str]:
        path = self.folder / "effects.log"
        return Counter(path.read_text().splitlines()) if path.exists() else Counter()

    def pay(self, key: str) -> None:
        with self.database() as shop:
            shop.execute("INSERT INTO payment VALUES (?, ?)", (key, time.time()))
        shop.close()

    def payments(self) -> list[str]:
        shop = self.database()
        keys = [str(key) for (key,) in shop.execute("SELECT key FROM payment")]
        shop.close()
        return keys

    def database(self) -> sqlite3.Connection:
        shop = sqlite3.connect(self.folder / "shop.db", timeout=10, isolation_level=None)
        shop.execute("PRAGMA journal_mode=WAL")
        shop.execute("CREATE TABLE IF NOT EXISTS payment (key TEXT, at REAL)")
        return shop

    @cached_property
    def agent(self) -> Agent:
        async def look(order: str) -> str:
            """Look at an order."""
            await asyncio.sleep(WAIT)
            return f"order {order}"

        async def pay(order: str, context: ToolContext) -> str:
            """Pay: not to be repeated, and it can be read back."""
            await asyncio.sleep(WAIT)
            self.pay(context.idempotency_key)
            self.act("pay", context.idempotency_key)
            await asyncio.sleep(WAIT)
            return "paid"

        def paid(order: str, idempotency_key: str) -> bool:
            return idempotency_key in self.payments()

        async def stamp(order: str, context: ToolContext) -> str:
            """Stamp: may be repeated with the same key."""
            await asyncio.sleep(WAIT)
            self.act("stamp", context.idempotency_key)
            await asyncio.sleep(WAIT)
            return "stamped"

        async def poke(order: str, context: ToolContext) -> str:
            """Poke: not to be repeated, and nobody can tell afterwards."""
            await asyncio.sleep(WAIT)
            self.act("poke", context.idempotency_key)
            await asyncio.sleep(WAIT)
            return "poked"

        tools = (
            tool(kind="read")(look),
            tool(kind="write", target="order", confirm=paid)(pay),
            tool(kind="write", target="order", idempotent=True)(stamp),
            tool(kind="exec", target="order")(poke),
        )
        return Agent("clerk", Planner(), tools=tools, budget=Budget(turns=30))


# ── processes: this one stays single-threaded, so that a worker is a fork away ───────────────────────────────────────


def forked(work: Callable[[], Awaitable[None]]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        asyncio.run(work())  # type: ignore[arg-type]
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def ended(child: int, seconds: float = 60.0) -> int:
    """The exit status of a child that has to end by itself."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"process {child} did not end within {seconds:g} s")


@dataclass
class Chaos:
    """One trial."""

    world: World
    kills: int
    chance: random.Random
    enqueued: int = 0
    workers: list[int] = field(default_factory=list[int])

    def run(self) -> None:
        self.world.agent.prepare(App("memory:"))  # what is imported and built here need not be in each fork
        self.enqueue(8)
        self.workers = [forked(self.work) for _ in range(2)]
        for _ in range(self.kills):
            time.sleep(self.pause())
            place = self.chance.randrange(2)
            os.kill(self.workers[place], signal.SIGKILL)
            os.waitpid(self.workers[place], 0)
            self.workers[place] = forked(self.work)
            if self.chance.random() < 0.7:
                self.enqueue(2)
        for worker in self.workers:
            os.kill(worker, signal.SIGTERM)
        for worker in self.workers:
            ended(worker)
        while ended(forked(self.finish)) != 0:
            pass

    def pause(self) -> float:
        """Seconds until the next kill."""
        return self.chance.uniform(0.005, 0.2)

    def enqueue(self, count: int) -> None:
        first, self.enqueued = self.enqueued, self.enqueued + count

        async def submit() -> None:
            async with self.world.app() as app:
                for number in range(first, first + count):
                    await self.world.agent.asubmit(f"Handle case {number}", app=app, key=f"case-{number}")

        assert ended(forked(submit)) == 0

    async def work(self) -> None:
        async with self.world.app() as app:
            shift = app.worker(self.world.agent, terms=Terms(slots=4, crashes=25, pace=PACE))
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, shift.stop)
            await shift.work()

    async def finish(self) -> None:
        """Drive what is left; fails as long as something is."""
        async with self.world.app() as app:
            await app.worker(self.world.agent, terms=Terms(slots=8, crashes=25, pace=PACE)).work(until_idle=True)
            left = await queue_of(app.store).jobs(("queued", "parked", "claimed"))
            if left:
                await asyncio.sleep(0.1)
                raise SystemExit(1)


# ── the reckoning ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Reckoning:
    """What the logs say, held against what is really there. `lines` are the acts that took place."""

    lines: Counter[str]
    figures: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])

    def run(self, row: JobRow, events: Sequence[Event]) -> None:
        run, state = row.job.run, fold(RULES, events)
        self.figures["crashes"] += row.crashes.total
        last = next((e.fact for e in reversed(events) if isinstance(e.fact, RunEnded | RunEscalated)), None)
        if row.state not in ("done", "waiting") or last is None:
            self.wrong.append(f"lost: run {run} is {row.state}, its log ends with {type(events[-1].fact).__name__}")
            return
        name = last.outcome if isinstance(last, RunEnded) else "escalated"
        self.figures[f"{name}: {last.reason}"] += 1
        for call in (call for e in events if isinstance(e.fact, ModelReplied) for call in e.fact.calls if call.acting):
            act = state.ledger.acts.get((call.turn, call.position))
            self.call(run, call, events, "never begun" if act is None else act.standing)

    def call(self, run: str, call: Call, events: Sequence[Event], standing: str) -> None:
        key = f"{run}:{call.turn}:{call.position}"
        done = self.lines[f"{call.tool} {key}"]
        starts = [e.seq for e in events if isinstance(e.fact, ToolStarted) and e.fact.idempotency_key == key]
        ends = [e.seq for e in events if isinstance(e.fact, ToolFinished) and e.fact.call == call]
        self.figures["acts"] += done
        self.figures[f"acts {standing}"] += 1
        if done > 1 and call.tool != "stamp":
            self.wrong.append(f"doubled: {call.tool} {key} was done {done} times")
        if done > len(starts):
            self.wrong.append(f"silent: {call.tool} {key} was done {done} times, its log knows {len(starts)}")
        if call.tool == "stamp":
            self.figures["repeated with the same key, as declared"] += max(0, done - 1)
        if ends and starts and max(starts) > min(ends):
            self.wrong.append(f"repeated: {call.tool} {key} was begun again after it had ended")
        if done and standing in ("failed", "denied", "never begun"):
            self.wrong.append(f"lost: {call.tool} {key} was done, the log says {standing}")
        if not done and standing in ("confirmed", "unconfirmed", "already"):
            self.wrong.append(f"invented: {call.tool} {key} was not done, the log says {standing}")


async def reckon(world: World) -> Reckoning:
    rows = Counter(f"pay {key}" for key in world.payments())
    file = world.lines()
    written = Counter({line: count for line, count in file.items() if line.startswith("pay ")})
    # A kill between the two writes leaves the row alone: the row is the payment, the line only tells of it.
    reckoning = Reckoning(file - written + rows)
    reckoning.wrong += [f"in the file and not in the database: {line}" for line in written - rows]
    reckoning.figures["paid, and killed before the line was written"] = (rows - written).total()
    async with world.app() as app:
        for row in await queue_of(app.store).jobs(limit=1_000_000):
            reckoning.figures["runs"] += 1
            reckoning.run(row, await app.store.read(row.job.run))
    return reckoning


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="where the files are made (default: a temporary folder)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        begun = time.monotonic()
        chaos = Chaos(World(Path(folder)), chosen.kills, random.Random(chosen.seed))
        chaos.run()
        reckoning = asyncio.run(reckon(chaos.world))
    figures = {"kills": chosen.kills, "seed": chosen.seed, "seconds": round(time.monotonic() - begun, 1)}
    print(json.dumps({**figures, **dict(sorted(reckoning.figures.items())), "wrong": reckoning.wrong}, indent=1))
    return 1 if reckoning.wrong or reckoning.figures["runs"] != chaos.enqueued else 0


if __name__ == "__main__":
    raise SystemExit(main())
