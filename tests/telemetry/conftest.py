"""Spans and metrics in memory, and the little world of runs they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from capataz.telemetry.otel import OpenTelemetry


@dataclass
class Received:
    """What a receiver would have got."""

    exporter: InMemorySpanExporter
    tracers: TracerProvider
    reader: InMemoryMetricReader
    meters: MeterProvider

    def watch(self, **settings: Any) -> OpenTelemetry:
        return OpenTelemetry(self.tracers, self.meters, **settings)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Spans whose name begins like this, in the order in which they ended."""
        return [span for span in self.spans if span.name.startswith(name)]

    def parent(self, span: ReadableSpan) -> ReadableSpan | None:
        by_id = {each.context.span_id: each for each in self.spans if each.context is not None}
        return by_id[span.parent.span_id] if span.parent is not None else None

    def events(self, name: str) -> list[dict[str, Any]]:
        """Attributes of all events of this name, on whatever span."""
        return [dict(event.attributes or {}) for span in self.spans for event in span.events if event.name == name]

    def metric(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """(attributes, data point) of one metric."""
        data: Any = self.reader.get_metrics_data()
        if data is None:
            return []
        return [
            (dict(point.attributes), point)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def total(self, name: str, **wanted: Any) -> float:
        """The sum of a counter over all its attributes, or over those with these (dots written as underscores)."""
        return sum(
            float(point.value)
            for attributes, point in self.metric(name)
            if all(attributes.get(key.replace("__", ".")) == value for key, value in wanted.items())
        )


@pytest.fixture
def received() -> Iterator[Received]:
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    yield Received(exporter, tracers, reader, meters)
    tracers.shutdown()
    meters.shutdown()
