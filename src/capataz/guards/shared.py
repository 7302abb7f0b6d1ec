"""The base of the built-in guards: each is a guard of its own, and all of them can share one reading of an event.

Alone, such a guard reads events itself and is a `Guard` like any user's. Inside a `Watch` the reading is done once and
handed to all. What a guard sees must be the same either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from capataz.events.facts import Event, Fact, Kind
from capataz.guards.base import Signal
from capataz.guards.reading import CALLS, READ, Reader, Step

S = TypeVar("S")
KINDS: frozenset[Kind] = frozenset(("read", "search", "poll", "write", "exec", "message"))


@dataclass(slots=True)
class Alone(Generic[S]):
    """The state of a built-in guard that is used by itself."""

    reader: Reader
    own: S


class Shared(Generic[S]):
    """A guard that judges readings.

    `facts` are the kinds of fact it wants to see, `kinds` the classes of tool whose calls concern it, and with `calm`
    it does not care for a call that succeeded and brought news while no error stood open. It is shown no others. A
    `prompt` guard is shown the end of a call the moment it ends, and no reading of it; the others are shown the calls
    of one reply in their order.
    """

    name: ClassVar[str]
    facts: ClassVar[frozenset[type[Fact]]] = CALLS
    kinds: ClassVar[frozenset[Kind]] = KINDS
    calm: ClassVar[bool] = False
    prompt: ClassVar[bool] = False

    def begin(self) -> S:
        """What it knows before the first event."""
        raise NotImplementedError

    def see(self, state: S, event: Event, step: Step | None) -> Signal | None:
        """Look at one event, change `state` in place, and say what was noticed."""
        raise NotImplementedError

    def start(self) -> Alone[S]:
        return Alone(Reader(), self.begin())

    def step(self, state: Alone[S], event: Event, /) -> tuple[Alone[S], Signal | None]:
        kind, found = type(event.fact), None
        for reading in state.reader.read(event) if kind in READ else ():
            if not self.prompt and self._concerns(reading):
                found = self.see(state.own, reading.event, reading) or found
        if kind in self.facts and (self.prompt or kind not in CALLS):
            found = self.see(state.own, event, None) or found
        return state, found

    def _concerns(self, step: Step) -> bool:
        """The same choice that a watch makes for all its guards at once."""
        return not CALLS.isdisjoint(self.facts) and step.kind in self.kinds and not (self.calm and step.plain)
