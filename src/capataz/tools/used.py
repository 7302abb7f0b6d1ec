"""What came of using a tool, whether it ran here or in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass

from capataz.events.facts import JSON, Fault


@dataclass(frozen=True, slots=True)
class Used:
    """The fields of `ToolFinished` that the tool decides."""

    result: JSON
    """What the model sees."""
    error: bool = False
    fault: Fault | None = None
    in_doubt: bool = False
    """An act that may have taken effect although it did not say so."""
    full: str | None = None
    """The whole text, when `result` had to be cut."""
    state_changed: bool | None = None
