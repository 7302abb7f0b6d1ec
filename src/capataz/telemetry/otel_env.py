"""OpenTelemetry as the environment says: the standard `OTEL_*` variables, read once, for the command line.

Whoever builds an App in code gives it providers of their own. Here the SDK's defaults are put together: spans
in batches and metrics every minute to `OTEL_EXPORTER_OTLP_ENDPOINT`, over HTTP.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from capataz.lens.spans.names import Semconv
from capataz.mistakes import Misuse
from capataz.telemetry.otel import OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.trace.export import SpanExporter

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
SEMCONV = "CAPATAZ_OTEL_SEMCONV"
_WITH_CONTENT = ("span_only", "span_and_event", "true")


def from_environment(env: Mapping[str, str] = os.environ) -> tuple[OpenTelemetry | None, Callable[[], None]]:
    """The observer, and what sends the rest and lets go: call it before the process ends.

    None where `OTEL_SDK_DISABLED` says so. Raises `Misuse` when the SDK is not installed, and for a protocol or an
    exporter that is not there.
    """
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None, _nothing
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter, reader = _spans(env), _metrics(env)
    except ImportError as error:
        raise Misuse("OpenTelemetry is not installed: pip install 'capataz[otel]'") from error
    named = {} if env.get("OTEL_SERVICE_NAME") or "service.name" in env.get("OTEL_RESOURCE_ATTRIBUTES", "") else _NAME
    resource = Resource.create(dict(named))
    tracers = TracerProvider(resource=resource)
    if exporter is not None:
        tracers.add_span_processor(BatchSpanProcessor(exporter))
    meters = MeterProvider([reader] if reader is not None else [], resource=resource)

    def let_go() -> None:
        tracers.shutdown()
        meters.shutdown()

    content = env.get(CONTENT, "").lower() in _WITH_CONTENT
    semconv: Semconv = "next" if env.get(SEMCONV) == "next" else "1.41"
    return OpenTelemetry(tracers, meters, content=content, semconv=semconv), let_go


_NAME = {"service.name": "capataz"}


def _nothing() -> None:
    """There is nothing to let go of."""


def _spans(env: Mapping[str, str]) -> SpanExporter | None:
    match _chosen(env, "TRACES"):
        case "none":
            return None
        case "console":
            from opentelemetry.sdk.trace.export import ConsoleSpanExporter

            return ConsoleSpanExporter(out=sys.stderr)
        case _:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            return OTLPSpanExporter()


def _metrics(env: Mapping[str, str]) -> MetricReader | None:
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader

    match _chosen(env, "METRICS"):
        case "none":
            return None
        case "console":
            return PeriodicExportingMetricReader(ConsoleMetricExporter(out=sys.stderr))
        case _:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            return PeriodicExportingMetricReader(OTLPMetricExporter())


def _chosen(env: Mapping[str, str], signal: str) -> str:
    chosen = env.get(f"OTEL_{signal}_EXPORTER", "otlp").lower() or "otlp"
    if chosen not in ("otlp", "console", "none"):
        raise Misuse(f"OTEL_{signal}_EXPORTER={chosen}: choose otlp, console or none")
    protocol = env.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if chosen == "otlp" and protocol not in (None, "http/protobuf"):
        raise Misuse(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol}: only http/protobuf is sent here")
    return chosen
