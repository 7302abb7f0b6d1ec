"""The inbox: what waits for a person, and what becomes of the answer.

An answer is a fact like any other. It is written under a lease of its own, so that it can be given from any process,
while no worker has the run; whoever drives the run next goes on from there, after a restart too.
"""

from __future__ import annotations

from capataz.events.facts import EscalationAnswered
from capataz.kernel.commands import Record
from capataz.kernel.decide import decide
from capataz.kernel.evolve import fold
from capataz.mistakes import Misuse
from capataz.policy.policy import Policy
from capataz.ports import Clock, Store
from capataz.runtime.guarding import rules_of
from capataz.runtime.journal import Journal
from capataz.runtime.supervise import Decision
from capataz.runtime.waiting import (
    Waiting as Waiting,
    as_json as as_json,
    read_waiting as read_waiting,
    waiting as waiting,
)


async def answer(store: Store, clock: Clock, run: str, decision: Decision, by: str, digest: str = "") -> None:
    """Write a person's decision into the log of a run that waits. The run goes on when it is resumed.

    With a `digest`, the decision holds only for the approval that bears it: what that person has read. Raises
    `Misuse` when the run does not wait, or when the decision does not fit what it waits for.
    """
    item = read_waiting(await store.read(run))
    if item is None:
        raise Misuse(f"run {run} does not wait for anyone: `capataz inbox` lists those that do")
    _fits(item, decision, digest)
    lease = await store.claim(run, f"inbox:{by}")
    # Read again under the lease: nobody else can answer from here on.
    events = await store.read(run)
    if read_waiting(events) is None:
        raise Misuse(f"run {run} was answered by someone else in the meantime")
    journal = Journal(store, lease, fold(rules_of(Policy()), events), clock)
    bound = item.approval.digest if item.approval is not None else ""
    journal.record(EscalationAnswered(decision.action, by, decision.text, bound, decision.arguments))
    if decision.action == "abort":
        for command in decide(journal.state):
            if isinstance(command, Record):
                journal.record(command.fact)
    await journal.durable()


def _fits(item: Waiting, decision: Decision, digest: str) -> None:
    asks = {"approve", "reject", "correct"}
    if decision.action in asks and item.approval is None:
        raise Misuse(f"run {item.run} does not wait for an approval but for: {item.escalation.reason}")
    if decision.action == "correct" and decision.arguments is None:
        raise Misuse("to correct a call, give all its arguments")
    if decision.action == "answer" and not decision.text.strip():
        raise Misuse("an answer needs words: they are what the model is told")
    if item.approval is not None and decision.action not in item.answers:
        raise Misuse(f"run {item.run} waits for an approval: approve, reject, correct or abort")
    if decision.action in ("happened", "not-happened") and item.escalation.reason != "in-doubt":
        raise Misuse(f"run {item.run} has no act in doubt: it waits for: {item.escalation.reason}")
    if digest and (item.approval is None or item.approval.digest != digest):
        raise Misuse(f"run {item.run} does not wait for approval {digest} any more: look at it again")
