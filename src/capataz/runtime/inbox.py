"""The inbox: what waits for a person, and what becomes of the answer.

An answer is a fact like any other. It is written under a lease of its own, so that it can be given from any process,
while no worker has the run; whoever drives the run next goes on from there, after a restart too.
"""

from __future__ import annotations

from dataclasses import dataclass

from capataz.events.facts import ApprovalAsked, EscalationAnswered, Event, RunEscalated, RunStarted
from capataz.guards.catalogue import default_guards
from capataz.guards.watch import Watch
from capataz.kernel.commands import Record
from capataz.kernel.decide import decide
from capataz.kernel.evolve import fold
from capataz.kernel.state import Rules
from capataz.mistakes import Misuse
from capataz.policy.policy import Policy
from capataz.ports import Clock, Store
from capataz.runtime.journal import Journal
from capataz.runtime.supervise import Decision


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that waits for a person. `approval` is the call that was asked about, where that is the reason."""

    run: str
    agent: str
    task: str
    since: float
    escalation: RunEscalated
    approval: ApprovalAsked | None


async def waiting(store: Store, limit: int = 100) -> list[Waiting]:
    """Runs that wait for a person, newest first."""
    found: list[Waiting] = []
    for row in await store.runs(limit, outcome="escalated"):
        item = read_waiting(await store.read(row.run))
        if item is not None:
            found.append(item)
    return found


def read_waiting(events: list[Event]) -> Waiting | None:
    """What a run waits for, from its log; None when it does not wait."""
    started: RunStarted | None = None
    escalation: RunEscalated | None = None
    approval: ApprovalAsked | None = None
    since = 0.0
    for event in events:
        match event.fact:
            case RunStarted() as fact:
                started = fact
            case ApprovalAsked() as fact:
                approval = fact
            case RunEscalated() as fact:
                escalation, since = fact, event.at
            case EscalationAnswered():
                escalation = approval = None
            case _:
                pass
    if started is None or escalation is None:
        return None
    asked = approval if escalation.reason == "approval" else None
    return Waiting(started.run, started.agent, started.task, since, escalation, asked)


async def answer(store: Store, clock: Clock, run: str, decision: Decision, by: str) -> None:
    """Write a person's decision into the log of a run that waits. The run goes on when it is resumed.

    Raises `Misuse` when the run does not wait, or when the decision does not fit what it waits for.
    """
    item = read_waiting(await store.read(run))
    if item is None:
        raise Misuse(f"run {run} does not wait for anyone: `capataz inbox` lists those that do")
    _fits(item, decision)
    lease = await store.claim(run, f"inbox:{by}")
    # Read again under the lease: nobody else can answer from here on.
    events = await store.read(run)
    if read_waiting(events) is None:
        raise Misuse(f"run {run} was answered by someone else in the meantime")
    journal = Journal(store, lease, fold(_rules(), events), clock)
    digest = item.approval.digest if item.approval is not None else ""
    journal.record(EscalationAnswered(decision.action, by, decision.text, digest, decision.arguments))
    if decision.action == "abort":
        for command in decide(journal.state):
            if isinstance(command, Record):
                journal.record(command.fact)
    await journal.durable()


def _fits(item: Waiting, decision: Decision) -> None:
    asks = {"approve", "reject", "correct"}
    if decision.action in asks and item.approval is None:
        raise Misuse(f"run {item.run} does not wait for an approval but for: {item.escalation.reason}")
    if decision.action == "correct" and decision.arguments is None:
        raise Misuse("to correct a call, give all its arguments")
    if decision.action == "answer" and not decision.text.strip():
        raise Misuse("an answer needs words: they are what the model is told")
    if item.approval is not None and decision.action in ("happened", "not-happened"):
        raise Misuse(f"run {item.run} waits for an approval: approve, reject, correct or abort")


def _rules() -> Rules:
    return Rules(Policy(), Watch(default_guards()))
