"""Traces: OTLP/JSON, and the dumps of spans that the Python and JavaScript SDKs and Phoenix write.

A run is the turns under one agent span, or a whole trace where there is none; an agent inside another's run is its
child. Spans arrive in any order and over many lines, so a file's spans are gathered (within limits) before any run is
given. What a span says is read in `span_attributes`; here it is only known when it happened and under what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from capataz.events.facts import JSON, RunEnded
from capataz.faults.classify import classify_text
from capataz.ingest.build import Asked, ImportedRun, RunBuilder, finished
from capataz.ingest.formats import span_attributes as said
from capataz.ingest.formats.base import Context, SessionFormat
from capataz.ingest.results import looks_wrong
from capataz.ingest.shape import decode, items, mapping, moment, objects, pick, real, text

NAME = "otel"


@dataclass(slots=True)
class Span:
    """A span, whatever it was written in. Times in seconds since the epoch."""

    trace: str
    id: str
    parent: str
    name: str
    start: float | None
    end: float | None
    attributes: dict[str, JSON]
    events: list[tuple[str, dict[str, JSON]]] = field(default_factory=list[tuple[str, dict[str, JSON]]])
    error: str = ""
    what: said.What = "other"
    line: int = 0


def looks(value: JSON) -> bool:
    record = mapping(value)
    if isinstance(record.get("resourceSpans"), list) or isinstance(record.get("resource_spans"), list):
        return True
    if _is_span(record):
        return True
    # Some dumps sort spans into lists by their name.
    return bool(record) and all(_is_span(mapping(next(iter(items(group)), None))) for group in record.values())


def _is_span(record: dict[str, JSON]) -> bool:
    context = mapping(pick(record, "spanContext", "context"))
    known = pick(context, "traceId", "trace_id") or record.get("traceId") or record.get("trace_id")
    return bool(known) and "name" in record and isinstance(record.get("attributes"), (dict, list))


class Traces:
    """Gathers the spans of one file, then gives its runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._spans: list[Span] = []

    def feed(self, value: JSON, line: int) -> Iterator[ImportedRun]:
        for span in spans_of(value):
            if len(self._spans) < self._context.limits.run_events:
                span.line = line
                span.what = said.what(span.attributes, span.name)
                self._spans.append(span)
        yield from ()

    def close(self) -> Iterator[ImportedRun]:
        spans, self._spans = self._spans, []
        if spans and all(span.what == "other" for span in spans):
            self._context.report.skip(self._context.file, "spans without any model call or tool")
            return
        yield from _runs(spans, self._context)


