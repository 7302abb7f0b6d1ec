"""Reading runs out of anybody's records: the one function the rest of Capataz calls.

Records are recognised by content, read one run at a time, and converted to our events. Nothing a file holds can make
this raise: what cannot be read is counted and named in the report.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import orjson

from capataz.events.facts import JSON, Kind
from capataz.events.plain import shallow
from capataz.ingest import files
from capataz.ingest.build import ImportedRun
from capataz.ingest.formats import react
from capataz.ingest.formats.base import Context, DocumentFormat, Session, SessionFormat
from capataz.ingest.registry import document_format, session_format
from capataz.ingest.report import Limits, Report
from capataz.ingest.shape import TOO_DEEP, items, unread

_PATIENCE = 40
"""Lines that may go unrecognised at the start of a file before the rest is no longer asked about."""


@dataclass(frozen=True, slots=True)
class Share:
    """This reader's part of the work when several read the same paths: every `of`-th run-line or file, from `index`."""

    index: int = 0
    of: int = 1

    def mine(self, number: int) -> bool:
        return self.of == 1 or number % self.of == self.index


@dataclass(slots=True)
class _Reading:
    """What one reading carries along."""

    report: Report
    limits: Limits
    kinds: Mapping[str, Kind]
    share: Share
    common: Report
    """For what every share sees: the first one's report is the report, the others' is thrown away."""
    whole_files: int = 0
    """Files that are not split by line, counted to share them out."""

    def next_is_mine(self) -> bool:
        """Whether the next file that cannot be split is this share's. Asked once for each such file, by every share."""
        self.whole_files += 1
        return self.share.mine(self.whole_files)


def read_runs(
    paths: Iterable[Path | str],
    *,
    report: Report | None = None,
    limits: Limits | None = None,
    kinds: Mapping[str, Kind] | None = None,
    share: Share | None = None,
) -> Iterator[ImportedRun]:
    """The runs in these files, folders, archives or standard input (`-`), one at a time.

    `report` is filled as runs are read; `kinds` says what tools do, by name, and overrules every guess. With a
    `share` only that part of the runs is given: the shares of one reading together give every run once.

    >>> for run in read_runs([Path("traces")], report=Report()):  # doctest: +SKIP
    ...     print(run.id, run.label, len(run.events))
    """
    share, report = share or Share(), report if report is not None else Report()
    common = report if share.index == 0 else Report()
    reading = _Reading(report, limits or Limits(), kinds or {}, share, common)
    for source in files.sources(paths, reading.common, reading.limits):
        reading.common.files += 1
        try:
            yield from _counted(_source(source, reading), reading)
        except files.UNPACKING as problem:
            reading.common.bad(source.name, 0, f"cannot be unpacked further: {problem}")


def _counted(runs: Iterable[ImportedRun], reading: _Reading) -> Iterator[ImportedRun]:
    for run in runs:
        if run.parent is None:
            reading.report.runs[run.source_format] += 1
        else:
            reading.report.runs[f"{run.source_format} sub-agents"] += 1
        if reading.kinds:
            reading.report.meet(run.guesses, reading.kinds)
        yield run


def _source(source: files.Source, reading: _Reading) -> Iterator[ImportedRun]:
    if source.archive is None:
        yield from _stream(source.name, source.stream, reading)
    else:
        yield from _archive(source.name, source.archive, reading)


def _archive(name: str, archive: zipfile.ZipFile, reading: _Reading) -> Iterator[ImportedRun]:
    for inner, stream in files.members(archive, reading.limits):
        yield from _stream(f"{name}!{inner}", stream, reading)


def _stream(name: str, stream: BinaryIO, reading: _Reading) -> Iterator[ImportedRun]:
    """One file: by the look of its head a text log, lines of JSON, or one JSON value."""
    context = Context(name, 0, reading.kinds, reading.limits, reading.report)
    lines = files.Lines(name, stream, reading.common, reading.limits)
    head = lines.head()
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        if any(line.startswith(b'{"') for line in head.split(b"\n")[1:6]):
            # Lines of JSON whose first one is damaged.
            yield from _each_line(_chained([], lines), context, reading)
        elif reading.next_is_mine():
            yield from _noted(_text(lines, head, context), context)
        return
    first = lines.next()
    if first is None:
        return
    if lines.more() and parse(first[1])[0] is not None:
        yield from _json_lines(first, lines, context, reading)
    elif reading.next_is_mine():
        lines.report = reading.report
        yield from _noted(_whole(first[1], lines, context, reading), context)


