"""Where a value comes from, and everything downstream of it: who said it first, who took it over.

Exact after normalising (`1,250.00` is `1250`), never by meaning: a paraphrase breaks the chain. A value that only the
model ever said has no source here; that is a place to look, not a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from capataz.events.facts import (
    JSON,
    EscalationAnswered,
    Event,
    MessageReceived,
    ModelReplied,
    RunEnded,
    RunStarted,
    ToolFinished,
)
from capataz.lens.diagnose.grounding import text_of
from capataz.lens.diagnose.values import values
from capataz.lens.words import said

What = Literal["instructions", "task", "message", "result", "reply", "argument", "answer", "decision"]
AROUND = 160
"""Characters shown on each side of a value."""
KEPT = 1_500
"""Characters kept on each side: a mask has to see more than what is shown in the end."""
MOST = 1_000


@dataclass(frozen=True, slots=True)
class Mention:
    """One place that holds the value. `where`: which tool and argument; `outside`: the model did not say it."""

    seq: int
    what: What
    where: str
    text: str
    outside: bool


@dataclass(frozen=True, slots=True)
class Provenance:
    """All mentions, in order. `source` is the first from outside that comes before any by the model, else None."""

    value: str
    mentions: tuple[Mention, ...]
    source: Mention | None
    first: Mention | None
    cut: bool = False
    """There are more mentions than were kept."""

    @property
    def downstream(self) -> tuple[Mention, ...]:
        """What came after the first mention."""
        return self.mentions[1:]

    @property
    def unsourced(self) -> bool:
        """The model said it before anything outside did, or nothing outside ever did."""
        return self.first is not None and self.source is None


def provenance(events: Sequence[Event], value: str) -> Provenance:
    """Follow one value through a run.

    >>> provenance([], "81").first is None
    True
    """
    wanted = _Wanted.of(value)
    found: list[Mention] = []
    for event in events:
        for what, where, text, outside in _texts(event):
            place = wanted.place(text)
            if place is not None:
                found.append(Mention(event.seq, what, where, _kept(text, place), outside))
        if len(found) >= MOST:
            break
    first = found[0] if found else None
    source = first if first is not None and first.outside else None
    return Provenance(value.strip(), tuple(found[:MOST]), source, first, len(found) >= MOST)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A value in the forms it may be written in."""

    raw: str
    form: str
    digits: str

    @classmethod
    def of(cls, value: str) -> _Wanted:
        raw = value.strip().lower()
        form = next(iter(values(value)), "")
        lead = "".join(char for char in form if char.isdigit())[:3]
        return cls(raw, form, lead)

    def place(self, text: str) -> int | None:
        """Where the text holds the value; None where it does not."""
        low = text.lower()
        at = low.find(self.raw) if self.raw else -1
        while at >= 0:
            end = at + len(self.raw)
            if not (_joined(low, at - 1, self.raw[0]) or _joined(low, end, self.raw[-1])):
                return at
            at = low.find(self.raw, at + 1)
        if not self.form or not self._may(low) or self.form not in set(values(text)):
            return None
        return max(0, low.find(self.form)) if self.form in low else max(0, low.find(self.digits[:2]))

    def _may(self, low: str) -> bool:
        """Whether it is worth reading all values of the text."""
        return not self.digits or self.digits[0] in low


def _joined(text: str, place: int, beside: str) -> bool:
    """Whether the character at a place makes the value a part of something longer."""
    if not 0 <= place < len(text):
        return False
    return text[place].isalnum() and beside.isalnum()


def excerpt(text: str, value: str) -> str:
    """The text around a value, on one line; its middle where the value does not stand in it any more."""
    low, raw = text.lower(), value.strip().lower()
    middle = min(KEPT, len(text) // 2)
    before, behind = low.rfind(raw, 0, middle + len(raw)), low.find(raw, middle)
    near = [place for place in (before, behind) if place >= 0 and raw]
    place = min(near, key=lambda found: abs(found - middle)) if near else middle
    start, end = max(0, place - AROUND), place + AROUND
    return ("…" if start else "") + " ".join(text[start:end].split()) + ("…" if end < len(text) else "")


def _kept(text: str, place: int) -> str:
    return text[max(0, place - KEPT) : place + KEPT]


def _texts(event: Event) -> Iterator[tuple[What, str, str, bool]]:
    """The texts of an event: what it is, where, the text, and whether it came from outside the model."""
    fact = event.fact
    match fact:
        case RunStarted():
            yield "instructions", "", fact.instructions, True
            yield "task", "", fact.task, True
        case MessageReceived():
            yield "message", "", fact.text, True
        case EscalationAnswered():
            yield "decision", fact.by, fact.text, True
            for name, value in (fact.arguments or {}).items():
                yield "decision", name, said(value), True
        case ToolFinished():
            yield "result", fact.call.tool, text_of(fact.result) if fact.full is None else fact.full, True
        case ModelReplied():
            yield ("reply" if fact.calls else "answer"), "", fact.text, False
            for call in fact.calls:
                for name, text in _leaves(call.arguments):
                    yield "argument", f"{call.tool}.{name}", text, False
        case RunEnded(answer_turn=None):
            yield "answer", "", fact.answer, False
        case _:
            return


def _leaves(arguments: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    """(path, text) of each leaf of a call's arguments."""
    waiting: list[tuple[str, JSON]] = list(arguments.items())
    seen = 0
    while waiting and seen < 500:
        name, value = waiting.pop(0)
        seen += 1
        if isinstance(value, dict):
            waiting.extend((f"{name}.{key}", inner) for key, inner in value.items())
        elif isinstance(value, list):
            waiting.extend((f"{name}[{place}]", inner) for place, inner in enumerate(value[:100]))
        else:
            yield name, said(value)
