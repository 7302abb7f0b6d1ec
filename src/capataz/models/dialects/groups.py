"""A history put in order, piece by piece: what every provider demands of it, before any of them is spoken to.

Providers refuse histories that a crash, a cancelled call or a compression left damaged, and each refuses something
else. So the history is first cut into groups: what the model said, the results of its calls, and what was said to it
until it spoke again. Inside a group everything is made whole: each call has exactly one result, right behind it, in
the order of the calls; a missing one is answered "outcome unknown" and never as a success; a result whose call is
gone becomes text; ids are unique. A group depends on nothing behind it, so it is encoded once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Literal, TypeVar, cast

import orjson

from capataz.events.facts import JSON, Call
from capataz.memory.transcript import Message
from capataz.models.dialects.codec import IdRule, wire_name

T = TypeVar("T")

NO_TEXT = "(no text)"
"""Stands in for an assistant turn without text, calls or anything else."""
GO_ON = "Continue."
"""Stands in for the user where a provider wants the last word, or the first, to be the user's."""
EMPTY = "(empty)"
"""Stands in for an empty tool result."""
UNKNOWN_OUTCOME = (
    '{"error": "outcome unknown: the call was interrupted and nobody knows whether it took effect; '
    'check before repeating it"}'
)
ORPHAN = "[result of an earlier call that is no longer shown]"
SYSTEM_NOTE = "[system note]"
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WireCall:
    """A call with the id and the name it has on the wire."""

    id: str
    name: str
    arguments: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class WireResult:
    """The one result of a call. Never empty."""

    id: str
    name: str
    text: str
    error: bool
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What the model said in one reply of the group."""

    message: Message
    calls: tuple[WireCall, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """Something said to the model. Its text may be empty only where there is an image."""

    role: Literal["user", "system"]
    text: str
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """What the model said (nothing in the group a history begins with), its results, and what came after."""

    said: tuple[Said, ...]
    results: tuple[WireResult, ...]
    heard: tuple[Heard, ...]

    @property
    def calls(self) -> tuple[WireCall, ...]:
        return tuple(call for said in self.said for call in said.calls)

    @property
    def text(self) -> str:
        return "\n\n".join(said.message.text for said in self.said if said.message.text.strip())

    @property
    def images(self) -> tuple[str, ...]:
        return tuple(result.image for result in self.results if result.image)


@dataclass(frozen=True, slots=True)
class Piece:
    """An encoded group, and what the rest of the body has to know of it."""

    start: int
    end: int
    data: bytes
    ids: tuple[str, ...]
    names: frozenset[str]
    system: str
    group: Group

    pictured: bool
    """Holds images, whose size says nothing about their tokens."""
    closed: bool
    """Somebody else has spoken since: another word of the model's begins a new group."""

    @property
    def open(self) -> bool:
        """Ends with the model's words: somebody has to say something yet."""
        return bool(self.group.said) and not self.group.results and not self.group.heard


def silent(message: Message) -> bool:
    """Says nothing to the model: it is not sent, and does not part what stands around it."""
    return message.role in ("user", "system") and not message.image and not message.text.strip()


def _others(message: Message) -> bool:
    """Somebody else than the model speaks."""
    return message.role != "assistant" and not silent(message)


def build(messages: Sequence[Message], ids: IdRule, used: set[str], place: int) -> tuple[Group, tuple[str, ...]]:
    """Put one stretch of the history in order: some assistant messages, then anything but those.

    `used` are the ids taken so far; the new ones are added to it and returned. `place` tells equal ids apart.
    """
    if not any(message.calls or message.role == "tool" for message in messages):
        return _talk(messages), ()
    said: list[Said] = []
    calls: list[Call] = []
    wires: list[WireCall] = []
    turn = next((at for at, message in enumerate(messages) if _others(message)), len(messages))
    for message in messages[:turn]:
        if message.role != "assistant":
            continue
        own: list[WireCall] = []
        for call in message.calls:
            id = ids.fit(call.id, used.__contains__, place * 1000 + len(wires))
            used.add(id)
            own.append(WireCall(id, wire_name(call.tool), call.arguments))
            wires.append(own[-1])
            calls.append(call)
        said.append(Said(message, tuple(own)))
    answers, heard = _paired(messages[turn:], calls)
    results = tuple(_result(wire, answer) for wire, answer in zip(wires, answers, strict=True))
    return Group(tuple(said), results, tuple(heard)), tuple(wire.id for wire in wires)


def _talk(messages: Sequence[Message]) -> Group:
    """A stretch in which nothing was called, as most of a conversation is: a first turn puts many of them together."""
    said = tuple([Said(message, ()) for message in messages if message.role == "assistant"])
    return Group(said, (), tuple([_heard(message) for message in messages if _others(message)]))


def _heard(message: Message) -> Heard:
    return Heard("system" if message.role == "system" else "user", message.text, message.image)


def _paired(rest: Sequence[Message], calls: list[Call]) -> tuple[list[Message | None], list[Heard]]:
    answers: list[Message | None] = [None] * len(calls)
    heard: list[Heard] = []
    for message in rest:
        if message.role == "tool":
            at = _place(message.call, calls, answers)
            if at is not None:
                answers[at] = message
                continue
            heard.append(Heard("user", f"{ORPHAN}\n{message.text.strip() or EMPTY}", message.image))
        elif not silent(message):
            heard.append(_heard(message))
    return answers, heard


