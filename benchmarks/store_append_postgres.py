"""Durable events a second of the PostgreSQL store, for 1 to 1000 runs that each wait for every acknowledgement.

Run: python benchmarks/store_append_postgres.py [--url URL] [--events N]

Without a URL a server is started on this machine, with fsync as PostgreSQL has it by default.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.store_append import FACT
from capataz.events.facts import Event, RunStarted
from capataz.stores.postgres import PostgresStore
from capataz.testing.servers import postgres_server


async def one_run(store: PostgresStore, run: str, appends: int, waits: list[float]) -> None:
    lease = await store.claim(run, "bench")
    await store.append(lease, 0, [Event(0, 0.0, RunStarted(run, "bench", "task"))])
    for seq in range(1, appends):
        begin = time.perf_counter()
        await store.append(lease, seq, [Event(seq, float(seq), FACT)])
        waits.append(time.perf_counter() - begin)


async def measure(url: str, writers: int, total: int) -> str:
    store = PostgresStore(url)
    waits: list[float] = []
    appends = max(total // writers, 3)
    prefix = f"{time.time_ns()}-{writers}"
    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one_run(store, f"{prefix}-{n}", appends, waits) for n in range(writers)))
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    await store.close()
    waits.sort()
    count = writers * appends
    p50, p99 = waits[len(waits) // 2] * 1e3, waits[int(len(waits) * 0.99)] * 1e3
    return f"{writers:7} {count:8} {count / wall:10.0f} {cpu / count * 1e6:16.0f} {p50:8.2f} {p99:8.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="of a database that may be written to")
    parser.add_argument("--events", type=int, default=0, help="total per row (default: 2000 to 40000)")
    chosen = parser.parse_args()
    with ExitStack() as stack:
        url = chosen.url or stack.enter_context(postgres_server(durable=True)).url()
        print("writers   events   events/s client CPU us/ev   p50 ms   p99 ms")
        for writers, total in ((1, 2000), (10, 10_000), (100, 40_000), (1000, 40_000)):
            print(asyncio.run(measure(url, writers, chosen.events or total)), flush=True)


if __name__ == "__main__":
    main()
