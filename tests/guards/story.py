"""Short ways to write events for the guards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from capataz.events.facts import JSON, Call, Event, Fact, Kind, ModelReplied, ToolFinished, ToolStarted
from capataz.guards.base import Guard, Signal


@dataclass
class Log:
    """Events with positions and times of their own. `at` moves by one second an event unless it is set."""

    events: list[Event] = field(default_factory=list[Event])
    at: float = 1_000.0
    turn: int = 0

    def add(self, *facts: Fact) -> None:
        for fact in facts:
            self.at += 1
            self.events.append(Event(len(self.events), self.at, fact))

    def call(
        self,
        tool: str,
        arguments: dict[str, JSON] | None = None,
        result: JSON = "ok",
        *,
        kind: Kind = "read",
        target: str | None = None,
        error: bool = False,
        changed: bool | None = None,
        in_doubt: bool = False,
    ) -> None:
        """One turn with one call."""
        self.turn += 1
        call = Call(self.turn, 0, f"c{self.turn}", tool, arguments or {}, kind, target)
        self.add(
            ModelReplied(self.turn, 1, "", (call,), "calls"),
            ToolStarted(self.turn, 0, tool),
            ToolFinished(call, result, error=error, state_changed=changed, in_doubt=in_doubt),
        )

    def say(self, text: str) -> None:
        """One turn without a call."""
        self.turn += 1
        self.add(ModelReplied(self.turn, 1, text))


def seen(guard: Guard[Any], events: Iterable[Event]) -> list[Signal]:
    """What one guard by itself says of these events."""
    state, found = guard.start(), list[Signal]()
    for event in events:
        state, signal = guard.step(state, event)
        if signal is not None:
            found.append(signal)
    return found
