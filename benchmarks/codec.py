"""CPU microseconds to write and read one event of each common kind. Run: python benchmarks/codec.py"""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal

from capataz.events.codec import decode, encode
from capataz.events.facts import (
    Call,
    Event,
    Fact,
    ModelCallStarted,
    ModelReplied,
    RunStarted,
    ToolFacts,
    ToolFinished,
    ToolStarted,
    Usage,
)

CALL = Call(3, 0, "call_9f2c", "find_order", {"order_id": "81", "fields": ["state", "total"]}, kind="read", target="81")
USAGE = Usage(1830, 64, cache_read=1200, money=Decimal("0.0041"))
SAMPLES: dict[str, Fact] = {
    "RunStarted, 6 tools": RunStarted(
        "r" * 26, "support", "Refund order 81", tools=(ToolFacts("refund", "write"),) * 6
    ),
    "ModelCallStarted": ModelCallStarted(3, 1, "claude-sonnet-4-6", reserved_tokens=4096),
    "ModelReplied, 1 call": ModelReplied(
        3, 1, "Let me look.", (CALL,), "calls", USAGE, "claude-sonnet-4-6", seconds=0.8
    ),
    "ToolStarted": ToolStarted(3, 0, "find_order", "r/3/0"),
    "ToolFinished, 400 B": ToolFinished(
        CALL, {"rows": [{"id": 81, "state": "shipped", "note": "x" * 320}]}, seconds=0.02
    ),
}


def microseconds(work: Callable[[], object], times: int = 20_000) -> float:
    """The best of five, so that the neighbours' work does not count."""
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - begin)
    return best / times * 1e6


def main() -> None:
    print(f"{'event':24} {'bytes':>6} {'encode us':>10} {'decode us':>10}")
    for name, fact in SAMPLES.items():
        event = Event(5, 1_760_000_000.25, fact)
        body = encode(event)
        writing = microseconds(lambda event=event: encode(event))  # type: ignore[misc]
        reading = microseconds(lambda body=body: decode(5, 0.0, body))  # type: ignore[misc]
        print(f"{name:24} {len(body):6} {writing:10.2f} {reading:10.2f}")


if __name__ == "__main__":
    main()
