"""Runs as OpenTelemetry spans and metrics, through the official SDK: an observer that only watches.

    app = App(..., telemetry=OpenTelemetry(tracer_provider=provider, meter_provider=meters))

A span is handed to the provider's processors when it has ended, with the times of the log. Trace and span ids are made
from the ids of runs, so a run that a second worker takes over stays one trace and a sub-agent's spans hang below the
call that began it, without anything being carried from process to process. Nothing is sent from here: batches, retries
and addresses are the SDK's, which works long on each value. So what has ended is held for a moment and handed over by
the dozen, at the latest with the end of its run. It needs the extra `capataz[otel]`, and may never hold up or break
what it watches.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capataz.events.facts import Event, RunStarted, ToolFailed, ToolFinished, ToolStarted
from capataz.lens.metrics.counts import Counting
from capataz.lens.spans.fold import SpanRecord, Spans
from capataz.lens.spans.marks import Masking
from capataz.lens.spans.names import SCHEMA_URL, Semconv
from capataz.mistakes import Misuse
from capataz.privacy.configured import environment_secrets

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import SpanContext, TracerProvider

    from capataz.telemetry.otel_metrics import Meters
    from capataz.telemetry.otel_spans import Exporting, Trail

MOST_RUNS = 10_000
"""Runs followed at once. One that is forgotten is folded anew from its log when it is next taken up."""
SCOPE = "capataz"
MOST_HELD = 32
"""Spans that wait to be handed over, at most: less than a millisecond's work."""
LATEST = 0.2
"""Seconds for which they do."""


@dataclass(slots=True, eq=False)
class _Watched:
    spans: Spans
    counting: Counting
    trail: Trail | None = None
    above: SpanContext | None = None
    """The caller's own span, where the run was begun inside one."""


class OpenTelemetry:
    """Watches the runs of an App.

    `tracer_provider` and `meter_provider` are the SDK's; without them, those that are set globally. `content` puts
    instructions, messages, arguments and results on the spans, each passed through `mask` before it is an attribute;
    without a mask, the library's own. `semconv` "next" adds what the coming conventions settle. Raises `Misuse` when
    the SDK is not installed, or a provider is not the SDK's.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
        mask: Masking | None = None,
        semconv: Semconv = "1.41",
    ) -> None:
        self._exporting = _exporting(tracer_provider)
        self._meters: Meters = _meters(meter_provider, semconv)
        self._content, self._mask, self._own = content, mask or _own_mask(), mask is not None
        self._semconv: Semconv = semconv
        self._runs: OrderedDict[str, _Watched] = OrderedDict()
        self._held: list[tuple[SpanRecord, Trail | None, SpanContext | None]] = []
        self._flushing = False

    def __repr__(self) -> str:
        return f"OpenTelemetry(content={self._content}, semconv={self._semconv!r})"

    def use_mask(self, mask: Masking) -> None:
        """The App's mask, where none was given: one mask at every exit."""
        if not self._own:
            self._mask = mask

    def __call__(self, run: str, event: Event) -> None:
        """A fact has been recorded."""
        watched = self._runs.get(run)
        if watched is None:
            if not isinstance(event.fact, RunStarted):
                return
            watched = self._begin(run)
        records = watched.spans.fold(event)
        if isinstance(event.fact, RunStarted):
            self._place(watched)
        agent = watched.spans.agent
        counts = watched.counting.fold(event)
        for count in counts:
            self._meters.count(count, agent)
        self._held += [(record, watched.trail, watched.above) for record in records]
        if isinstance(event.fact, (ToolStarted, ToolFinished, ToolFailed)):
            self._surround(watched, event)
        if not watched.spans.open:
            self.flush()
            self._forget_old()
        elif counts or records:
            self._flush_soon()

    def recall(self, run: str, events: Sequence[Event]) -> None:
        """A run is taken up from its log: what is told of it from now on goes on from there. Exports nothing."""
        watched = self._begin(run)
        for event in events:
            watched.spans.fold(event)
            watched.counting.fold(event)
        if watched.spans.run is not None:
            self._place(watched)

    def flush(self) -> None:
        """Hand over what is held."""
        self._flushing = False
        held, self._held = self._held, []
        for record, trail, above in held:
            self._meters.measure(record)
            self._exporting.export(record, trail, above)
        self._meters.flush()

    def _flush_soon(self) -> None:
        """In a moment, or at once: where much is held, and where no loop runs that could come back to it."""
        if len(self._held) >= MOST_HELD:
            self.flush()
        elif not self._flushing:
            try:
                asyncio.get_running_loop().call_later(LATEST, self.flush)
                self._flushing = True
            except RuntimeError:
                self.flush()

    def _begin(self, run: str) -> _Watched:
        known = self._runs.pop(run, None)
        watched = _Watched(Spans(self._mask, self._content, self._semconv), Counting())
        if known is not None:
            watched.above = known.above
        self._runs[run] = watched
        while len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)
        return watched

    def _place(self, watched: _Watched) -> None:
        """Which trace the run belongs to: that of its root, of the caller's span, or one of its own."""
        spans = watched.spans
        root = self._runs.get(spans.trace)
        if root is not None and root is not watched and root.trail is not None:
            watched.trail = root.trail
            return
        watched.above = watched.above or (None if spans.parent is not None else self._exporting.ambient())
        watched.trail = self._exporting.trace(spans, watched.above)

    def _surround(self, watched: _Watched, event: Event) -> None:
        """While a tool runs its span is the current one, so that spans of the tool's own hang below it."""
        fact = event.fact
        if isinstance(fact, ToolStarted):
            key = watched.spans.tool_span(fact.turn, fact.position)
            self._exporting.enter(key, watched.trail)
        else:
            self._exporting.leave()

    def _forget_old(self) -> None:
        """Runs that are over are kept a while, since children may still end after them and people may answer."""
        over = len(self._runs) - MOST_RUNS // 10
        while over > 0 and self._runs:
            run, oldest = next(iter(self._runs.items()))
            if oldest.spans.open:
                return
            del self._runs[run]
            over -= 1


def _exporting(provider: TracerProvider | None) -> Exporting:
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import Tracer

        from capataz.telemetry.otel_spans import Exporting
    except ImportError as error:
        raise Misuse("OpenTelemetry is not installed: pip install 'capataz[otel]'") from error
    given = provider or trace.get_tracer_provider()
    tracer = given.get_tracer(SCOPE, _version(), schema_url=SCHEMA_URL)
    if isinstance(tracer, Tracer):
        return Exporting(tracer, SCOPE, _version(), SCHEMA_URL)
    if provider is None:  # none is set: nothing is exported, metrics may still be
        return Exporting(None, SCOPE, _version(), SCHEMA_URL)
    raise Misuse(f"tracer_provider is a {type(provider).__name__}: give a TracerProvider of opentelemetry.sdk.trace")


def _meters(provider: MeterProvider | None, semconv: Semconv) -> Meters:
    from opentelemetry import metrics

    from capataz.telemetry.otel_metrics import Meters

    given = provider or metrics.get_meter_provider()
    return Meters(given.get_meter(SCOPE, _version(), SCHEMA_URL), semconv)


def _version() -> str:
    from importlib.metadata import version

    return version("capataz")


def _own_mask() -> Masking:
    from capataz.privacy.mask import Mask

    return Mask(environment_secrets(os.environ)).value
