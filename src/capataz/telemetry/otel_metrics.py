"""The instruments of the meter, made once, and the one place where a value is put into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capataz.lens import spans_names as n
from capataz.lens.metrics_counts import Count
from capataz.lens.spans import SpanRecord
from capataz.lens.spans_measures import HISTOGRAMS, NEXT_COUNTERS, NEXT_HISTOGRAMS, measures

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter


class Meters:
    """All instruments of one meter. Nothing is recorded that no fact has said."""

    def __init__(self, meter: Meter, semconv: n.Semconv) -> None:
        self._semconv: n.Semconv = semconv
        wanted = HISTOGRAMS if semconv == "1.41" else (*HISTOGRAMS, *NEXT_HISTOGRAMS)
        self._histograms: dict[str, Any] = {
            each.name: meter.create_histogram(
                each.name, each.unit, each.description, explicit_bucket_boundaries_advisory=each.bounds
            )
            for each in wanted
        }
        self._counters: dict[str, Any] = {
            name: meter.create_counter(name, "{count}", description) for name, description in n.COUNTERS.items()
        }
        if semconv == "next":
            self._counters |= {name: meter.create_counter(name, "{token}") for name in NEXT_COUNTERS}

    def count(self, count: Count, agent: str) -> None:
        self._counters[count.name].add(1, {n.AGENT_NAME: agent, **dict(count.labels)})

    def measure(self, record: SpanRecord) -> None:
        for measure in measures(record, self._semconv):
            histogram = self._histograms.get(measure.name)
            if histogram is not None:
                histogram.record(measure.value, measure.attributes)
            else:
                self._counters[measure.name].add(measure.value, measure.attributes)