def _noted(runs: Iterable[ImportedRun], context: Context) -> Iterator[ImportedRun]:
    """The runs of one file that is not shared out; a file that came to nothing, unexplained, is counted."""
    report, count = context.report, 0
    before = report.broken + sum(report.skipped.values())
    for run in runs:
        count += 1
        yield run
    if not count and report.broken + sum(report.skipped.values()) == before and "!" not in context.file:
        report.skip(context.file, "nothing an agent did")


def _text(lines: files.Lines, head: bytes, context: Context) -> Iterator[ImportedRun]:
    words = head.decode("utf-8", "replace")
    if not react.looks(words):
        context.report.skip(context.file, _reason(head, words))
        return
    log = react.Log(context)
    while (line := lines.next()) is not None:
        yield from log.feed(line[1].decode("utf-8", "replace").rstrip("\r\n"), line[0])
    yield from log.close()


_MARKS: Mapping[bytes, str] = {
    b"PK\x03\x04": "an archive inside an archive",
    b"\x28\xb5\x2f\xfd": "packed with zstd, which is not unpacked here",
    b"7z\xbc\xaf": "packed with 7z, which is not unpacked here",
    b"\xff\xfe": "UTF-16: write it as UTF-8",
    b"\xfe\xff": "UTF-16: write it as UTF-8",
}


def _reason(head: bytes, words: str) -> str:
    if not head:
        return "empty"
    for mark, why in _MARKS.items():
        if head.startswith(mark):
            return why
    if b"\x00" in head:
        return "not text"
    if words.startswith("interactions:"):
        return "HTTP cassette (exchanges of a provider, not a run)"
    return "text of no known format"


def _whole(line: bytes, lines: files.Lines, context: Context, reading: _Reading) -> Iterator[ImportedRun]:
    """A file that is one value, perhaps over many lines; failing that, lines of which the first is broken."""
    value, why = parse(line)
    if value is None:
        raw = lines.rest(line)
        if raw is None:
            return
        value, why = parse(raw)
        if value is None:
            again = files.Lines(context.file, cast(BinaryIO, io.BytesIO(raw)), reading.report, reading.limits)
            yield from _mended(again, why, context)
            return
    if not _any(value, context):
        context.report.skip(context.file, "JSON of no known format")
        return
    yield from _value(value, context)


def _mended(lines: files.Lines, why: str, context: Context) -> Iterator[ImportedRun]:
    """Not one value: if a later line is one on its own, these are lines and the others are broken."""
    first = lines.next()
    kept: list[tuple[int, bytes]] = [] if first is None else [first]
    while len(kept) < _PATIENCE and (line := lines.next()) is not None:
        kept.append(line)
    if not any(isinstance(parse(raw)[0], dict) for _, raw in kept[1:]):
        context.report.bad(context.file, 0, why)
        return
    alone = _Reading(context.report, context.limits, context.kinds, Share(), context.report)
    yield from _each_line(_chained(kept, lines), context, alone)


def _json_lines(
    first: tuple[int, bytes], lines: files.Lines, context: Context, reading: _Reading
) -> Iterator[ImportedRun]:
    yield from _each_line(_chained([first], lines), context, reading)


def _chained(kept: list[tuple[int, bytes]], lines: files.Lines) -> Iterator[tuple[int, bytes]]:
    yield from kept
    while (line := lines.next()) is not None:
        yield line


