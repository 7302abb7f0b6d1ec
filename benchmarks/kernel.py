"""What the pure core costs: CPU time to fold a run's log and to decide after every event of it, per turn.

    python benchmarks/kernel.py [--turns 50] [--rounds 200]

A scripted run of looks and confirmed acts, with the default guards, is played once in memory. Its log is then folded
again and again as a live run folds it, and `decide` is asked after every
event. Nothing touches the world.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence

from capataz import Agent, App, Budget, tool
from capataz.events.facts import Event
from capataz.kernel.decide import decide
from capataz.kernel.evolve import begin, evolve
from capataz.kernel.state import Rules
from capataz.testing.scripted import ScriptedModel, calls

DONE: set[str] = set()


@tool(kind="read")
def look(key: str) -> str:
    """Look a key up."""
    return f"the value of {key}"


def shipped(order: str) -> bool:
    return order in DONE


@tool(kind="write", target="order", confirm=shipped)
def ship(order: str) -> str:
    """Ship an order."""
    DONE.add(order)
    return f"shipped {order}"


async def played(turns: int) -> tuple[Rules, Sequence[Event]]:
    """The rules and the log of one run: three turns that look, then one that acts, and so on."""
    steps = [
        calls(("ship", {"order": f"o{turn}"})) if turn % 4 == 3 else calls(("look", {"key": f"k{turn}"}))
        for turn in range(turns - 1)
    ]
    agent = Agent("bench", ScriptedModel(*steps, "All is done."), tools=[look, ship], budget=Budget(turns=turns + 5))
    async with App("memory:") as app:
        outcome = await agent.arun("Ship what can be shipped", app=app)
        return agent.prepare(app).rules, await app.store.read(outcome.run)


def once(rules: Rules, events: Sequence[Event]) -> float:
    begun = time.thread_time()  # CPU time: what others do on the machine is none of it
    state = begin(rules)
    for event in events:
        evolve(state, event)
        decide(state)
    return time.thread_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    rules, events = asyncio.run(played(given.turns))
    took = sorted(once(rules, events) / given.turns * 1e6 for _ in range(given.rounds))
    print(f"{given.turns} turns, {len(events)} events, {given.rounds} rounds")
    print(f"us of CPU a turn: minimum {took[0]:.1f}, median {statistics.median(took):.1f}")


if __name__ == "__main__":
    main()
