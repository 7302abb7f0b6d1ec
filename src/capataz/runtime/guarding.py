"""What a run is judged by, the user's own guards held so that a mistake in one ends the guard and not the run.

A guard is folded with every event, live and each time the log is read again: what it raises would make the run
unreadable for good. Here it becomes one signal that says so, and the guard is silent from then on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from capataz.events.facts import Event
from capataz.guards.base import Guard, Signal
from capataz.guards.watch import Watch
from capataz.kernel.state import Rules
from capataz.policy.policy import Policy
from capataz.policy.thresholds import enabled_guards
from capataz.tools.usercode import Trap
from capataz.tools.wording import short_error


def rules_of(policy: Policy, own: Iterable[Guard[Any]] = ()) -> Rules:
    """The policy, the built-in guards it leaves on, and the user's own."""
    return Rules(policy, Watch((*enabled_guards(policy), *(HeldGuard(guard) for guard in own))))


@dataclass(slots=True)
class _Held:
    state: Any
    broken: bool = False


@dataclass(frozen=True, slots=True)
class HeldGuard:
    """A guard around a guard of the user's."""

    guard: Guard[Any]

    @property
    def name(self) -> str:
        return self.guard.name

    def start(self) -> _Held:
        with Trap() as trap:
            return _Held(self.guard.start())
        return _Held(None, broken=trap.error is not None)

    def step(self, state: _Held, event: Event, /) -> tuple[_Held, Signal | None]:
        if state.broken:
            return state, None
        with Trap() as trap:
            state.state, signal = self.guard.step(state.state, event)
            if signal is None or isinstance(signal, Signal):  # pyright: ignore[reportUnnecessaryIsInstance] not ours
                return state, signal
        state.broken = True
        why = short_error(trap.error) if trap.error is not None else "it gave back something that is no Signal"
        words = f"the guard {self.name!r} failed and is off for the rest of this run: {why}"
        return state, Signal(self.name, "guard-failed", f"guard-failed:{self.name}", (event.seq,), "nudge", words, "")
