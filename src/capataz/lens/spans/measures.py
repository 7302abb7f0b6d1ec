"""What a span that has ended says in figures: the metrics of the conventions, as values to be recorded.

Which instruments there are, of what unit and with which bounds, is said here too, so that the exporter only has to
make them. Tokens are recorded only where the provider has reported them: the conventions forbid a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from capataz.lens.spans import names as n
from capataz.lens.spans.fold import SpanRecord
from capataz.lens.spans.marks import Attributes


@dataclass(frozen=True, slots=True)
class Instrument:
    """A histogram to be made: its unit, what it says, and the bounds of its buckets."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...]


HISTOGRAMS: tuple[Instrument, ...] = (
    Instrument(n.TOKEN_USAGE, "{token}", "Tokens of a model call, by type.", n.TOKEN_BUCKETS),
    Instrument(n.OPERATION_DURATION, "s", "How long model calls take.", n.SECOND_BUCKETS),
    Instrument(n.TIME_TO_FIRST_CHUNK, "s", "From the request to the first chunk.", n.SECOND_BUCKETS),
    Instrument(n.TOOL_DURATION, "s", "How long tools take.", n.SECOND_BUCKETS),
    Instrument(n.AGENT_DURATION, "s", "How long runs take.", n.AGENT_BUCKETS),
)
_STEPS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
NEXT_HISTOGRAMS: tuple[Instrument, ...] = (
    Instrument(n.NEXT_DURATION, "s", "How long model calls take.", n.SECOND_BUCKETS),
    Instrument(n.NEXT_FIRST_CHUNK, "s", "From the request to the first chunk.", n.SECOND_BUCKETS),
    Instrument(n.NEXT_INFERENCES, "{call}", "Model calls of a run.", _STEPS),
    Instrument(n.NEXT_TOOL_CALLS, "{call}", "Tool calls of a run.", _STEPS),
)
NEXT_COUNTERS = tuple(
    f"{n.NEXT_USAGE}{kind}"
    for kind in (
        "input_tokens",
        "output_tokens",
        "cache_read.input_tokens",
        "cache_write.input_tokens",
        "reasoning.output_tokens",
    )
)


class Measure(NamedTuple):
    """One value for one instrument."""

    name: str
    value: float
    attributes: Attributes


_MODEL = (n.OPERATION, n.PROVIDER, n.REQUEST_MODEL, n.RESPONSE_MODEL)
_TOOL = (n.TOOL_NAME, n.TOOL_TYPE, n.AGENT_NAME)


def measures(record: SpanRecord, semconv: n.Semconv = "1.41") -> Iterator[Measure]:
    """The values of one span. With "next", the counters and histograms of the coming conventions are added."""
    seconds = record.end - record.start
    match record.what:
        case "model":
            yield from _of_model(record, seconds)
            if semconv == "next":
                yield from _of_model_next(record, seconds)
        case "tool":
            yield Measure(n.TOOL_DURATION, seconds, _picked(record, _TOOL))
        case "run":
            attributes = _picked(record, (n.AGENT_NAME,))
            yield Measure(n.AGENT_DURATION, seconds, attributes)
            if semconv == "next":
                yield Measure(n.NEXT_TOOL_CALLS, _number(record, n.RUN_CALLS), attributes)
                yield Measure(n.NEXT_INFERENCES, _number(record, n.RUN_TURNS), attributes)
        case _:
            return


def _of_model(record: SpanRecord, seconds: float) -> Iterator[Measure]:
    attributes = _picked(record, _MODEL)
    yield Measure(n.OPERATION_DURATION, seconds, attributes)
    if n.INPUT_TOKENS in record.attributes:
        yield Measure(n.TOKEN_USAGE, _number(record, n.INPUT_TOKENS), {**attributes, n.TOKEN_TYPE: "input"})
        yield Measure(n.TOKEN_USAGE, _number(record, n.OUTPUT_TOKENS), {**attributes, n.TOKEN_TYPE: "output"})
    if n.FIRST_CHUNK in record.attributes:
        yield Measure(n.TIME_TO_FIRST_CHUNK, _number(record, n.FIRST_CHUNK), attributes)


def _of_model_next(record: SpanRecord, seconds: float) -> Iterator[Measure]:
    attributes = _picked(record, _MODEL)
    yield Measure(n.NEXT_DURATION, seconds, attributes)
    if n.FIRST_CHUNK in record.attributes:
        yield Measure(n.NEXT_FIRST_CHUNK, _number(record, n.FIRST_CHUNK), attributes)
    modal: Attributes = {**attributes, n.TOKEN_MODALITY: "text"}
    if n.INPUT_TOKENS not in record.attributes:
        # The coming text wants a zero with an unknown modality where a call has failed.
        modal[n.TOKEN_MODALITY] = "unknown"
        yield Measure(NEXT_COUNTERS[0], 0, modal)
        yield Measure(NEXT_COUNTERS[1], 0, modal)
        return
    given = (n.INPUT_TOKENS, n.OUTPUT_TOKENS, n.CACHE_READ, n.CACHE_WRITE, n.REASONING)
    for counter, name in zip(NEXT_COUNTERS, given, strict=True):
        if name in record.attributes:
            yield Measure(counter, _number(record, name), modal)


def _picked(record: SpanRecord, names: tuple[str, ...]) -> Attributes:
    found = record.attributes
    picked = {name: found[name] for name in names if name in found}
    if n.ERROR_TYPE in found:
        picked[n.ERROR_TYPE] = found[n.ERROR_TYPE]
    return picked


def _number(record: SpanRecord, name: str) -> float:
    value = record.attributes.get(name, 0)
    return value if isinstance(value, (int, float)) else 0.0
