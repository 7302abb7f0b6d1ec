"""Capataz's own logs, written out as lines of events. They are taken as they are: nothing is guessed over them."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from capataz.events.codec import from_line
from capataz.events.facts import JSON, Event, ModelReplied, RunLabelled, RunStarted
from capataz.ingest.build import ImportedRun, Origin
from capataz.ingest.formats.base import Context, SessionFormat
from capataz.ingest.shape import mapping, text
from capataz.mistakes import Unreadable

NAME = "capataz"


def looks(value: JSON) -> bool:
    line = mapping(value)
    return "seq" in line and "at" in line and "t" in mapping(line.get("fact"))


class Log:
    """Fed the lines of one or more logs, one after another; each `RunStarted` begins another run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._events: list[Event] = []
        self._line = 0

    def feed(self, value: JSON, line: int) -> Iterator[ImportedRun]:
        try:
            event = from_line(orjson.dumps(value))
        except (Unreadable, TypeError) as problem:
            self._context.bad(line, str(problem))
            return
        if isinstance(event.fact, RunStarted):
            yield from self.close()
            self._line = line
        if len(self._events) < self._context.limits.run_events:
            self._events.append(event)

    def close(self) -> Iterator[ImportedRun]:
        events, self._events = self._events, []
        if not events:
            return
        first = events[0].fact
        if not isinstance(first, RunStarted):
            self._context.bad(self._line, "a log that does not begin with RunStarted: its beginning is missing")
            return
        label = next((e.fact.success for e in reversed(events) if isinstance(e.fact, RunLabelled)), None)
        used = [e.fact.usage.reported for e in events if isinstance(e.fact, ModelReplied)]
        key = text(first.task_type) or first.task
        origin = Origin(self._context.file, self._line)
        known = bool(used) and all(used)
        yield ImportedRun(first.run, NAME, origin, events, label, key, first.model, known, True, parent=first.parent)


FORMAT = SessionFormat(NAME, looks, Log)
