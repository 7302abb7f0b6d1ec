"""What reading records found besides runs: how much of which format, and everything that could not be read, named.

A broken line is a fact about the records, never a reason to stop. The list of notes is bounded; the counts are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from capataz.events.facts import JSON

LEFT = 5
"""How many files that are left alone for one reason are named."""
TOOLS = 1_000
"""How many names of tools are kept."""
NOTES = 200
"""How many notes are kept word for word; the rest are only counted."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one reading may cost, whatever the records are. Reaching one is reported, never raised."""

    value_bytes: int = 256 << 20
    """One JSON value: a line of a file of lines, or a whole file (after unpacking)."""
    unpacked_bytes: int = 8 << 30
    """All that one compressed file may unpack to."""
    members: int = 100_000
    """Files inside one archive."""
    files: int = 1_000_000
    run_events: int = 200_000
    """Events of one run; what comes after is left out and said so."""


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that could not be read: `file:line: why` (line 0 where it is about the whole file)."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}" if self.line else f"{self.file}: {self.why}"


@dataclass(slots=True)
class Report:
    """Filled while runs are read. Reports of parts add up with `merge`."""

    files: int = 0
    runs: Counter[str] = field(default_factory=Counter[str])
    """Runs read, by format."""
    broken: int = 0
    """Lines and files that could not be read."""
    skipped: Counter[str] = field(default_factory=Counter[str])
    """Files left alone, by reason."""
    left_alone: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Names of the first `LEFT` of them, by reason."""
    notes: list[Note] = field(default_factory=list[Note])
    tools: set[str] = field(default_factory=set[str])
    """Names of tools whose class was guessed, kept where somebody says better: theirs, and the first `TOOLS`."""

    def bad(self, file: str, line: int, why: str) -> None:
        """Count something broken and remember where."""
        self.broken += 1
        self._note(file, line, why)

    def skip(self, file: str, why: str) -> None:
        """Count a file that holds nothing for us, and name it while there are few."""
        self.skipped[why] += 1
        self._leave(why, [file])

    def warn(self, file: str, line: int, why: str) -> None:
        """Remember something that was read but not wholly."""
        self._note(file, line, why)

    def meet(self, tools: Iterable[str], said: Container[str]) -> None:
        """Remember the tools of a run; those that are `said` however many there are."""
        self.tools.update(name for name in tools if name in said or len(self.tools) < TOOLS)

    def merge(self, other: Report) -> None:
        """Add what another part of the same reading found."""
        self.files += other.files
        self.runs.update(other.runs)
        self.broken += other.broken
        self.skipped.update(other.skipped)
        self.tools |= other.tools
        for why, files in other.left_alone.items():
            self._leave(why, files)
        self.notes = sorted([*self.notes, *other.notes], key=lambda note: (note.file, note.line))[:NOTES]

    def as_json(self) -> dict[str, JSON]:
        """For `--json` outputs."""
        return {
            "files": self.files,
            "runs": dict(self.runs),
            "broken": self.broken,
            "skipped": dict(self.skipped),
            "left_alone": {why: list[JSON](files) for why, files in self.left_alone.items()},
            "notes": [str(note) for note in self.notes],
        }

    def _leave(self, why: str, files: list[str]) -> None:
        self.left_alone[why] = sorted([*self.left_alone.get(why, ()), *files])[:LEFT]

    def _note(self, file: str, line: int, why: str) -> None:
        if len(self.notes) < NOTES:
            self.notes.append(Note(file, line, why))
