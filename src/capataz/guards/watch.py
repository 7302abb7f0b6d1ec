"""All guards fed together: one reading per event, then every guard that wants this kind of fact.

The watch knows nothing of policy. It says what was noticed, in the order of the guards, and never stops anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from capataz.events.facts import Event, Fact, Kind
from capataz.guards.base import Guard, Signal
from capataz.guards.reading import READ, Reader, Step
from capataz.guards.shared import CALLS, KINDS, Shared

_Seat: TypeAlias = "tuple[int, Callable[[Any, Event, Step | None], Signal | None]]"


_NOBODY: list[_Seat] = []


@dataclass(slots=True)
class WatchState:
    """What the guards know of one run. Owned by `Watch.step`, which changes it in place."""

    reader: Reader
    own: list[Any]
    """One state per built-in guard, in their order."""
    plain: list[Any]
    """One state per guard of the user's."""


class Watch:
    """A fixed set of guards. The watch itself holds no run: one may serve any number of them.

    >>> watch = Watch(())
    >>> state = watch.start()
    """

    def __init__(self, guards: Sequence[Guard[Any]]) -> None:
        self.guards = tuple(guards)
        self._shared = [guard for guard in self.guards if isinstance(guard, Shared)]
        self._plain = [guard for guard in self.guards if not isinstance(guard, Shared)]
        self._wanted: dict[type[Fact], list[_Seat]] = {}
        self._any: dict[Kind, list[_Seat]] = {kind: [] for kind in KINDS}
        self._news: dict[Kind, list[_Seat]] = {kind: [] for kind in KINDS}
        for place, guard in enumerate(self._shared):
            for fact in guard.facts - CALLS:
                self._wanted.setdefault(fact, []).append((place, guard.see))
            if not CALLS.isdisjoint(guard.facts):
                self._seat((place, guard.see), guard.kinds, guard.calm)

    def _seat(self, seat: _Seat, kinds: frozenset[Kind], calm: bool) -> None:
        for kind in kinds:
            self._any[kind].append(seat)
            if not calm:
                self._news[kind].append(seat)

    def start(self) -> WatchState:
        return WatchState(Reader(), [guard.begin() for guard in self._shared], [guard.start() for guard in self._plain])

    def step(self, state: WatchState, event: Event) -> tuple[WatchState, tuple[Signal, ...]]:
        """Feed one event. The state given must not be used again."""
        fact = type(event.fact)
        reading = state.reader.read(event) if fact in READ else None
        if reading is not None:
            seats = (self._news if reading.plain else self._any)[reading.kind]
        else:
            seats = self._wanted.get(fact, _NOBODY)
        found: list[Signal] | None = None
        own = state.own
        for place, see in seats:
            signal = see(own[place], event, reading)
            if signal is not None:
                found = [signal] if found is None else [*found, signal]
        if self._plain:
            found = [*(found or ()), *self._feed_plain(state, event)]
        return state, () if found is None else tuple(found)

    def _feed_plain(self, state: WatchState, event: Event) -> list[Signal]:
        found: list[Signal] = []
        for place, guard in enumerate(self._plain):
            state.plain[place], signal = guard.step(state.plain[place], event)
            if signal is not None:
                found.append(signal)
        return found
