"""The newest turn: what the model said, and how far the calls it asked for have come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from capataz.events.facts import Call, ModelReplied, ToolFailed, ToolFinished

CallStage = Literal["asked", "probed", "started", "failed", "returned", "done"]


@dataclass(slots=True)
class CallView:
    """How far one call has come."""

    call: Call
    stage: CallStage = "asked"
    before: str | None = None
    finished: ToolFinished | None = None
    failed: ToolFailed | None = None
    """The newest try that failed and may be repeated."""
    tries: int = 0
    """How many tries have failed so."""

    def repeat(self) -> None:
        """The call is to be made again, as if it had not been begun."""
        self.stage = "probed" if self.call.acting else "asked"

    def ask_again(self) -> None:
        """What the read-back said before the act is old: the log may have been restored to a point before the act."""
        self.stage, self.before = "asked", None


@dataclass(slots=True)
class Turn:
    """A reply of the loop with its calls. The next reply begins another one; nothing of this one is changed then."""

    number: int = 0
    """The first is 1; 0 while the model has said nothing."""
    reply: ModelReplied | None = None
    seq: int = -1
    """Position of the reply."""
    calls: dict[int, CallView] = field(default_factory=dict[int, CallView])
    """By position."""
    failed: bool = False
    """It was sent back to the model, which has to say something else."""

    @property
    def unsettled(self) -> list[CallView]:
        """The calls that have no result yet, in order."""
        return [view for _, view in sorted(self.calls.items()) if view.stage != "done"]

    @property
    def claim(self) -> ModelReplied | None:
        """The reply, where it asked for no call and was not sent back: the model thinks it is done."""
        reply = self.reply
        return reply if reply is not None and not reply.calls and not self.failed else None

    def view(self, turn: int, position: int) -> CallView | None:
        """The call at this position; a call of an earlier turn is settled and stays so."""
        return self.calls.get(position) if turn == self.number else None


def begun(reply: ModelReplied, seq: int) -> Turn:
    """The turn that this reply begins."""
    return Turn(reply.turn, reply, seq, {call.position: CallView(call) for call in reply.calls})