def _place(call: Call | None, calls: list[Call], answers: list[Message | None]) -> int | None:
    """Which call a result belongs to: the very call, else the same id in order, else (no id) the first open one."""
    free = [at for at, answer in enumerate(answers) if answer is None]
    if call is None:
        return free[0] if free else None
    for at in free:
        if calls[at] is call or _same(calls[at], call):
            return at
    if any(_same(other, call) for other in calls):
        return None
    for at in free:
        if calls[at].id == call.id:
            return at
    return free[0] if free and not call.id else None


def _same(one: Call, other: Call) -> bool:
    return (one.turn, one.position, one.id, one.tool) == (other.turn, other.position, other.id, other.tool)


def _result(wire: WireCall, answer: Message | None) -> WireResult:
    if answer is None:
        return WireResult(wire.id, wire.name, UNKNOWN_OUTCOME, True)
    return WireResult(wire.id, wire.name, answer.text if answer.text.strip() else EMPTY, answer.error, answer.image)


# ── parts only their provider understands ────────────────────────────────────────────────────────────────


def woven(
    said: Said,
    provider: str,
    text: Callable[[str, Mapping[str, JSON]], T],
    call: Callable[[WireCall, Mapping[str, JSON]], T],
) -> list[T | JSON]:
    """The parts of one reply in their first order: opaque ones as they came, text and calls rendered anew.

    An opaque payload is a JSON list in which `{"@": "text"}` and `{"@": "call", "n": 0}` mark where the rest stood;
    other keys of a mark are the provider's own additions to that part, handed on. Text never stands behind a call.
    """
    words = said.message.text if said.message.text.strip() else ""
    parts: list[T | JSON] = []
    open_calls = dict(enumerate(said.calls))
    for item in opaque_items(said.message, provider):
        kind = item.get("@") if isinstance(item, dict) else None
        if kind not in ("text", "call"):
            parts.append(item)
            continue
        mark = cast("dict[str, JSON]", item)
        if words:
            parts.append(text(words, mark if kind == "text" else {}))
            words = ""
        wire = open_calls.pop(cast("int", mark.get("n")), None) if kind == "call" else None
        if wire is not None:
            parts.append(call(wire, mark))
    if words:
        parts.append(text(words, {}))
    parts.extend(call(wire, {}) for wire in open_calls.values())
    return parts


def opaque_items(message: Message, provider: str) -> list[JSON]:
    """The opaque parts kept with a message; none when they are another provider's, or damaged."""
    if message.opaque is None or message.opaque.provider != provider:
        return []
    try:
        payload = orjson.loads(message.opaque.payload)
    except ValueError:
        return []
    return cast("list[JSON]", payload) if isinstance(payload, list) else []


# ── keeping what is encoded ──────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Pieces:
    """The encoded groups of a growing history. `update` encodes what is new or was replaced, nothing else."""

    ids: IdRule
    render: Callable[[Group], bytes]
    pieces: list[Piece] = field(default_factory=list[Piece])
    pictures: int = 0
    """How many pieces hold images."""
    _seen: list[Message] = field(default_factory=list[Message])
    _used: set[str] = field(default_factory=set[str])

    def update(self, history: Sequence[Message]) -> list[Piece]:
        kept = self._kept(history)
        if kept == len(self._seen) == len(history):
            return self.pieces
        while self.pieces and (self.pieces[-1].end > kept or _continues(history, self.pieces[-1])):
            gone = self.pieces.pop()
            self._used.difference_update(gone.ids)
            self.pictures -= gone.pictured
        start = self.pieces[-1].end if self.pieces else 0
        while start < len(history):
            end = _end(history, start)
            self.pieces.append(self._piece(history, start, end))
            start = end
        self._seen[kept:] = history[kept:]
        return self.pieces

    def _kept(self, history: Sequence[Message]) -> int:
        """How many messages from the start are the very ones of the last time."""
        if all(map(is_, self._seen, history)):
            return min(len(self._seen), len(history))
        return next(at for at, (old, new) in enumerate(zip(self._seen, history, strict=False)) if old is not new)

    def _piece(self, history: Sequence[Message], start: int, end: int) -> Piece:
        messages, system = history[start:end], ""
        if start == 0:
            messages, system = _hoisted(messages)
        group, ids = build(messages, self.ids, self._used, start)
        names = frozenset([call.name for call in group.calls]) if ids else NOBODY
        closed = any(map(_others, history[start:end]))
        pictured = bool(group.images) or any(heard.image for heard in group.heard)
        self.pictures += pictured
        return Piece(start, end, self.render(group), ids, names, system, group, pictured, closed)


def _continues(history: Sequence[Message], piece: Piece) -> bool:
    """Whether the message behind a piece belongs to it, so that the piece has to be made again."""
    return piece.end < len(history) and (history[piece.end].role != "assistant" or not piece.closed)


def _end(history: Sequence[Message], start: int) -> int:
    at = start
    while at < len(history) and (history[at].role == "assistant" or silent(history[at])):
        at += 1
    while at < len(history) and history[at].role != "assistant":
        at += 1
    return at


def _hoisted(messages: Sequence[Message]) -> tuple[Sequence[Message], str]:
    """Take the system messages off the front: they belong beside the instructions."""
    at = 0
    while at < len(messages) and messages[at].role == "system":
        at += 1
    return messages[at:], joined(message.text for message in messages[:at])


def joined(texts: Iterable[str]) -> str:
    """The texts that say something, a blank line between them."""
    return "\n\n".join(text for text in texts if text.strip())
