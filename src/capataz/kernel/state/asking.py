"""How the model is asked next: which one, for the how-manieth time, and what the last try came to."""

from __future__ import annotations

from dataclasses import dataclass

from capataz.events.facts import ModelCallFailed


@dataclass(slots=True)
class Asking:
    model: int = 0
    """Which model of the list: 0 is the agent's own, the others those it may hop to."""
    attempt: int = 0
    """Tries of the coming turn that have failed."""
    failure: ModelCallFailed | None = None
    """The newest call failed and nothing was decided about it yet."""
    cap: int | None = None
    """Largest output the provider said would fit."""

    def afresh(self) -> None:
        """What failed before does not count any more."""
        self.attempt, self.failure = 0, None
