"""All guards fed together: one reading per event, then every guard that wants this kind of fact.

The watch knows nothing of policy. It says what was noticed, in the order of the guards, and never stops anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from capataz.events.facts import Event, Fact
from capataz.guards.base import Guard, Signal
from capataz.guards.reading import Reader
from capataz.guards.shared import Shared


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
        self._wanted: dict[type[Fact], list[tuple[int, Shared[Any]]]] = {}
        for place, guard in enumerate(self._shared):
            for kind in guard.facts:
                self._wanted.setdefault(kind, []).append((place, guard))

    def start(self) -> WatchState:
        return WatchState(Reader(), [guard.begin() for guard in self._shared], [guard.start() for guard in self._plain])

    def step(self, state: WatchState, event: Event) -> tuple[WatchState, tuple[Signal, ...]]:
        """Feed one event. The state given must not be used again."""
        reading = state.reader.read(event)
        found: list[Signal] = []
        own = state.own
        for place, guard in self._wanted.get(type(event.fact), ()):
            signal = guard.see(own[place], event, reading)
            if signal is not None:
                found.append(signal)
        for place, plain in enumerate(self._plain):
            state.plain[place], signal = plain.step(state.plain[place], event)
            if signal is not None:
                found.append(signal)
        return state, tuple(found)
