"""Server-sent events out of bytes, whatever the pieces they arrive in.

Follows the event-stream format of the HTML standard: lines end with LF, CR or CRLF, several data lines make one event,
lines that begin with a colon are comments, a byte-order mark in front is skipped. Pure: it never waits and keeps no
more than one event, of a bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from capataz.events.facts import Fault
from capataz.mistakes import ModelRefused

DONE = b"[DONE]"
_BOM = b"\xef\xbb\xbf"
_CR, _LF = 13, 10


@dataclass(slots=True)
class SseParser:
    """Takes bytes, gives (event name, data) pairs; the name is "" where the event has none."""

    limit: int = 8 * 1024 * 1024
    """Bytes one event may have. An event beyond it raises `ModelRefused`: it is not kept."""
    _line: list[bytes] = field(default_factory=list[bytes])
    """The pieces of a line whose end has not arrived."""
    _data: list[bytes] = field(default_factory=list[bytes])
    _event: str = ""
    _held: int = 0
    _first: bool = True
    _after_cr: bool = False

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """The events this chunk completes, in order. The iterator has to be run to its end."""
        if not chunk:
            return
        if self._after_cr:
            self._after_cr = False
            chunk = chunk[1:] if chunk[0] == _LF else chunk
        for piece in chunk.splitlines(keepends=True):
            self._hold(len(piece))
            if piece[-1] not in (_CR, _LF):
                self._line.append(piece)
                return
            line = piece.rstrip(b"\r\n")
            if self._line:
                line = b"".join([*self._line, line])
                self._line.clear()
            if found := self._take(line):
                yield found
        self._after_cr = chunk[-1:] == b"\r"

    def end(self) -> Iterator[tuple[str, bytes]]:
        """The stream has ended: what a server said without the empty line behind it.

        An unfinished line may be half of something, so it counts only where it is the end mark itself.
        """
        rest = b"".join(self._line)
        self._line.clear()
        if rest.removeprefix(b"data:").strip() == DONE:
            self._take(rest)
        if found := self._take(b""):
            yield found

    def _take(self, line: bytes) -> tuple[str, bytes] | None:
        if self._first:
            self._first, line = False, line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.removeprefix(b" ").decode(errors="replace")
        return None

    def _dispatch(self) -> tuple[str, bytes] | None:
        event, data = self._event, self._data
        self._event, self._data, self._held = "", [], 0
        return (event, b"\n".join(data)) if data else None

    def _hold(self, more: int) -> None:
        self._held += more
        if self._held > self.limit:
            self._line.clear()
            self._data.clear()
            words = f"one event of the stream has more than {self.limit} bytes"
            raise ModelRefused(Fault("contract", "answer-too-large", words, retries=0))
