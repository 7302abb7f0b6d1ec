"""How many tool calls a second one core takes through all guards, and what a long run costs in memory.

    python benchmarks/guards_speed.py [--calls 50000]

The events are those of a live run: a reply, a start and an end for each call. Arguments and results are small JSON
with ids, clocks and prose, of all classes, mostly news and now and then a repeat, an empty search or an error.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Iterator
from random import Random

from capataz.events.facts import (
    JSON,
    Call,
    Event,
    Fact,
    Kind,
    ModelReplied,
    RunStarted,
    ToolFacts,
    ToolFinished,
    ToolStarted,
    Usage,
)
from capataz.guards.catalogue import default_guards
from capataz.guards.watch import Watch

TOOLS: tuple[tuple[str, Kind, str | None], ...] = (
    ("get_order", "read", "order_id"),
    ("read_file", "read", "path"),
    ("search_docs", "search", None),
    ("update_order", "write", "order_id"),
    ("shell", "exec", None),
    ("send_email", "message", "to"),
    ("job_status", "poll", "job"),
)


def _answer(chance: Random, tool: str, number: int) -> tuple[dict[str, JSON], JSON]:
    if tool == "get_order":
        return {"order_id": f"A-{number}"}, {"id": f"A-{number}", "status": "paid", "total": chance.randrange(500)}
    if tool == "read_file":
        asked: dict[str, JSON] = {"path": f"src/module_{number % 97}.py", "offset": number * 40, "limit": 40}
        return asked, f"def step_{number}(order):\n    return order.total * {number}\n" * 3
    if tool == "search_docs":
        return {"query": f"refund policy {number}"}, {
            "results": [{"id": number, "title": "Refunds"}],
            "took_ms": number,
        }
    if tool == "update_order":
        return {"order_id": f"A-{number}", "status": "held"}, {"ok": True, "revision": number}
    if tool == "shell":
        return {"command": f"pytest tests/test_{number}.py"}, f"{number % 40} passed in 0.{number % 100}s"
    if tool == "send_email":
        return {"to": f"c{number}@example.org", "text": "On its way."}, {"queued": True, "id": f"{number:08x}"}
    return {"job": f"j{number // 4}"}, {"state": "running", "done": number % 4}


def events(calls: int, seed: int = 7) -> Iterator[Event]:
    """The events of one long run of so many calls, one call a turn."""
    chance, seq, at = Random(seed), 0, 0.0

    def event(fact: Fact) -> Event:
        nonlocal seq, at
        seq, at = seq + 1, at + 0.5
        return Event(seq, at, fact)

    facts = tuple(ToolFacts(name, kind, target) for name, kind, target in TOOLS)
    yield event(RunStarted("r", "bench", "go on", tools=facts))
    for turn in range(calls):
        tool, kind, target = TOOLS[chance.randrange(len(TOOLS))]
        number = turn - (turn % 50 == 0)
        arguments, result = _answer(chance, tool, number)
        call = Call(turn, 0, f"c{turn}", tool, arguments, kind, None if target is None else str(arguments[target]))
        yield event(ModelReplied(turn, 1, "Going on.", (call,), "calls", Usage(900, 60)))
        yield event(ToolStarted(turn, 0, tool))
        error = turn % 40 == 0
        answer: JSON = f"connection reset (request {turn:012x})" if error else result
        yield event(ToolFinished(call, answer, error=error, state_changed=None if not call.acting else not error))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=50_000)
    calls = int(parser.parse_args().calls)
    watch, stream = Watch(default_guards()), list(events(calls))
    gc.freeze()  # the events themselves are made before the clock runs; collecting them is not the guards' work
    best = 0.0
    for _ in range(7):
        state, signals, begun = watch.start(), 0, time.process_time()
        for event in stream:
            state, found = watch.step(state, event)
            signals += len(found)
        best = max(best, calls / (time.process_time() - begun))
    print(f"{best:,.0f} tool calls a second on one core ({signals} signals in {calls:,} calls)")
    del stream
    tracemalloc.start()
    state, steady = watch.start(), 0
    for place, event in enumerate(events(calls)):
        state, _ = watch.step(state, event)
        if place == calls:
            steady = tracemalloc.get_traced_memory()[0]
    ended = tracemalloc.get_traced_memory()[0]
    print(f"memory: {steady / 1024:,.0f} KiB after a third of the run, {ended / 1024:,.0f} KiB at its end")


if __name__ == "__main__":
    main()
