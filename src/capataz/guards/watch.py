"""All guards fed together: one reading per event, then every guard that wants this kind of fact.

The watch knows nothing of policy. It says what was noticed, in the order of the guards, and never stops anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from capataz.events.facts import Event, Fact, HandedOver, Kind
from capataz.guards.base import Guard, Signal
from capataz.guards.handing import Handing, tally
from capataz.guards.reading import CALLS, READ, Reader, Step
from capataz.guards.shared import KINDS, Shared

_Seat: TypeAlias = "tuple[int, Callable[[Any, Event, Step | None], Signal | None]]"


_NOTHING: tuple[Signal, ...] = ()


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
        self._shared: list[Shared[Any]] = [guard for guard in self.guards if isinstance(guard, Shared)]
        self._plain = [guard for guard in self.guards if not isinstance(guard, Shared)]
        self._wanted: dict[type[Fact], list[_Seat]] = {fact: [] for fact in READ}
        self._any: dict[Kind, list[_Seat]] = {kind: [] for kind in KINDS}
        self._news: dict[Kind, list[_Seat]] = {kind: [] for kind in KINDS}
        for place, guard in enumerate(self._shared):
            seat: _Seat = (place, guard.see)
            for fact in guard.facts if guard.prompt else guard.facts - CALLS:
                self._wanted.setdefault(fact, []).append(seat)
            if not guard.prompt and not CALLS.isdisjoint(guard.facts):
                self._seat(seat, guard.kinds, guard.calm)

    def _seat(self, seat: _Seat, kinds: frozenset[Kind], calm: bool) -> None:
        for kind in kinds:
            self._any[kind].append(seat)
            if not calm:
                self._news[kind].append(seat)

    def start(self) -> WatchState:
        return WatchState(Reader(), [guard.begin() for guard in self._shared], [guard.start() for guard in self._plain])

    def step(self, state: WatchState, event: Event) -> tuple[WatchState, tuple[Signal, ...]]:
        """Feed one event. The state given must not be used again."""
        kind = type(event.fact)
        seats = self._wanted.get(kind)
        if seats is None:
            return (state, tuple(self._feed_plain(state, event))) if self._plain else (state, _NOTHING)
        found: list[Signal] | None = None
        own = state.own
        if kind in READ:
            for reading in state.reader.read(event):
                for place, see in (self._news if reading.plain else self._any)[reading.kind]:
                    signal = see(own[place], reading.event, reading)
                    if signal is not None:
                        found = [signal] if found is None else [*found, signal]
        for place, see in seats:
            signal = see(own[place], event, None)
            if signal is not None:
                found = [signal] if found is None else [*found, signal]
        if self._plain:
            found = [*(found or ()), *self._feed_plain(state, event)]
        return state, _NOTHING if found is None else tuple(found)

    def handed(self, state: WatchState) -> tuple[HandedOver, ...]:
        """The hand-offs of the root so far: what a run that is begun now has to be told."""
        places = (place for place, guard in enumerate(self._shared) if isinstance(guard, Handing))
        return next((tally(state.own[place]) for place in places), ())

    def _feed_plain(self, state: WatchState, event: Event) -> list[Signal]:
        found: list[Signal] = []
        for place, guard in enumerate(self._plain):
            state.plain[place], signal = guard.step(state.plain[place], event)
            if signal is not None:
                found.append(signal)
        return found
