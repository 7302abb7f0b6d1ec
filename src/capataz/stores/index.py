"""What a list of runs shows of each, folded from the same facts as everything else.

Every store keeps these figures beside the log and brings them forward in the transaction that appends to it, so that
listing never reads a log. It is a cache: nothing is decided by it, and folding the log again gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias, cast

from capataz.events.facts import (
    ChildEnded,
    EscalationAnswered,
    Event,
    ModelReplied,
    OutcomeName,
    RunEnded,
    RunEscalated,
    RunResumed,
    RunStarted,
    Spend,
    ToolStarted,
)
from capataz.ports import RunRow

Status: TypeAlias = Literal["running", "ended", "escalated"]
TASK_SHOWN = 500
"""Characters of the task a list keeps. The whole task is in the log."""


@dataclass(slots=True)
class Progress:
    """How far a run is. `fold` takes the events of one run in order; the fields are a row of the index."""

    events: int = 0
    status: Status = "running"
    outcome: OutcomeName | None = None
    reason: str = ""
    started_at: float | None = None
    """Time of the first event, whatever it is."""
    ended_at: float | None = None
    turns: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: Decimal | None = Decimal(0)
    seconds: float = 0.0

    def fold(self, event: Event) -> None:
        self.events = event.seq + 1
        if self.started_at is None:
            self.started_at = event.at
        match event.fact:
            case ModelReplied() as fact:
                self.turns += fact.purpose == "loop"
                self._spend(fact.usage.input, fact.usage.output, fact.usage.money)
            case ToolStarted():
                self.calls += 1
            case ChildEnded(spend=spend):
                self.turns += spend.turns
                self.calls += spend.calls
                self._spend(spend.input_tokens, spend.output_tokens, spend.money)
            case RunResumed() | EscalationAnswered():
                self._stand("running", None, "")
            case RunEscalated(reason=reason):
                self._stand("escalated", "escalated", reason)
            case RunEnded(outcome=outcome, reason=reason):
                self._stand("ended", outcome, reason, event.at)
            case _:
                pass
        if self.ended_at is None or self.ended_at == event.at:
            self.seconds = event.at - self.started_at

    def _spend(self, read: int, written: int, money: Decimal | None) -> None:
        self.input_tokens += read
        self.output_tokens += written
        self.money = None if self.money is None or money is None else self.money + money

    def _stand(self, status: Status, outcome: OutcomeName | None, reason: str, ended_at: float | None = None) -> None:
        self.status, self.outcome, self.reason, self.ended_at = status, outcome, reason, ended_at

    def row(self, run: str, started: RunStarted) -> RunRow:
        """The line of the list, for a run that has at least one event."""
        spend = Spend(self.turns, self.calls, self.input_tokens, self.output_tokens, self.money, self.seconds)
        return RunRow(
            run,
            started.agent,
            started.task,
            self.status,
            self.outcome,
            self.reason,
            cast(float, self.started_at),
            self.ended_at,
            spend,
            self.events,
            started.root or run,
            started.parent,
            started.conversation,
            started.task_type,
            started.model,
        )


def shown(run: str, fact: RunStarted) -> RunStarted:
    """The parts of the first fact a list keeps; the task is cut to its beginning."""
    return RunStarted(
        run,
        fact.agent,
        fact.task[:TASK_SHOWN].encode(errors="replace").decode(),
        model=fact.model,
        root=fact.root or run,
        parent=fact.parent,
        conversation=fact.conversation,
        task_type=fact.task_type,
    )
