"""Opening what a user points at: files, folders, archives, standard input, plain or packed, whatever the names say.

The only place of the package that touches the disk. It never follows links inside a folder, never opens what is not a
regular file, never unpacks more than the limits allow, and reports all of that instead of raising.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

from capataz.ingest.report import Limits, Report

UNPACKING = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
    NotImplementedError,
    RuntimeError,
)
"""What broken archives raise while they are read."""
_PACKED: Mapping[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}
"""By the first bytes of a compressed file: what opens it."""
_LAYERS = 3
"""How often one thing may have been compressed."""


@dataclass(frozen=True, slots=True)
class Source:
    """One stream of bytes and the name it is reported under. `archive` is the whole file where it is a zip, `member`
    says that the stream is one of the files in a tar."""

    name: str
    stream: BinaryIO
    archive: zipfile.ZipFile | None = None
    member: bool = False


def sources(paths: Iterable[Path | str], report: Report, limits: Limits) -> Iterator[Source]:
    """Every readable file under the paths, opened and unpacked, one at a time; `-` is standard input."""
    count = 0
    for path in paths:
        if str(path) == "-":
            try:
                yield from _unpacked("<stdin>", sys.stdin.buffer, limits)
            except UNPACKING as problem:
                report.bad("<stdin>", 0, f"cannot be unpacked: {problem}")
            continue
        for file in _walk(Path(path), report):
            count += 1
            if count > limits.files:
                report.bad(str(path), 0, f"more than {limits.files} files: the rest is left out")
                return
            try:
                with file.open("rb") as stream:
                    yield from _unpacked(str(file), stream, limits)
            except UNPACKING as problem:
                named = isinstance(problem, OSError) and problem.filename is not None
                report.bad(str(file), 0, f"cannot be {'opened' if named else 'unpacked'}: {problem}")


def _walk(path: Path, report: Report) -> Iterator[Path]:
    """The regular files at or under a path, by name; links inside folders are not followed (they may be cyclic)."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as problem:
        report.bad(str(path), 0, f"cannot be opened: {problem}")
        return
    if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
        yield path
        return
    if not stat.S_ISDIR(mode):
        report.skip(str(path), "not a regular file")
        return
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as problem:
            report.bad(str(folder), 0, f"cannot be listed: {problem.strerror or problem}")
            continue
        waiting.extend(Path(entry.path) for entry in reversed(entries) if entry.is_dir(follow_symlinks=False))
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
            elif not entry.is_dir(follow_symlinks=False):
                report.skip(entry.path, "a link or not a regular file")


def _unpacked(name: str, raw: BinaryIO, limits: Limits) -> Iterator[Source]:
    if not hasattr(raw, "peek"):
        raw = cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, raw)))
    stream = _plain(raw, limits)
    head = _head(stream)
    if head.startswith(b"PK\x03\x04"):
        yield from _zip(name, stream, limits)
    elif head[257:262] == b"ustar":
        yield from _tar(name, stream, limits)
    else:
        yield Source(name, stream)


def _head(stream: BinaryIO) -> bytes:
    return cast("io.BufferedReader[io.RawIOBase]", stream).peek(512)[:512]


def _plain(stream: BinaryIO, limits: Limits) -> BinaryIO:
    """The stream without what it is compressed with, also where that was done more than once."""
    for _ in range(_LAYERS):
        head = _head(stream)
        opener = next((opener for mark, opener in _PACKED.items() if head.startswith(mark)), None)
        if opener is None:
            break
        bounded = Bounded(cast(BinaryIO, opener(stream)), limits.unpacked_bytes)
        stream = cast(BinaryIO, io.BufferedReader(bounded, 1 << 16))
    return stream


def _tar(name: str, stream: BinaryIO, limits: Limits) -> Iterator[Source]:
    """The files in a tar, one after the other as they come; links and devices in it are passed over."""
    left = limits.unpacked_bytes
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for info in islice(archive, limits.members):
            raw = archive.extractfile(info) if info.isreg() else None
            if raw is not None:
                bounded = Bounded(cast(BinaryIO, raw), left)
                inner = _plain(cast(BinaryIO, io.BufferedReader(bounded, 1 << 16)), limits)
                yield Source(f"{name}!{info.name}", inner, member=True)
                left = bounded.left


def _zip(name: str, stream: BinaryIO, limits: Limits) -> Iterator[Source]:
    """An archive: as a whole first, since some formats spread a log over its members."""
    seekable = stream if stream.seekable() else io.BytesIO(stream.read(limits.unpacked_bytes))
    with zipfile.ZipFile(seekable) as archive:
        yield Source(name, cast(BinaryIO, io.BytesIO()), archive)


def members(archive: zipfile.ZipFile, limits: Limits) -> Iterator[tuple[str, BinaryIO]]:
    """The files of an archive, opened and unpacked one at a time, bounded together."""
    left = limits.unpacked_bytes
    for info in archive.infolist()[: limits.members]:
        if info.is_dir():
            continue
        with archive.open(info) as raw:
            bounded = Bounded(cast(BinaryIO, raw), left)
            yield info.filename, _plain(cast(BinaryIO, io.BufferedReader(bounded, 1 << 16)), limits)
            left = bounded.left


class TooMuch(OSError):
    """A packed file unpacks to more than the limits allow."""


class Bounded(io.RawIOBase):
    """A stream that refuses to give more than so many bytes: the end of decompression bombs."""

    def __init__(self, inner: BinaryIO, most: int) -> None:
        super().__init__()
        self._inner, self.left = inner, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self.left <= 0:
            raise TooMuch("it unpacks to more than the limit")
        data = self._inner.read(min(len(buffer), self.left))
        buffer[: len(data)] = data
        self.left -= len(data)
        return len(data)


class Lines:
    """The lines of a stream, numbered from 1, blank ones passed over; a line that is too long is reported instead."""

    def __init__(self, name: str, stream: BinaryIO, report: Report, limits: Limits) -> None:
        self._name, self.report, self._most = name, report, limits.value_bytes
        self._stream = stream if hasattr(stream, "peek") else io.BufferedReader(cast(io.RawIOBase, stream), 1 << 16)
        self._number = 0
        self._ahead: tuple[int, bytes] | None = None

    def head(self) -> bytes:
        """The first bytes, without taking them."""
        return cast(io.BufferedReader, self._stream).peek(1 << 14)[: 1 << 14]

    def next(self) -> tuple[int, bytes] | None:
        """The next line and its number; None at the end."""
        if self._ahead is not None:
            line, self._ahead = self._ahead, None
            return line
        while raw := self._stream.readline(self._most + 1):
            self._number += 1
            if len(raw) > self._most:
                self.report.bad(self._name, self._number, f"longer than {self._most} bytes: left out")
                while raw and not raw.endswith(b"\n"):
                    raw = self._stream.readline(1 << 20)
            elif raw.strip():
                return self._number, raw
        return None

    def more(self) -> bool:
        """Whether another line that is not blank follows."""
        if self._ahead is None:
            self._ahead = self.next()
        return self._ahead is not None

    def rest(self, begun: bytes) -> bytes | None:
        """What was begun and everything after it; None (and reported) where that is too much."""
        ahead = b"" if self._ahead is None else self._ahead[1]
        self._ahead = None
        tail = self._stream.read(self._most - len(begun) - len(ahead) + 1)
        if len(begun) + len(ahead) + len(tail) > self._most:
            self.report.bad(self._name, 0, f"one value longer than {self._most} bytes: left out")
            return None
        return begun + ahead + tail
