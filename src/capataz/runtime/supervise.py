"""The supervisor: another agent, or a callable, that is asked before a person when a run cannot go on.

Whatever it does (raise, hang, answer nothing), the run goes on to a person; it can never make a run look done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from capataz.events.facts import JSON, ChildEnded, EscalationAnswered, RunEscalated
from capataz.mistakes import Misuse
from capataz.runtime.journal import Journal
from capataz.runtime.launch import launch
from capataz.runtime.yard import Spec, Task, Yard
from capataz.tools.usercode import Returned, Threads, is_async, run_user_code

SUPERVISOR_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Escalation:
    """What a supervisor, or a person, is told: which run, what was asked, and why it cannot go on."""

    run: str
    agent: str
    task: str
    reason: str
    detail: str
    answer: str
    missing: tuple[str, ...]


Action = Literal["retry", "answer", "approve", "reject", "correct", "happened", "not-happened", "abort"]
ACTIONS: tuple[str, ...] = get_args(Action)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a supervisor decides. "answer" gives the model `text`; "retry" tries again; "abort" ends the run."""

    action: Action
    text: str = ""
    arguments: Mapping[str, JSON] | None = None

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise Misuse(f"Decision({self.action!r}): there is no such decision, only {', '.join(ACTIONS)}")


Deciding: TypeAlias = Decision | str | None
Supervisor: TypeAlias = Callable[[Escalation], Deciding | Awaitable[Deciding]]
Supervise: TypeAlias = Callable[[RunEscalated, Journal], Awaitable[EscalationAnswered | None]]


def escalation_of(fact: RunEscalated, journal: Journal) -> Escalation:
    started = journal.state.started
    return Escalation(started.run, started.agent, started.task, fact.reason, fact.detail, fact.answer, fact.missing)


def by_callable(function: Supervisor, threads: Threads) -> Supervise:
    """A function as supervisor: it gets an `Escalation` and gives a `Decision`, words for the model, or None."""

    async def supervise(fact: RunEscalated, journal: Journal) -> EscalationAnswered | None:
        ending = await run_user_code(
            partial(function, escalation_of(fact, journal)),
            {},
            asynchronous=is_async(function),
            limit=SUPERVISOR_SECONDS,
            threads=threads,
        )
        return _answered(ending.value) if isinstance(ending, Returned) else None

    return supervise


def by_agent(spec: Spec, yard: Yard) -> Supervise:
    """An agent as supervisor: it is told the trouble as a task, and its answer goes to the model of the run."""
    spec = replace(spec, worker=replace(spec.worker, source="supervisor"))

    async def supervise(fact: RunEscalated, journal: Journal) -> EscalationAnswered | None:
        state = journal.state
        outcome = await launch(spec, _task(escalation_of(fact, journal), journal), yard)
        journal.record(
            ChildEnded(
                outcome.run, spec.name, outcome.name, outcome.spend, state.turn.number, -1, state.ledger.standing()
            )
        )
        helped = outcome.name in ("completed", "answered") and bool(outcome.answer.strip())
        return EscalationAnswered("answer", "supervisor", outcome.answer) if helped else None

    return supervise


def _task(escalation: Escalation, journal: Journal) -> Task:
    started = journal.state.started
    text = (
        f"The agent {escalation.agent!r} cannot go on with this task: {escalation.task}\n"
        f"Reason: {escalation.reason}. {escalation.detail}\n"
        f"Its last words: {escalation.answer}\n"
        "Tell it, in a few sentences, what to do next; or do yourself what your tools allow and say what you did."
    )
    return Task(
        text,
        started.task_type,
        root=started.root,
        parent=started.run,
        standing=journal.state.ledger.standing(),
        tenant=started.tenant,
        user=started.user,
    )


def _answered(given: Any) -> EscalationAnswered | None:
    match given:
        case None | "":
            return None
        case str():
            return EscalationAnswered("answer", "supervisor", given)
        case Decision(action, text, arguments):
            return EscalationAnswered(action, "supervisor", text, arguments=arguments)
        case _:  # not a decision: a person has to take one
            return None
