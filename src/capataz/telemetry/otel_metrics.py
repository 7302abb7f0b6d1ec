"""The instruments of the meter, made once, and the one place where values are put into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from capataz.lens.metrics.counts import Count
from capataz.lens.spans import names as n
from capataz.lens.spans.fold import SpanRecord
from capataz.lens.spans.marks import Attributes
from capataz.lens.spans.measures import HISTOGRAMS, NEXT_COUNTERS, NEXT_HISTOGRAMS, measures

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter


class Meters:
    """All instruments of one meter. Nothing is recorded that no fact has said."""

    def __init__(self, meter: Meter, semconv: n.Semconv) -> None:
        self._semconv: n.Semconv = semconv
        wanted = HISTOGRAMS if semconv == "1.41" else (*HISTOGRAMS, *NEXT_HISTOGRAMS)
        counters = {name: ("{count}", description) for name, description in n.COUNTERS.items()}
        if semconv == "next":
            counters |= {name: ("{token}", "") for name in NEXT_COUNTERS}
        self._put: dict[str, Callable[[float, Attributes], None]] = {
            each.name: meter.create_histogram(
                each.name, each.unit, each.description, explicit_bucket_boundaries_advisory=each.bounds
            ).record
            for each in wanted
        }
        self._put |= {name: meter.create_counter(name, *about).add for name, about in counters.items()}
        self._counted: dict[tuple[Count, str], int] = {}

    def count(self, count: Count, agent: str) -> None:
        """One more of something, told with the next `flush`."""
        self._counted[count, agent] = self._counted.get((count, agent), 0) + 1

    def flush(self) -> None:
        """Tell the counters."""
        counted, self._counted = self._counted, {}
        for (count, agent), times in counted.items():
            self._put[count.name](times, {n.AGENT_NAME: agent, **dict(count.labels)})

    def measure(self, record: SpanRecord) -> None:
        for name, value, attributes in measures(record, self._semconv):
            self._put[name](value, attributes)
