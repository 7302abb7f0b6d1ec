"""What our spans and metrics cost: CPU-milliseconds a turn, telemetry on against telemetry off, in the same process.

    python benchmarks/spans.py [--turns 20] [--runs 40] [--rounds 7]

Each run asks one tool a turn, against a scripted model and a log in memory, so that everything measured is the library.
Runs with and without telemetry take turns within a round; the figure is the median of the rounds. `spans` hands the
spans to the SDK's batches and a null exporter; `both` records the metrics too; `encode` also turns each
batch into the bytes of OTLP, as an exporter would; `decline` is a sampler that says no; `json` writes the JSON lines.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import random
import statistics
import time
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from capataz import Agent, App, Budget, tool
from capataz.ports import Observer
from capataz.telemetry.json_logs import JsonLines
from capataz.telemetry.otel import OpenTelemetry
from capataz.testing.scripted import ScriptedModel, calls, says


class Null(SpanExporter):
    """Counts, and encodes where asked to. Sends nothing."""

    def __init__(self, encode: bool) -> None:
        self.encode, self.spans = encode, 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += len(spans)
        if self.encode:
            encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


@tool(kind="read")
async def lookup(key: str) -> str:
    """Look a value up."""
    return f"value of {key}"


def agent(turns: int) -> Agent:
    steps = [calls(("lookup", {"key": f"k{number}"})) for number in range(turns)]
    budget = Budget(turns=turns + 5, calls=turns + 5, tokens=50_000_000)
    return Agent("bench", ScriptedModel(*steps, says("done")), tools=[lookup], role="talking", budget=budget)


async def cpu(turns: int, runs: int, observers: tuple[Observer, ...], providers: tuple[TracerProvider, ...]) -> float:
    """CPU-milliseconds a turn of so many runs, what is handed to the exporter included."""
    app = App("memory:", telemetry=observers, mask=False)
    begun = time.process_time()
    for _ in range(runs):
        await agent(turns).arun("Collect all values.", app=app)
    for provider in providers:
        provider.force_flush()
    spent = time.process_time() - begun
    await app.close()
    return spent * 1000 / (runs * (turns + 1))


def watching(how: str) -> tuple[tuple[Observer, ...], tuple[TracerProvider, ...]]:
    if how == "off":
        return (), ()
    if how == "json":
        return (JsonLines(io.StringIO()),), ()
    provider = TracerProvider(sampler=ALWAYS_OFF if how == "decline" else ALWAYS_ON)
    exporter = Null(how == "encode")
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=200_000, schedule_delay_millis=500))
    meters = NoOpMeterProvider() if how in ("spans", "decline") else MeterProvider([InMemoryMetricReader()])
    return (OpenTelemetry(provider, meters),), (provider,)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    ways = ["off", "spans", "both", "encode", "decline", "json"]
    found: dict[str, list[float]] = {way: [] for way in ways}
    await cpu(given.turns, 3, *watching("both"))
    for _ in range(given.rounds):
        random.shuffle(ways)
        for way in ways:
            found[way].append(await cpu(given.turns, given.runs, *watching(way)))
    off = statistics.median(found["off"])
    print(f"off     {off:.3f} CPU-ms a turn")
    for way in ("spans", "both", "encode", "decline", "json"):
        added = statistics.median(with_it - without for with_it, without in zip(found[way], found["off"], strict=True))
        print(f"{way:7} {statistics.median(found[way]):.3f}, {added:.3f} more than off")


if __name__ == "__main__":
    asyncio.run(main())
