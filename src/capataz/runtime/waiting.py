"""What waits for a person, read from the log of a run. Nothing is decided or written here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from capataz.events.facts import (
    JSON,
    ApprovalAsked,
    Call,
    CapabilityLearned,
    EscalationAnswered,
    Event,
    ModelReplied,
    RunEscalated,
    RunStarted,
)
from capataz.mistakes import Sealed, Unreadable
from capataz.ports import Store

_LOG = logging.getLogger("capataz")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that waits for a person. `approval` is the call that was asked about, where that is the reason."""

    run: str
    agent: str
    task: str
    since: float
    escalation: RunEscalated
    approval: ApprovalAsked | None
    call: Call | None = None
    """The call that an approval is for, as it is stored."""
    learned: tuple[CapabilityLearned, ...] = ()
    """Parameters the model refused in this run: lines for the capability table."""
    seq: int = -1
    """Where the run was suspended."""

    @property
    def answers(self) -> tuple[str, ...]:
        """What can be decided here; the words of `Decision`."""
        if self.approval is not None:
            return ("approve", "reject", "correct", "abort")
        if self.escalation.reason == "in-doubt":
            return ("happened", "not-happened", "retry", "answer", "abort")
        return ("retry", "answer", "abort")


async def waiting(
    store: Store, limit: int = 100, shown: Callable[[list[Event]], list[Event]] = lambda events: events
) -> list[Waiting]:
    """Runs that wait for a person, newest first. `shown` gives the events as they may be shown: masked."""
    found: list[Waiting] = []
    for row in await store.runs(limit, outcome="escalated"):
        try:
            item = read_waiting(shown(await store.read(row.run)))
        except (Sealed, Unreadable) as error:
            # One run that cannot be read must not hide those that wait, and must not be hidden itself.
            _LOG.warning("run %s waits, but cannot be read: %s", row.run, error)
            continue
        if item is not None:
            found.append(item)
    return found


def read_waiting(events: list[Event]) -> Waiting | None:
    """What a run waits for, from its log; None when it does not wait."""
    started: RunStarted | None = None
    escalation: RunEscalated | None = None
    approval: ApprovalAsked | None = None
    since, place = 0.0, -1
    calls: dict[tuple[int, int], Call] = {}
    learned: dict[str, CapabilityLearned] = {}
    for event in events:
        match event.fact:
            case RunStarted() as fact:
                started = fact
            case ApprovalAsked() as fact:
                approval = fact
            case RunEscalated() as fact:
                escalation, since, place = fact, event.at, event.seq
            case ModelReplied(calls=asked):
                calls.update({(call.turn, call.position): call for call in asked})
            case CapabilityLearned() as line:
                learned[line.advice] = line
            case EscalationAnswered():
                escalation = approval = None
            case _:
                pass
    if started is None or escalation is None:
        return None
    waits_for = approval if escalation.reason == "approval" else None
    call = calls.get((waits_for.turn, waits_for.position)) if waits_for is not None else None
    return Waiting(
        started.run,
        started.agent,
        started.task,
        since,
        escalation,
        waits_for,
        call,
        tuple(learned.values()),
        place,
    )


def as_json(item: Waiting) -> dict[str, JSON]:
    """What waits, for programs: the list of the inbox and the webhook say the same."""
    escalation, approval, call = item.escalation, item.approval, item.call
    asked: dict[str, JSON] | None = None
    if approval is not None:
        arguments = dict(call.arguments) if call is not None else {}
        asked = {"shown": approval.shown, "why": approval.reason, "digest": approval.digest, "arguments": arguments}
    return {
        "run": item.run,
        "agent": item.agent,
        "task": item.task,
        "since": item.since,
        "reason": escalation.reason,
        "detail": escalation.detail,
        "answer": escalation.answer,
        "missing": list(escalation.missing),
        "approval": asked,
        "answers": list(item.answers),
        "capabilities": [learned.advice for learned in item.learned],
    }
