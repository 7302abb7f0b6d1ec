"""Facts as they may be shown: every text of them masked, before it is shortened and before it becomes markup.

What is left as it is are the words the code itself uses (kinds, states, names of guards) and the ids runs are found by.
Where masking was switched off, the originals are shown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import orjson

from capataz.events.codec import decode, encode
from capataz.events.facts import JSON, Event, Fact
from capataz.events.plain import to_json
from capataz.lens.trace.fold import Trace, trace
from capataz.privacy.mask import Mask

_NAMES = """
t v run root parent child conversation role kind agent model purpose action guard digest versions outcome origin row
status usage money phase of turn position attempt seq stop tools ceilings source at tenant idempotency_key
task_type checks fallbacks to ceiling settle window response
"""
_KEPT = frozenset(_NAMES.split())
"""Fields of facts that hold words of our own, figures, or what a run is found by."""
_FACTS = frozenset({"call", "calls", "fault", "evidence", "spend", "said", "opaque", "fork"})
"""Fields that hold values of ours, with fields of their own."""


@dataclass(frozen=True, slots=True)
class Shower:
    """A mask, and how it is put over facts. `mask` None shows everything as it is."""

    mask: Mask | None

    def text(self, text: str) -> str:
        return text if self.mask is None else self.mask.text(text)

    def value(self, value: JSON) -> JSON:
        return value if self.mask is None else self.mask.value(value)

    def fact(self, fact: Fact) -> Fact:
        return self.event(Event(0, 0.0, fact)).fact

    def event(self, event: Event) -> Event:
        """The event with its texts masked."""
        if self.mask is None:
            return event
        raw = cast("dict[str, JSON]", _loads(encode(event)))
        masked = {key: _field(self.mask, key, value) for key, value in raw.items()}
        return event if masked == raw else decode(event.seq, event.at, to_json(masked))

    def events(self, events: Sequence[Event]) -> list[Event]:
        return [self.event(event) for event in events]

    def trace(self, events: Sequence[Event]) -> Trace:
        """The tree of these events, masked."""
        return trace(self.events(events))


def _field(mask: Mask, key: str, value: JSON) -> JSON:
    if key in _KEPT or value is None or isinstance(value, (bool, int, float)):
        return value
    if key in _FACTS:
        return _inner(mask, value)
    return mask.text(value) if isinstance(value, str) else mask.value(value)


def _inner(mask: Mask, value: JSON) -> JSON:
    if isinstance(value, list):
        return [_inner(mask, item) for item in value]
    if isinstance(value, dict):
        return {key: _field(mask, key, inner) for key, inner in value.items()}
    return value


def _loads(raw: bytes) -> object:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:  # integers beyond 64 bits
        return json.loads(raw)
