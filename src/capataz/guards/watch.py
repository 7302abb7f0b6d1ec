"""All guards fed together: one reading per event, then every guard that wants this kind of fact.

The watch knows nothing of policy. It says what was noticed, in the order of the guards, and never stops anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from capataz.events.facts import Event, Fact, Kind
from capataz.guards.base import Guard, Signal
from capataz.guards.reading import Reader, Step
from capataz.guards.shared import CALLS, Shared

_Seat: TypeAlias = "tuple[int, Callable[[Any, Event, Step | None], Signal | None]]"


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
        self._calls: dict[tuple[type[Fact], Kind, bool], list[_Seat]] = {}
        for place, guard in enumerate(self._shared):
            self._seat(place, guard)

    def _seat(self, place: int, guard: Shared[Any]) -> None:
        for fact in guard.facts:
            if fact not in CALLS:
                self._wanted.setdefault(fact, []).append((place, guard.see))
                continue
            for kind in guard.kinds:
                self._calls.setdefault((fact, kind, False), []).append((place, guard.see))
                if not guard.calm:
                    self._calls.setdefault((fact, kind, True), []).append((place, guard.see))

    def start(self) -> WatchState:
        return WatchState(Reader(), [guard.begin() for guard in self._shared], [guard.start() for guard in self._plain])

    def step(self, state: WatchState, event: Event) -> tuple[WatchState, tuple[Signal, ...]]:
        """Feed one event. The state given must not be used again."""
        reading = state.reader.read(event)
        if reading is None:
            seats = self._wanted.get(type(event.fact), ())
        else:
            seats = self._calls.get((type(event.fact), reading.kind, reading.plain), ())
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
