"""Spans that arrive piece by piece, told as one run for each trace: what is known so far, at every moment.

Exporters send a span when it ends, so children come before their parents and a root comes last or never. What is told
here depends only on which spans there are, never on their order of arrival: a batch that comes twice or late gives the
same run. A trace is one run, whatever agents it holds, since only so nothing has to move elsewhere when a parent comes.
The guards watch it, in time order, and only note what they see. Nothing here touches a store or a clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import orjson

from capataz.events.facts import JSON, Event, Fact, ModelReplied, RunEnded, VerdictGiven
from capataz.events.plain import to_json
from capataz.guards.catalogue import default_guards
from capataz.guards.watch import Watch
from capataz.ingest.build import Origin, RunBuilder
from capataz.ingest.ended import Troubles
from capataz.ingest.formats import span_attributes as said
from capataz.ingest.formats.spans import NAME, Span, spans_of, told
from capataz.ingest.shape import mapping, objects, pick, text
from capataz.kernel.verdicts import judge
from capataz.ports import KeptSpan

_ID = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True, slots=True)
class Batch:
    """The spans of one request, and how many of it could not be used (no id, or not hexadecimal)."""

    spans: tuple[KeptSpan, ...]
    unusable: int = 0


def batch(value: JSON, prefix: str = "") -> Batch:
    """The spans of an export request, ready to be kept. `prefix` goes before the trace's id."""
    found: list[KeptSpan] = []
    unusable = 0
    for resource in objects(mapping(value).get("resourceSpans")):
        service = _service(resource)
        for span in spans_of({"resourceSpans": [cast(JSON, resource)]}):
            span.trace, span.id, span.parent = span.trace.lower(), span.id.lower(), span.parent.lower()
            if not (_ID.fullmatch(span.trace) and _ID.fullmatch(span.id)) or not span.trace.strip("0"):
                unusable += 1
                continue
            found.append(KeptSpan(prefix + span.trace, span.id, _ended(span), _body(span, service)))
    return Batch(tuple(found), unusable)


def _service(resource: dict[str, JSON]) -> str:
    pairs = objects(mapping(resource.get("resource")).get("attributes"))
    nothing: dict[str, JSON] = {}
    named = next((pair for pair in pairs if pair.get("key") == "service.name"), nothing)
    return text(mapping(named.get("value")).get("stringValue"))[:200]


def _ended(span: Span) -> float:
    """What orders snapshots: the end, or for one that is under way the start."""
    return span.end if span.end is not None else span.start if span.start is not None else 0.0


def _body(span: Span, service: str) -> bytes:
    parent = span.parent if span.parent.strip("0") else ""
    return to_json(
        {
            "parent": parent,
            "name": span.name[:500],
            "start": span.start,
            "end": span.end,
            "attributes": span.attributes,
            "events": cast(JSON, span.events),
            "error": span.error,
            "service": service,
        }
    )


def read(kept: Iterable[KeptSpan]) -> list[Span]:
    """Spans from what was kept, in the order of their start."""
    spans = [_read(one) for one in kept]
    return sorted(spans, key=lambda span: (span.start or 0.0, span.end or 0.0, span.id))


def _read(kept: KeptSpan) -> Span:
    raw = mapping(orjson.loads(kept.body))
    attributes = mapping(raw.get("attributes"))
    if service := raw.get("service"):
        attributes.setdefault("service.name", service)
    events = [(text(pair[0]), mapping(pair[1])) for pair in cast(list[list[JSON]], raw["events"])]
    times = (cast("float | None", raw["start"]), cast("float | None", raw["end"]))
    name, error = text(raw["name"]), text(raw["error"])
    span = Span(kept.trace, kept.span, text(raw["parent"]), name, *times, attributes, events, error)
    span.what = said.what(attributes, name)
    return span


def interesting(spans: Sequence[Span]) -> bool:
    """Whether a trace holds anything an agent did."""
    return any(span.what in ("model", "tool", "agent") for span in spans)


