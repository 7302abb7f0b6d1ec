"""From records to spans of the SDK: ids, sampling, and the hand-over to the provider's processors.

The sampler is asked once for each trace, with the attributes a run begins with, as the conventions want; the runs below
follow. A trace that is not sampled costs no span. Only what the SDK offers to processors is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts, trace as api
from opentelemetry.sdk.trace import Event as SpanEvent, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from capataz.lens.spans.fold import SpanRecord, Spans
from capataz.lens.spans.marks import Mark

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Tracer

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_NOT_SAMPLED = TraceFlags(TraceFlags.DEFAULT)
_KEPT = 64
_UNSET = Status(StatusCode.UNSET)
_KINDS: Mapping[bool, SpanKind] = {True: SpanKind.CLIENT, False: SpanKind.INTERNAL}


@dataclass(slots=True, eq=False)
class Trail:
    """The trace of a run: its id, whether it is sampled, and the identity of each of its spans."""

    trace: SpanContext
    _known: dict[str, SpanContext] = field(default_factory=dict[str, SpanContext])

    def of(self, key: str) -> SpanContext:
        """The identity of the span with this key."""
        trace = self.trace
        return self._known.get(key) or SpanContext(
            trace.trace_id, span_id(key), False, trace.trace_flags, trace.trace_state
        )

    def above(self, key: str) -> SpanContext:
        """The same for a span that has others below it. A few are kept: it is asked for again and again."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) > _KEPT:
                self._known.clear()
            found = self._known[key] = self.of(key)
        return found


class Exporting:
    """Hands records to the processors of one tracer; None where no provider of the SDK's is set."""

    def __init__(self, tracer: Tracer | None, scope: str, version: str, schema: str) -> None:
        self._tracer = tracer
        self._scope = InstrumentationScope(scope, version, schema)

    def ambient(self) -> SpanContext | None:
        """The span the caller is in, if there is one."""
        found = api.get_current_span().get_span_context()
        return found if found.is_valid else None

    def trace(self, spans: Spans, above: SpanContext | None) -> Trail | None:
        """The trace of a run, and whether it is sampled. None where nothing is to be exported."""
        tracer = self._tracer
        if tracer is None or spans.run is None:
            return None
        number = above.trace_id if above is not None else trace_id(spans.trace)
        parent = api.set_span_in_context(NonRecordingSpan(above)) if above is not None else contexts.Context()
        result: Any = tracer.sampler.should_sample(
            parent, number, f"invoke_agent {spans.run.agent}", SpanKind.INTERNAL, spans.start_attributes, ()
        )
        flags = _SAMPLED if result.decision.is_sampled() else _NOT_SAMPLED
        return Trail(SpanContext(number, span_id(spans.key), False, flags, result.trace_state))

    def export(self, record: SpanRecord, trail: Trail | None, above: SpanContext | None) -> None:
        """Hand one ended span over. The processors are the SDK's and return at once."""
        tracer = self._tracer
        if tracer is None or trail is None or not trail.trace.trace_flags.sampled:
            return
        parent = above if record.parent is None else trail.above(record.parent)
        links = (Link(trail.of(record.link)),) if record.link is not None else ()
        span = ReadableSpan(
            name=record.name,
            context=trail.of(record.key),
            parent=parent,
            resource=tracer.resource,
            attributes=record.attributes,
            events=[_event(mark) for mark in record.marks] if record.marks else (),
            links=links,
            kind=_KINDS[record.client],
            status=Status(StatusCode.ERROR, record.error) if record.error else _UNSET,
            start_time=int(record.start * 1e9),
            end_time=int(record.end * 1e9),
            instrumentation_scope=self._scope,
        )
        tracer.span_processor.on_end(span)

    def enter(self, key: str | None, trail: Trail | None) -> None:
        """Make the span with this key the current one of the task that runs now."""
        if key is not None and trail is not None:
            contexts.attach(api.set_span_in_context(_Inside(trail.of(key), contexts.get_current())))

    def leave(self) -> None:
        """Give the task back the context it had before, if the span is still the current one here."""
        current = api.get_current_span()
        if isinstance(current, _Inside):
            contexts.attach(current.before)


class _Inside(NonRecordingSpan):
    """Stands for a span that will be exported when it has ended. Remembers the context around it."""

    def __init__(self, context: SpanContext, before: contexts.Context) -> None:
        super().__init__(context)
        self.before = before


def _event(mark: Mark) -> SpanEvent:
    return SpanEvent(mark.name, dict(mark.attributes), int(mark.at * 1e9))


def span_id(key: str) -> int:
    """The id of a span, from its key: 64 bits, the same in every process, never zero."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8, person=b"capataz-span").digest()) or 1


def trace_id(root: str) -> int:
    """The id of a trace, from the id of the run at its top: 128 bits, never zero."""
    return int.from_bytes(blake2b(root.encode(), digest_size=16, person=b"capataz-trace").digest()) or 1
