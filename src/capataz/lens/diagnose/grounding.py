"""Where values come from: answers and arguments held against everything the run was told before.

Evidence is what came from outside: instructions, the person, results. What the model itself wrote is none. The index
is bounded; a run with more values than that is judged by the ones it has, and says no less than it knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from capataz.events.facts import (
    JSON,
    Call,
    Event,
    MessageReceived,
    ModelReplied,
    RunStarted,
    ToolFinished,
)
from capataz.lens.diagnose.findings import Pointer
from capataz.lens.diagnose.reading import parsed
from capataz.lens.diagnose.values import number, pieces, values

_MOST_VALUES = 50_000
_MOST_NUMBERS = 2_000
_MOST_POINTERS = 40
_VOLATILE = (
    "time", "date", "updated", "created", "elapsed", "nonce", "request_id", "token", "cursor", "version", "age"
)  # fmt: skip
_DATED = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
_IDENTITY = ("id", "number", "code", "email", "account", "key", "reference", "iban", "phone", "sku", "url", "path")


@dataclass(slots=True)
class Evidence:
    """Everything said from outside so far, by value, with the event that said it first."""

    first: dict[str, int] = field(default_factory=dict[str, int])
    numbers: set[float] = field(default_factory=set[float])
    read: set[int] = field(default_factory=set[int])
    """Texts already read: loops bring the same ones again."""

    def take(self, text: str, seq: int) -> None:
        """Read one text. Composed values count whole and in their parts."""
        if len(self.first) > _MOST_VALUES or hash(text) in self.read:
            return
        self.read.add(hash(text))
        for value in values(text):
            if value in self.first:
                continue
            self.first[value] = seq
            for piece in pieces(value):
                self.first.setdefault(piece, seq)
            figure = number(value)
            if figure is not None and len(self.numbers) < _MOST_NUMBERS:
                self.numbers.add(figure)

    def holds(self, value: str) -> bool:
        """Whether the value was said, as it is or in all its parts, or a date of it without the year."""
        if value in self.first or (len(value) == 10 and value[5:] in self.first):
            return True
        if _DATED.fullmatch(value):
            return False
        parts = list(pieces(value))
        if len(parts) > 1 or (parts and parts[0] != value):
            return all(part in self.first for part in parts)
        return len(value) == 5 and value[2] == "-" and any(known.endswith(value) for known in self.first)

    def derives(self, value: str) -> bool:
        """Whether a number is one sum, difference or small multiple (2 to 9) of numbers that were said."""
        figure = number(value)
        if figure is None:
            return False
        for known in self.numbers:
            if _near(figure - known, self.numbers) or _near(figure + known, self.numbers):
                return True
        return any(_near(figure / times, self.numbers) or _near(figure * times, self.numbers) for times in range(2, 10))


def _near(figure: float, numbers: set[float]) -> bool:
    return figure in numbers or round(figure, 2) in numbers


def pointers(events: Sequence[Event]) -> tuple[Pointer, ...]:
    """The places of a run worth a look: values without a source, and sources that disagree. At most 40."""
    evidence, facts = Evidence(), _Facts()
    found: list[Pointer] = []
    for event in events:
        fact = event.fact
        if isinstance(fact, RunStarted):
            evidence.take(fact.instructions, event.seq)
            evidence.take(fact.task, event.seq)
        elif isinstance(fact, MessageReceived):
            evidence.take(fact.text, event.seq)
        elif isinstance(fact, ModelReplied):
            found.extend(_reply(fact, event.seq, evidence))
        elif isinstance(fact, ToolFinished):
            evidence.take(text_of(fact.result), event.seq)
            found.extend(facts.take(fact, event.seq))
        if len(found) >= _MOST_POINTERS:
            break
    return tuple(found[:_MOST_POINTERS])


def _reply(fact: ModelReplied, seq: int, evidence: Evidence) -> Iterator[Pointer]:
    if not fact.calls and fact.text:
        for value in dict.fromkeys(values(fact.text)):
            if not evidence.holds(value):
                yield Pointer("computed" if evidence.derives(value) else "no-source", seq, "the answer", value)
    for call in fact.calls:
        if call.kind in ("write", "message"):
            yield from _arguments(call, seq, evidence)


def _arguments(call: Call, seq: int, evidence: Evidence) -> Iterator[Pointer]:
    """Identifier-like leaves of an acting call that nothing said before."""
    waiting: list[tuple[str, JSON]] = [(name, value) for name, value in call.arguments.items()]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, list):
            waiting.extend((name, item) for item in value[:50])
        elif isinstance(value, dict):
            waiting.extend(list(value.items())[:50])
        elif isinstance(value, str) and 3 < len(value) <= 80 and " " not in value.strip() and _identifies(name, value):
            for wanted in values(value):
                if not evidence.holds(wanted):
                    yield Pointer("ungrounded-argument", seq, f"{call.tool}.{name}", value[:80])
                    break


def _identifies(name: str, value: str) -> bool:
    low = name.lower()
    if "@" in value:
        return True
    if _DATED.fullmatch(value):
        return True
    named = any(low == word or low.endswith(("_" + word, word + "s")) for word in _IDENTITY)
    return named and any(char.isdigit() for char in value)


def text_of(value: JSON) -> str:
    """A result as text, for looking values up: strings as they are, the rest as Python writes it."""
    return value if isinstance(value, str) else "" if value is None else str(value)


@dataclass(slots=True)
class _Facts:
    """What results said of (thing, key), until an act may have changed it."""

    said: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict[tuple[str, str], tuple[str, int]])

    def take(self, fact: ToolFinished, seq: int) -> Iterator[Pointer]:
        """Read one result; give the keys it contradicts."""
        if fact.call.acting:
            self.said.clear()
            return
        if fact.error or len(self.said) > 5_000:
            return
        for thing, key, value in _leaves(fact):
            before = self.said.setdefault((thing, key), (value, seq))
            if before[0] != value and before[1] != seq:
                detail = f"event {before[1]} said {before[0]!r} of {thing}"
                yield Pointer("conflict", seq, key, value, detail)
                self.said[thing, key] = (value, seq)


def _leaves(fact: ToolFinished) -> Iterator[tuple[str, str, str]]:
    """(thing, key, value) in a JSON result. A thing is known by its own id, else by the call's target."""
    waiting: list[tuple[JSON, str]] = [(parsed(fact.result), "")]
    seen = 0
    while waiting and seen < 500:
        value, above = waiting.pop()
        seen += 1
        if isinstance(value, list):
            waiting.extend((item, above) for item in value[:100] if isinstance(item, dict))
        elif isinstance(value, dict):
            own = next((f"{key}={value[key]}" for key in value if _is_id(key, value[key])), "")
            # The same id under another parent is another mention: a card in two bookings has two amounts.
            thing = f"{above}/{own}" if above and own else own or above or fact.call.target or ""
            for key, inner in value.items():
                if isinstance(inner, (dict, list)):
                    waiting.append((inner, f"{thing}.{key}" if thing else ""))
                elif thing and isinstance(inner, (str, int, float)) and len(str(inner)) <= 60 and not _moves(key):
                    yield thing, key, str(inner)