def _each_line(lines: Iterator[tuple[int, bytes]], context: Context, reading: _Reading) -> Iterator[ImportedRun]:
    """Lines of JSON: a session as a whole, or a run (or several) in each line."""
    opened = _recognised(lines, context, reading)
    if opened is None:
        if reading.next_is_mine():
            context.report.skip(context.file, "lines of JSON of no known format")
        return
    format, number, value = opened
    if isinstance(format, SessionFormat):
        if reading.next_is_mine():
            yield from _noted(_session(format.open(context), value, number, lines, context), context)
        return
    if reading.share.mine(number):
        yield from _guarded(format.runs(value, replace(context, line=number)), context, number)
    yield from _run_lines(lines, format, context, reading)


def _run_lines(
    lines: Iterator[tuple[int, bytes]], format: DocumentFormat, context: Context, reading: _Reading
) -> Iterator[ImportedRun]:
    """The lines after the first run, each with runs of its own."""
    unknown = 0
    for number, raw in lines:
        if not reading.share.mine(number):
            continue
        value, why = parse(raw)
        found = format if format.looks(value) else document_format(value)
        if found is not None:
            yield from _guarded(found.runs(value, replace(context, line=number)), context, number)
        elif value is None:
            context.bad(number, why)
        else:
            unknown += 1
    if unknown:
        context.report.warn(context.file, 0, f"lines of no known format: {unknown}")


def _recognised(
    lines: Iterator[tuple[int, bytes]], context: Context, reading: _Reading
) -> tuple[DocumentFormat | SessionFormat, int, JSON] | None:
    """The first line some format knows, within patience; broken ones before it are named."""
    for number, raw in islice(lines, _PATIENCE):
        value, why = parse(raw)
        format = session_format(value) or document_format(value)
        if format is not None:
            return format, number, value
        if value is None and reading.share.mine(number):
            context.bad(number, why)
    return None


def _session(
    session: Session, value: JSON, number: int, lines: Iterator[tuple[int, bytes]], context: Context
) -> Iterator[ImportedRun]:
    yield from _guarded(session.feed(value, number), context, number)
    for number, raw in lines:
        value, why = parse(raw)
        if value is None:
            context.bad(number, why)
        else:
            yield from _guarded(session.feed(value, number), context, number)
    yield from _guarded(session.close(), context, number)


def _any(value: JSON, context: Context) -> bool:
    """Whether some format knows this value, or one of the first things in it."""
    if document_format(value) is not None or session_format(value) is not None:
        return True
    return any(document_format(item) is not None or session_format(item) is not None for item in items(value)[:5])


def _value(value: JSON, context: Context) -> Iterator[ImportedRun]:
    """One value: a run, a list of runs, or the lines of a session in a list."""
    format = document_format(value)
    if format is not None:
        yield from _guarded(format.runs(value, context), context, 0)
        return
    inside = items(value) or [value]
    kind = next((found for item in inside[:5] if (found := session_format(item)) is not None), None)
    if kind is not None:
        session = kind.open(context)
        for item in inside:
            yield from _guarded(session.feed(item, 0), context, 0)
        yield from _guarded(session.close(), context, 0)
        return
    for item in inside:
        format = document_format(item)
        if format is not None:
            yield from _guarded(format.runs(item, context), context, 0)


def _guarded(runs: Iterable[ImportedRun], context: Context, line: int) -> Iterator[ImportedRun]:
    """The net under the converters: a record that trips one is named, and reading goes on."""
    try:
        yield from runs
    except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as problem:
        context.bad(line, f"its shape could not be followed ({type(problem).__name__}: {str(problem)[:120]})")


_LONE = re.compile(
    r"\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}", re.I
)


def parse(raw: bytes) -> tuple[JSON, str]:
    """The value of one JSON text, or None and why not. Python's NaN and lone surrogates are forgiven."""
    why = ""
    value: JSON = None
    try:
        value = orjson.loads(raw.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as problem:
        why = unread(problem)
        value = _forgiving(raw)
    if value is None:
        return None, why or "null"
    return (value, "") if shallow(value) else (None, TOO_DEEP)


def _forgiving(raw: bytes) -> JSON:
    words = _LONE.sub(r"\\ufffd", raw.decode("utf-8-sig", "replace"))
    try:
        value: JSON = json.loads(words, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return value
