"""Many concurrent runs in one process, all waiting on a model server that takes 50 ms an answer.

Run: python benchmarks/waiting_runs.py [--runs 1000] [--turns 5] [--latency 0.05] [--store URL] [--queue]

The server is another process. Each run makes `turns` model calls with a tool call in between. With --queue the runs
go through the queue of the store and a worker with as many slots, else they are started side by side. Prints the wall
time, what it would be without any overhead, CPU of this process per turn, and its largest memory.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from capataz import Agent, App, Budget, Outcome, tool
from capataz.runtime.shift import Terms


def answer(turn: int, turns: int) -> bytes:
    """A whole streamed reply: a call of the tool, or the last words."""
    if turn < turns:
        call = {"name": "look", "arguments": f'{{"n":{turn}}}'}
        delta: object = {"tool_calls": [{"index": 0, "id": f"c{turn}", "type": "function", "function": call}]}
        stop = "tool_calls"
    else:
        delta, stop = {"content": "done"}, "stop"
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    usage = {"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55}
    first = {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage}
    text = b"".join(b"data: %s\n\n" % part for part in (orjson.dumps(first), orjson.dumps(last), b"[DONE]"))
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text)


async def serve(latency: float, turns: int) -> None:
    """The model server, in a process of its own: it prints its port and goes on until it is killed."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                asked = await reader.readexactly(length)
                await asyncio.sleep(latency)
                writer.write(answer(asked.count(b'"role":"assistant"') + 1, turns))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=4096, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@tool(kind="read")
async def look(n: int) -> str:
    """Looks something up."""
    return f"value {n}"


def agent(port: int, turns: int) -> Agent:
    return Agent(
        "waiter",
        "openai:m",
        tools=[look],
        role="talking",
        base_url=f"http://127.0.0.1:{port}/v1",
        api_key="any",
        budget=Budget(turns=turns + 2),
    )


async def side_by_side(app: App, who: Agent, runs: int) -> list[Outcome]:
    return list(await asyncio.gather(*(who.arun(f"task {n}", app=app) for n in range(runs))))


async def through_the_queue(app: App, who: Agent, runs: int) -> list[Outcome]:
    handles = [await who.asubmit(f"task {n}", app=app) for n in range(runs)]
    await app.worker(who, terms=Terms(slots=runs)).work(until_idle=True)
    return [outcome for handle in handles if (outcome := await handle.apoll()) is not None]


async def measure(chosen: argparse.Namespace, port: int, folder: str) -> None:
    store = chosen.store or f"sqlite:///{Path(folder) / 'bench.db'}"
    who = agent(port, chosen.turns)
    async with App(store) as app:
        await who.arun("warm up", app=app)
        wall, cpu = time.perf_counter(), time.process_time()
        work = through_the_queue if chosen.queue else side_by_side
        outcomes = await work(app, who, chosen.runs)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    good = sum(outcome.name == "answered" and outcome.answer == "done" for outcome in outcomes)
    turns = chosen.runs * chosen.turns
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"runs {chosen.runs}, turns each {chosen.turns}, answered {good}")
    print(f"wall {wall:.2f} s ({chosen.turns * chosen.latency:.2f} s is waiting), {turns / wall:.0f} turns/s")
    print(f"CPU {cpu / turns * 1e3:.2f} ms/turn, largest memory {memory:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--store", help="default: a SQLite file in a temporary folder")
    parser.add_argument("--queue", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(serve(chosen.latency, chosen.turns))
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, chosen.runs * 2 + 200)), hard))
    words = [sys.executable, __file__, "--serve", "--latency", str(chosen.latency), "--turns", str(chosen.turns)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(chosen, port, folder))
    finally:
        server.kill()
        server.wait(10)


if __name__ == "__main__":
    main()
