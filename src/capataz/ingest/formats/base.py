"""What a format is: how a record of it is known by its content, and how it becomes runs.

Two shapes cover every format: a *document* is one JSON value that holds whole runs; a *session* is a file of lines
that together tell one run or several. A format may never look at file names, and may never raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from capataz.events.facts import JSON, Kind
from capataz.ingest.build import ImportedRun, Origin, RunBuilder
from capataz.ingest.report import Limits, Report


@dataclass(frozen=True, slots=True)
class Context:
    """What a converter is given besides the record."""

    file: str
    line: int = 0
    kinds: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    limits: Limits = field(default_factory=Limits)
    report: Report = field(default_factory=Report)

    def builder(self, format: str, line: int | None = None) -> RunBuilder:
        """A builder for a run that begins here."""
        return RunBuilder(
            format, Origin(self.file, self.line if line is None else line), self.kinds, self.limits.run_events
        )

    def bad(self, line: int, why: str) -> None:
        """Something in the record could not be read."""
        self.report.bad(self.file, line or self.line, why)


class Session(Protocol):
    """Fed the lines of one file in order; gives runs as soon as they are whole, the rest at the end."""

    def feed(self, value: JSON, line: int) -> Iterable[ImportedRun]: ...
    def close(self) -> Iterable[ImportedRun]: ...


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A value that holds whole runs."""

    name: str
    looks: Callable[[JSON], bool]
    runs: Callable[[JSON, Context], Iterable[ImportedRun]]


@dataclass(frozen=True, slots=True)
class SessionFormat:
    """Lines that together tell runs."""

    name: str
    looks: Callable[[JSON], bool]
    open: Callable[[Context], Session]
