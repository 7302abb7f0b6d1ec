"""What was put before a person or a supervisor, and what they said."""

from __future__ import annotations

from dataclasses import dataclass, field

from capataz.events.facts import EscalationAnswered


@dataclass(slots=True)
class People:
    approved: set[str] = field(default_factory=set[str])
    """Digests of calls a person has approved."""
    asked: str = ""
    """Digest of the call that a person was asked about last."""
    rejected: dict[tuple[str, str | None], str] = field(default_factory=dict[tuple[str, str | None], str])
    """Effects (tool, target) a person has rejected, with the reason given."""
    answered_seq: int = -1
    """Where somebody decided last."""
    supervisions: int = 0
    """How often a supervisor was asked in this run."""
    abort: str | None = None
    """A person ordered the end; the words that came with it."""

    def decided(self, answer: EscalationAnswered, seq: int) -> None:
        """Somebody was asked and has answered; what an answer means for the call in question is not known here."""
        self.answered_seq, self.asked = seq, ""
        self.supervisions += 1 if answer.by == "supervisor" else 0
        if answer.action == "approve":
            self.approved.add(answer.digest)
        elif answer.action == "abort":
            self.abort = answer.text