def _is_id(key: str, value: JSON) -> bool:
    return isinstance(value, (str, int)) and (key == "id" or key.endswith("_id")) and str(value) != ""


def _moves(key: str) -> bool:
    low = key.lower()
    return any(word in low for word in _VOLATILE)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a value was first said from outside, and every later event that repeats it."""

    source: int | None
    """Event of the first outside source; None: it has no source in the run."""
    repeated: tuple[int, ...]


def lineage(events: Sequence[Event], value: str) -> Lineage:
    """Follow one value through a run: who said it first, who repeated it. Exact after normalising; no paraphrase."""
    wanted = next(iter(values(value)), value.strip().lower())
    source: int | None = None
    repeated: list[int] = []
    for event in events:
        said, outside = _said(event)
        if wanted in set(values(said)) or wanted in said.lower():
            if source is None and outside:
                source = event.seq
            else:
                repeated.append(event.seq)
    return Lineage(source, tuple(repeated))


def _said(event: Event) -> tuple[str, bool]:
    """The text of an event, and whether it came from outside the model."""
    fact = event.fact
    if isinstance(fact, RunStarted):
        return f"{fact.instructions}\n{fact.task}", True
    if isinstance(fact, MessageReceived):
        return fact.text, True
    if isinstance(fact, ToolFinished):
        return text_of(fact.result), True
    if isinstance(fact, ModelReplied):
        return f"{fact.text}\n{[dict(call.arguments) for call in fact.calls]}", False
    return "", False
