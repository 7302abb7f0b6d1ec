"""Durable events a second of the SQLite store, for 1 to 1000 runs that each wait for every acknowledgement.

Run: python benchmarks/store_append.py [--synchronous NORMAL] [--folder DIR] [--events N]
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from capataz.events.facts import Call, Event, RunStarted, ToolFinished
from capataz.stores.sqlite import SqliteStore

CALL = Call(3, 0, "call_9f2c", "find_order", {"order_id": "81"}, kind="read", target="81")
FACT = ToolFinished(CALL, {"rows": [{"id": 81, "state": "shipped", "note": "x" * 200}]}, seconds=0.02)


async def one_run(store: SqliteStore, run: str, appends: int, waits: list[float]) -> None:
    lease = await store.claim(run, "bench")
    await store.append(lease, 0, [Event(0, 0.0, RunStarted(run, "bench", "task"))])
    for seq in range(1, appends):
        begin = time.perf_counter()
        await store.append(lease, seq, [Event(seq, float(seq), FACT)])
        waits.append(time.perf_counter() - begin)


async def measure(path: Path, synchronous: Any, writers: int, total: int) -> list[float]:
    """Events written, wall seconds, CPU seconds, then every wait for an acknowledgement, sorted."""
    store = SqliteStore(path, synchronous)
    waits: list[float] = []
    appends = max(total // writers, 3)
    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one_run(store, f"{n:026}", appends, waits) for n in range(writers)))
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    await store.close()
    return [writers * appends, wall, cpu, *sorted(waits)]


def line(writers: int, size: int, figures: list[float]) -> str:
    count, wall, cpu, *waits = figures
    p50, p99 = waits[len(waits) // 2] * 1e3, waits[int(len(waits) * 0.99)] * 1e3
    speed, each = count / wall, cpu / count * 1e6
    return f"{writers:7} {count:8} {speed:10.0f} {each:10.0f} {p50:8.2f} {p99:8.2f} {size / count:11.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synchronous", choices=["FULL", "NORMAL"], default="FULL")
    parser.add_argument("--folder", help="where the file is made: the disk that is measured")
    parser.add_argument("--events", type=int, default=0, help="total per row (default: 2000 to 40000)")
    chosen = parser.parse_args()
    print(f"synchronous={chosen.synchronous}")
    print("writers   events   events/s  CPU us/ev   p50 ms   p99 ms bytes/event")
    for writers, total in ((1, 2000), (10, 10_000), (100, 40_000), (1000, 40_000)):
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            path = Path(folder) / "bench.db"
            figures = asyncio.run(measure(path, chosen.synchronous, writers, chosen.events or total))
            print(line(writers, path.stat().st_size, figures))


if __name__ == "__main__":
    main()
