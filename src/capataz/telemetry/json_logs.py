"""Runs as JSON lines: one semantic event a line, through the standard library's logging or straight to a stream.

    app = App(..., telemetry=JsonLines(sys.stderr))        # our lines alone
    app = App(..., telemetry=EventLog())                   # into logging, beside everybody else's
    handler.setFormatter(JsonFormatter())                  # ... where this turns every record into a line

The mask stands in the formatter, at the very end: nothing that is written has gone round it. A line is never longer
than it has to be: long texts are cut, after they were masked, since half a key has no shape.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

from capataz.events.facts import JSON, Event, RunEnded, RunStarted
from capataz.events.plain import to_json
from capataz.lens.spans.marks import Masking
from capataz.privacy.configured import environment_secrets
from capataz.telemetry.json_entries import CONTENT, Fields, entry_of

SCHEMA = 1
"""Version of the schema, in each line as `v`. A new field keeps it; anything else raises it."""
LONGEST = 2000
"""Characters of one text in a line, after masking."""
MOST_RUNS = 10_000
LOGGER = "capataz.events"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Entries:
    """Facts as the fields of lines. Each says by itself which run and agent it is about."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def entry(self, run: str, event: Event) -> Fields:
        if isinstance(event.fact, RunStarted):
            self._know(run, event.fact)
        agent, root = self._runs.get(run, ("", run))
        name, level, fields = entry_of(event.fact)
        if isinstance(event.fact, RunEnded):
            self._runs.pop(run, None)
        when = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head: Fields = {"v": SCHEMA, "time": when, "level": level, "event": name, "run": run, "seq": event.seq}
        return {**head, "root": root, "agent": agent, **fields}

    def recall(self, run: str, events: Sequence[Event]) -> None:
        if events and isinstance(events[0].fact, RunStarted):
            self._know(run, events[0].fact)

    def _know(self, run: str, fact: RunStarted) -> None:
        self._runs[run] = (fact.agent, fact.root or run)
        if len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)


class JsonLines:
    """Writes one line for each fact of every run to a stream (standard error where none is given).

    `mask` takes a JSON value, a whole line, to what of it may be written; without one, the library's own is used.
    `content` False leaves out what was said, asked and answered. `debug` False leaves out the starts of model calls
    and the ends of waits.
    """

    def __init__(
        self, stream: TextIO | None = None, *, mask: Masking | None = None, content: bool = True, debug: bool = False
    ) -> None:
        self._stream, self._write = stream or sys.stderr, Writing(mask, content)
        self._debug, self._entries = debug, Entries()

    def use_mask(self, mask: Masking) -> None:
        """The App's mask, where none was given: one mask at every exit."""
        self._write.use_mask(mask)

    def __call__(self, run: str, event: Event) -> None:
        entry = self._entries.entry(run, event)
        if self._debug or entry["level"] != "debug":
            self._stream.write(self._write.line(entry) + "\n")
            self._stream.flush()

    def recall(self, run: str, events: Sequence[Event]) -> None:
        self._entries.recall(run, events)


class EventLog:
    """Hands each fact to a logger (`capataz.events` where none is given). The fields are in the record, under
    `capataz`; `JsonFormatter` writes them."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._log, self._entries = logger or logging.getLogger(LOGGER), Entries()

    def __call__(self, run: str, event: Event) -> None:
        name, level, _ = entry_of(event.fact)
        entry = self._entries.entry(run, event)
        if self._log.isEnabledFor(_LEVELS[level]):
            self._log.log(_LEVELS[level], "%s in run %s", name, run, extra={"capataz": entry})

    def recall(self, run: str, events: Sequence[Event]) -> None:
        self._entries.recall(run, events)


class JsonFormatter(logging.Formatter):
    """Turns any log record into a masked JSON line: ours with their fields, others with message and logger."""

    def __init__(self, mask: Masking | None = None, *, content: bool = True) -> None:
        super().__init__()
        self._writing = Writing(mask, content)

    def format(self, record: logging.LogRecord) -> str:
        entry: object = getattr(record, "capataz", None)
        if isinstance(entry, dict):
            return self._writing.line(entry)  # pyright: ignore[reportUnknownArgumentType]
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields: Fields = {"v": SCHEMA, "time": when, "level": record.levelname.lower(), "event": "log"}
        fields |= {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return self._writing.line(fields)


class Writing:
    """Fields to a line: content out where it is not wanted, masked, cut, on one line of ASCII-safe JSON."""

    def __init__(self, mask: Masking | None, content: bool) -> None:
        self._mask, self._content, self._own = mask or _own_mask(), content, mask is not None

    def use_mask(self, mask: Masking) -> None:
        if not self._own:
            self._mask = mask

    def line(self, entry: Fields) -> str:
        wanted = entry if self._content else {name: entry[name] for name in entry if name not in CONTENT}
        masked = self._mask({name: wanted[name] for name in wanted if name not in _PLAIN})
        plain = {name: wanted[name] for name in wanted if name in _PLAIN}
        rest = masked if isinstance(masked, dict) else {"masked": masked}
        return to_json(_cut({**plain, **rest})).decode("utf-8", "replace")


_PLAIN = frozenset(
    ("v", "time", "level", "event", "run", "seq", "root", "agent", "turn", "position", "attempt", "child", "parent")
)
"""Fields of our own making: ids and numbers that a mask could only take for something else."""


def _cut(value: JSON) -> JSON:
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}… ({len(value)} characters)"
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    return [_cut(item) for item in value] if isinstance(value, list) else value


def _own_mask() -> Masking:
    from capataz.privacy.mask import Mask

    return Mask(environment_secrets(os.environ)).value
