"""What the guards have noticed, what was made of it, and what stops the run."""

from __future__ import annotations

from dataclasses import dataclass, field

from capataz.events.facts import CeilingReached, VerdictGiven
from capataz.guards.base import Signal


@dataclass(slots=True)
class Judgement:
    signals: list[Signal] = field(default_factory=list[Signal])
    """Noticed and not judged yet: they stay until a recorded verdict consumes them."""
    heard: dict[str, int] = field(default_factory=dict[str, int])
    """Loop identities the model was told of, and in which turn."""
    claims: int = 0
    """Failed turns since the last act that was confirmed."""
    stop: VerdictGiven | None = None
    """The verdict that ends the run."""
    ceiling: CeilingReached | None = None
    """The ceiling that ends it."""

    @property
    def ends(self) -> bool:
        """Whether the run has to end."""
        return self.stop is not None or self.ceiling is not None

    def give(self, verdict: VerdictGiven) -> None:
        self.signals = [signal for signal in self.signals if signal.identity != verdict.identity]
        if verdict.action in ("nudge", "fail-turn"):
            self.heard[verdict.identity] = verdict.turn
        if verdict.action == "fail-turn":
            self.claims += 1
        elif verdict.action in ("stop", "escalate"):
            self.stop = verdict
