"""How a body is put together, the same way in every dialect.

What a provider is told twice is encoded once: each group of messages, and what stands around them (settings, tools,
instructions) for as long as it stays the same. A call then costs its new messages and one join.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from capataz.models.capabilities import Capabilities
from capataz.models.dialects.base import SENT, Profile, Sent
from capataz.models.dialects.codec import SIXTY_FOUR, IdRule
from capataz.models.dialects.groups import Group, Piece, Pieces, joined
from capataz.models.dialects.params import known
from capataz.ports import ModelRequest


@dataclass(slots=True)
class Around:
    """What the dialect needs to know to write what stands around the messages."""

    request: ModelRequest
    system: str
    """The instructions, those at the start of the history included; empty when there are none."""
    bare: bool
    """The first to speak would be the model."""
    more: Any
    """What `look` found."""
    notes: list[str] = field(default_factory=list[str])
    """Filled by the dialect: what this model was not sent."""


@dataclass(slots=True)
class Composer(ABC):
    """An `Encoder` that lacks only the words of its dialect."""

    profile: Profile
    able: Capabilities = field(default_factory=Capabilities)
    mode: Any = None
    _made_for: tuple[Any, ...] | None = None
    _pieces: Pieces | None = None
    _key: tuple[Any, ...] = ()
    _ends: tuple[bytes, bytes] = (b"", b"")
    _notes: tuple[str, ...] = ()

    def body(self, request: ModelRequest) -> bytes:
        """The body for this request."""
        made_for = (request.model, self.mode_of(request))
        if made_for != self._made_for or self._pieces is None:
            self._made_for, self.able, self.mode = made_for, known(request, self.profile), made_for[1]
            self._pieces, self._key = Pieces(self.ids(), self.render), ()
        pieces = self._pieces.update(request.history)
        head, tail = self._around(request, pieces)
        parts = [piece.data for piece in pieces if piece.data]
        if not parts or self.wants_user(pieces[-1]):
            parts.append(self.go_on())
        body = head + b",".join(self.finish(parts)) + tail
        request.memo[SENT] = Sent(0 if self._pieces.pictures else len(body) // 4, self._notes)
        return body

    def _around(self, request: ModelRequest, pieces: Sequence[Piece]) -> tuple[bytes, bytes]:
        first = next((piece for piece in pieces if piece.data), None)
        bare = first is not None and bool(first.group.said)
        hoisted, more = pieces[0].system if pieces else "", self.look(request, pieces)
        texts, tools = (request.system, hoisted, bare, more), (tuple(request.tools), request.tool_choice)
        key = (*texts, *tools, request.max_output, request.temperature, dict(request.extra))
        if key != self._key:
            around = Around(request, joined((request.system, hoisted)), bare, more)
            self._key, self._ends = key, (self.head(around), self.tail(around))
            self._notes = tuple(around.notes)
        return self._ends

    # ── what a dialect says ──────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def render(self, group: Group) -> bytes:
        """The messages of a group, encoded, commas between them; nothing for an empty one."""

    @abstractmethod
    def go_on(self) -> bytes:
        """A user's message that says nothing new."""

    @abstractmethod
    def head(self, around: Around) -> bytes:
        """All of the body before the messages."""

    @abstractmethod
    def tail(self, around: Around) -> bytes:
        """All of the body behind the messages."""

    def ids(self) -> IdRule:
        """Which call ids fit."""
        return SIXTY_FOUR

    def mode_of(self, request: ModelRequest) -> Any:
        """What besides the model changes how messages are written: when it does, all are written anew."""
        return None

    def look(self, request: ModelRequest, pieces: Sequence[Piece]) -> Any:
        """What the settings depend on in the history; compared, so that they are made again only when it changes."""
        return None

    def wants_user(self, last: Piece) -> bool:
        """Whether somebody still has to speak before the model can."""
        return last.open

    def finish(self, parts: list[bytes]) -> list[bytes]:
        """A last look at the encoded messages before they are joined."""
        return parts