def root_of(spans: Sequence[Span]) -> Span | None:
    """The span without a parent that has ended; None while it has not come."""
    return next((span for span in spans if not span.parent and span.end is not None), None)


def tell(run: str, spans: Sequence[Span], silent: float | None = None) -> list[Event]:
    """The run, as far as these spans tell it. `silent`: seconds without news, once no more is waited for."""
    builder = RunBuilder(NAME, Origin("otlp"))
    builder.id = run
    root = root_of(spans)
    frame = next((span for span in spans if span.what == "agent"), root)
    if frame is not None:
        builder.agent = text(pick(frame.attributes, "gen_ai.agent.name", "agent.name")) or frame.name
    if not builder.agent and spans:
        builder.agent = text(spans[0].attributes.get("service.name"))
    told(builder, list(spans))
    end = _end(root, silent)
    if end is not None:
        builder.end(end)
    imported = builder.finish()
    broken = sum(span.what == "agent" and bool(span.error) for span in spans)
    return [] if imported is None else list(_watched(imported.events, Troubles(broken)))


def _end(root: Span | None, silent: float | None) -> RunEnded | None:
    if root is not None and root.error:
        return RunEnded("aborted", "source-error", root.error)
    if root is not None:
        return RunEnded("answered", "source-ended")
    if silent is None:
        return None
    return RunEnded("partial", "no-end-seen", f"no span has come for {silent / 60:.0f} min, and its root never did")


def _watched(events: Iterable[Event], troubles: Troubles) -> Iterator[Event]:
    """The events with what the guards note among them, each note right behind what proves it; the end weighs both."""
    watch = Watch(default_guards())
    state, heard, turn, seq = watch.start(), dict[tuple[str, str], int](), 0, -1
    answer = ""
    for event in events:
        seq += 1
        fact: Fact = event.fact
        if isinstance(fact, ModelReplied):
            turn, answer = fact.turn, fact.text or answer
        elif isinstance(fact, RunEnded):
            fact = troubles.weigh(replace(fact, answer=answer, answer_turn=turn or None))
        troubles.take(fact)
        placed = Event(seq, event.at, fact)
        yield placed
        state, signals = watch.step(state, placed)
        for signal in signals:
            if (signal.identity, signal.advice) not in heard and not isinstance(fact, RunEnded):
                heard[signal.identity, signal.advice] = turn
                seq += 1
                note = Event(seq, event.at, judge(signal, {}, turn, "observe"))
                troubles.take(note.fact)
                yield note


def noted(events: Iterable[Event]) -> int:
    """How many notes of guards there are."""
    return sum(isinstance(event.fact, VerdictGiven) for event in events)


# ── the tree of spans ────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Node:
    """A span in its tree, or (`span` None) the stand-in for a parent that has not come."""

    id: str
    span: Span | None
    inside: list[Node] = field(default_factory=list["Node"])


def tree(spans: Sequence[Span]) -> list[Node]:
    """Each span once, under its parent or under a stand-in for it: when the parent comes it takes that very place."""
    nodes = {span.id: Node(span.id, span) for span in spans}
    tops: list[Node] = []
    for span in spans:
        node = nodes[span.id]
        if not span.parent or _circles(span, nodes):
            tops.append(node)
            continue
        above = nodes.get(span.parent)
        if above is None:
            above = nodes[span.parent] = Node(span.parent, None)
            tops.append(above)
        above.inside.append(node)
    return tops


def _circles(span: Span, nodes: dict[str, Node]) -> bool:
    """Whether a span is above itself: then it is shown at the top rather than not at all."""
    seen, at = {span.id}, nodes.get(span.parent)
    while at is not None and at.span is not None:
        if at.id == span.id:
            return True
        if at.id in seen:
            return False
        seen.add(at.id)
        at = nodes.get(at.span.parent)
    return False