def spans_of(value: JSON) -> Iterator[Span]:
    """The spans in one value, in whatever frame it has."""
    record = mapping(value)
    batches = pick(record, "resourceSpans", "resource_spans")
    if batches is not None:
        for batch in objects(batches):
            for scope in objects(pick(batch, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")):
                for span in objects(scope.get("spans")):
                    yield _span(span)
    elif _is_span(record):
        yield _span(record)
    else:
        for group in record.values():
            for span in objects(group):
                yield _span(span)


def _span(record: dict[str, JSON]) -> Span:
    context = mapping(pick(record, "spanContext", "context"))
    parent = pick(record, "parentSpanId", "parent_span_id", "parent_id")
    parent = parent or pick(mapping(record.get("parentSpanContext")), "spanId", "span_id")
    status = mapping(record.get("status"))
    failed = text(pick(status, "code", "status_code")).upper() in ("2", "ERROR", "STATUS_CODE_ERROR")
    failed = failed or text(record.get("status_code")).upper() == "ERROR"
    attributes = _attributes(record.get("attributes"))
    why = text(pick(status, "message", "description")) or text(attributes.get("error.type"))
    return Span(
        text(pick(context, "traceId", "trace_id")) or text(pick(record, "traceId", "trace_id")),
        text(pick(context, "spanId", "span_id")) or text(pick(record, "spanId", "span_id")),
        text(parent),
        text(record.get("name")),
        _time(pick(record, "startTimeUnixNano", "start_time_unix_nano", "startTime", "start_time")),
        _time(pick(record, "endTimeUnixNano", "end_time_unix_nano", "endTime", "end_time")),
        attributes,
        [(text(event.get("name")), _content(event)) for event in objects(record.get("events"))],
        (why or "error") if failed else "",
    )


def _content(event: dict[str, JSON]) -> dict[str, JSON]:
    """An event's attributes, with the message some instrumentations put into one of them."""
    attributes = _attributes(event.get("attributes"))
    inner = mapping(decode(pick(attributes, "gen_ai.event.content", "event_body")))
    return {**attributes, **inner}


def _time(value: JSON) -> float | None:
    if isinstance(value, list) and len(value) == 2:
        seconds, nanos = real(value[0]), real(value[1])
        return None if seconds is None or nanos is None else seconds + nanos / 1e9
    return moment(value)


def _attributes(value: JSON) -> dict[str, JSON]:
    """Attributes flat, by dotted name: OTLP's typed pairs, a plain object, or an object of objects."""
    flat: dict[str, JSON] = {}
    for pair in objects(value):
        flat[text(pair.get("key"))] = _typed(mapping(pair.get("value")))
    waiting = [("", mapping(value))]
    while waiting and len(flat) < 20_000:
        prefix, level = waiting.pop()
        for key, inner in level.items():
            if isinstance(inner, dict) and inner and "." not in key:
                waiting.append((f"{prefix}{key}.", inner))
            else:
                flat[prefix + key] = inner
    return flat


def _typed(value: dict[str, JSON]) -> JSON:
    for name, inner in value.items():
        if name in ("arrayValue", "array_value"):
            return [_typed(mapping(item)) for item in items(mapping(inner).get("values"))[:10_000]]
        if name in ("kvlistValue", "kvlist_value"):
            pairs = objects(mapping(inner).get("values"))
            return {text(pair.get("key")): _typed(mapping(pair.get("value"))) for pair in pairs}
        return int(inner) if name == "intValue" and isinstance(inner, str) and inner.lstrip("-").isdecimal() else inner
    return None


def _runs(spans: list[Span], context: Context) -> Iterator[ImportedRun]:
    by_id = {(span.trace, span.id): span for span in spans}
    owner = {(span.trace, span.id): _owner(span, by_id) for span in spans}
    groups: dict[tuple[str, str], list[Span]] = {}
    for span in spans:
        groups.setdefault((span.trace, owner[span.trace, span.id]), []).append(span)
    tops = Counter(trace for trace, agent in groups if not _above(trace, agent, by_id, owner))
    for (trace, agent), group in groups.items():
        frame = by_id.get((trace, agent))
        builder = context.builder(NAME, group[0].line)
        above = _above(trace, agent, by_id, owner)
        builder.id = _run_id(trace, agent, bool(above), tops)
        if frame is not None:
            builder.agent = text(pick(frame.attributes, "gen_ai.agent.name", "agent.name")) or frame.name
        if above:
            builder.parent = _run_id(trace, above, bool(_above(trace, above, by_id, owner)), tops)
        _tell(builder, sorted(group, key=lambda span: span.start or 0.0))
        yield from finished(builder)


def _above(trace: str, agent: str, by_id: dict[tuple[str, str], Span], owner: dict[tuple[str, str], str]) -> str:
    """Id of the agent span whose run started this one; empty for a run at the top."""
    frame = by_id.get((trace, agent))
    return owner.get((trace, frame.parent), "") if frame is not None and frame.parent else ""


def _run_id(trace: str, agent: str, below: bool, tops: Counter[str]) -> str:
    """A run at the top of its trace has the trace's id, unless it shares the trace with others."""
    return trace if not agent or (not below and tops[trace] == 1) else f"{trace}/{agent}"


def _owner(span: Span, by_id: dict[tuple[str, str], Span]) -> str:
    """Id of the nearest agent span at or above; empty where there is none."""
    seen: set[str] = set()
    at: Span | None = span
    while at is not None and at.id not in seen and len(seen) < 1000:
        if at.what == "agent":
            return at.id
        seen.add(at.id)
        at = by_id.get((at.trace, at.parent)) if at.parent else None
    return ""


def told(builder: RunBuilder, spans: list[Span]) -> None:
    """Tell these spans, of one run and in the order of their start, to a builder."""
    _tell(builder, spans)


def _tell(builder: RunBuilder, spans: list[Span]) -> None:
    """Model calls in order, each with the tools used before the next one."""
    model: Span | None = None
    tools: list[Span] = []
    heard: set[str] = set()
    for span in spans:
        if span.what == "model":
            _segment(builder, model, tools, heard)
            model, tools = span, []
        elif span.what == "tool":
            tools.append(span)
    _segment(builder, model, tools, heard)
    builder.task = builder.task or _task(spans)
    frame = next((span for span in spans if span.what == "agent"), None)
    if frame is not None and frame.error:
        builder.end(RunEnded("aborted", "source-error", frame.error))


def _task(spans: list[Span]) -> str:
    """The task, where no model call tells it: that of the agent, of the call of an SDK around turns, or of the root."""
    agents = [span for span in spans if span.what == "agent"]
    calls = [span for span in spans if span.what == "other" and "ai.operationId" in span.attributes]
    roots = [span for span in spans if span.what == "other" and not span.parent.strip("0")]
    told = (said.task(span.attributes, span.events) for span in (*agents, *calls, *roots))
    return next((words for words in told if words), "")


def _segment(builder: RunBuilder, model: Span | None, tools: list[Span], heard: set[str]) -> None:
    if model is None and not tools:
        return
    told = said.Exchange() if model is None else said.exchange(model.attributes, model.events)
    _listen(builder, told, model, heard)
    if model is not None and model.error:
        builder.failed(classify_text(model.error, "model"), model.end)
    used = [(span, *said.tool(span.attributes, span.name, span.events)) for span in tools]
    asked = [*told.asked, *_unasked(told.asked, [ask for _, ask, _ in used])]
    if model is None or not model.error or asked:
        end = model.end if model is not None else tools[0].start
        builder.reply(
            told.said, asked, usage=told.usage, at=end, model=told.model, stop=told.stop, seconds=_seconds(model)
        )
        heard.add(told.said)
    for span, ask, result in used:
        wrong, took = bool(span.error) or looks_wrong(result), _seconds(span)
        value = span.error if result is None and span.error else result
        if not builder.result(value, id=ask.id, error=wrong, at=span.end, seconds=took):
            builder.result(value, error=wrong, at=span.end, seconds=took)


def _seconds(span: Span | None) -> float:
    """How long a span took; 0 where it does not say."""
    if span is None or span.start is None or span.end is None:
        return 0.0
    return max(0.0, span.end - span.start)


def _listen(builder: RunBuilder, told: said.Exchange, model: Span | None, heard: set[str]) -> None:
    """What is new in what the model was told: histories are sent again and again."""
    start = None if model is None else model.start
    builder.instructions = builder.instructions or told.system
    for id, value, wrong in told.results:
        if id:
            builder.result(value, id=id, error=wrong, at=start)
    for role, words in told.heard:
        if role == "user" and words not in heard:
            heard.add(words)
            builder.say(words, at=start)


def _unasked(asked: list[Asked], used: list[Asked]) -> list[Asked]:
    """Tools that were used without the model's recorded words asking for them: content was not captured."""
    left = list(asked)
    missing: list[Asked] = []
    for ask in used:
        match = next((one for one in left if one.id == ask.id and ask.id), None)
        match = match or next((one for one in left if one.tool == ask.tool), None)
        if match is None:
            missing.append(ask)
        else:
            left.remove(match)
    return missing


FORMAT = SessionFormat(NAME, looks, Traces)
