"""Beginning a run, taking one up again, and handing a part of one to another agent.

A run is begun by one durable fact and taken up by another; between them stands only the log. A child run is a run
like any other, with what is left of its parent's budget and with the effects of the whole root task in its ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from capataz.events.facts import (
    JSON,
    Call,
    ChildEnded,
    Event,
    RunResumed,
    RunStarted,
)
from capataz.guards.handing import handed_on
from capataz.kernel.evolve import begin, fold
from capataz.kernel.room import within
from capataz.kernel.state import State
from capataz.memory.conversation import Arrived, Entered
from capataz.mistakes import Misuse, NotFound
from capataz.outcome import Outcome
from capataz.runtime.conversing import LEASE, Hold, again, converses, held, recalled, turn
from capataz.runtime.drive import drive
from capataz.runtime.dry import dried
from capataz.runtime.edited import edited
from capataz.runtime.heartbeat import Pulse
from capataz.runtime.journal import Journal
from capataz.runtime.perform import Performer
from capataz.runtime.report import outcome_of
from capataz.runtime.waiting import as_json, read_waiting
from capataz.runtime.worker import ChildResult, Delegate
from capataz.runtime.yard import Spec, Task, Yard
from capataz.tools.usercode import Trap

DEEPEST = 16
"""Runs that may stand above one another. Agents that hand work to each other without end are stopped much earlier, by
the guard; this holds where it only observes."""
_TOO_DEEP = f"This was handed on {DEEPEST} times already, one inside the other. Do it yourself, or say what blocks it."

_log = logging.getLogger("capataz.runtime")


@dataclass(frozen=True, slots=True)
class Parked:
    """A run that waits longer than it may hold a slot: drive it on at `until` (seconds since the epoch)."""

    run: str
    until: float


async def launch(spec: Spec, task: Task, yard: Yard) -> Outcome:
    """Begin a run and drive it to its outcome. Raises `Fenced` when another worker takes it over."""
    if not converses(task.conversation, task.parent):
        return _whole(await go_on(spec, yard, await begun(spec, task, yard), None))
    assert task.conversation is not None
    message = arrival(spec, replace(task, run=task.run or yard.around.chance.identity()), LEASE)
    async with held(yard, task.conversation, message.run, turn(yard, spec.rules, message)) as hold:
        journal = await begun(spec, told(task, message.run, hold.entered), yard)
        hold.state = journal.state
        return _whole(await go_on(spec, yard, journal, None))


def arrival(spec: Spec, task: Task, patience: float = 0.0) -> Arrived:
    """The message of a task that belongs to a conversation."""
    assert task.conversation is not None
    assert task.run is not None
    return Arrived(task.conversation, task.run, spec.name, task.text, task.tenant, task.user, patience)


def told(task: Task, run: str, entered: Entered) -> Task:
    """The task with what the conversation knows."""
    return replace(task, run=run, standing=entered.standing, recalled=recalled(entered))


async def resume(spec: Spec, run: str, yard: Yard, reason: str = "recovered") -> Outcome:
    """Take up a run whose worker is gone, or that was suspended, from its log, and drive it to its outcome."""
    return _whole(await advance(spec, run, yard, reason, None))


async def advance(
    spec: Spec, run: str, yard: Yard, reason: str = "recovered", park_after: float | None = 60.0
) -> Outcome | Parked:
    """`resume`, for whoever has better things to do than to wait: a wait above `park_after` seconds gives `Parked`."""
    if (state := fold(spec.rules, await yard.store.read(run))).over:
        return outcome_of(state)
    started = state.started
    if started.conversation is None or started.parent is not None:
        return await _taken_up(spec, run, yard, reason, park_after)
    async with held(yard, started.conversation, run, again(yard, spec.rules, started)) as hold:
        return await _taken_up(spec, run, yard, reason, park_after, hold)


async def _taken_up(
    spec: Spec,
    run: str,
    yard: Yard,
    reason: str,
    park_after: float | None,
    hold: Hold | None = None,
) -> Outcome | Parked:
    journal, epoch = await taken(spec, run, yard)
    if hold is not None:
        hold.state = journal.state
    standing = hold.entered.standing if hold is not None else ()
    journal.record(resumed(spec, journal.state, epoch, reason, standing))
    await journal.durable()
    return await go_on(spec, yard, journal, park_after)


async def taken(spec: Spec, run: str, yard: Yard) -> tuple[Journal, int]:
    """The journal of a run that was begun before, from now on this worker's to write, and the epoch of its lease."""
    lease = await yard.store.claim(run, yard.owner)
    events = await yard.store.read(run)
    first = events[0].fact if events else None
    rules = edited(spec, first).rules if isinstance(first, RunStarted) else spec.rules
    state = fold(rules, events)
    if state.started.agent != spec.name:
        owner = state.started.agent or "nobody"
        raise Misuse(f"run {run} belongs to agent {owner!r}, not to {spec.name!r}: resume it with that agent")
    for observer in yard.observers:
        with Trap():  # whoever watches may not disturb what is watched
            observer.recall(run, events)
    return Journal(yard.store, lease, state, yard.around.clock, _watcher(yard, run)), lease.epoch


def resumed(spec: Spec, state: State, epoch: int, reason: str, standing: tuple[str, ...] = ()) -> RunResumed:
    """The fact that this worker goes on, with its tools where they are others than those the run has had so far."""
    facts = spec.worker.toolset.facts
    tools = facts if {tool.name: tool for tool in facts} != state.tools else ()
    return RunResumed(epoch, reason, edited(spec, state.started).versions, standing, tools)


async def begun(spec: Spec, task: Task, yard: Yard) -> Journal:
    """The journal of a new run, its beginning durable."""
    run = task.run or yard.around.chance.identity()
    if task.recalled is None and converses(task.conversation, task.parent) and yard.around.privacy is not None:
        yard.around.privacy.forget(task.conversation)
    lease = await yard.store.claim(run, yard.owner)
    journal = Journal(yard.store, lease, begin(spec.rules), yard.around.clock, _watcher(yard, run))
    journal.record(_started(spec, task, run))
    if task.recalled is not None:
        journal.record(task.recalled)
    await journal.durable()
    return journal


async def go_on(
    spec: Spec, yard: Yard, journal: Journal, park_after: float | None, pulse: Pulse | None = None
) -> Outcome | Parked:
    """Drive a run from where its journal stands."""
    started = journal.state.started
    spec = edited(spec, started)
    if started.fork is not None and started.fork.dry:
        spec = replace(spec, worker=dried(spec.worker), children={})
    delegates = {name: _delegate(child, yard, pulse) for name, child in spec.children.items()}
    until = await drive(journal, Performer(journal, spec.worker, yard.around, delegates, pulse), park_after, pulse)
    if until is not None:
        return Parked(started.run, until)
    if yard.on_escalation is not None and journal.state.escalated is not None:
        await _tell(yard, journal.state)
    return outcome_of(journal.state)


async def _tell(yard: Yard, state: State) -> None:
    """Whoever watches for people is told what the run waits for. Told again after a crash: the id is the same."""
    run = state.started.run
    item = read_waiting(await yard.store.read(run))
    if item is not None and yard.on_escalation is not None:
        yard.on_escalation({"id": f"{run}:{item.seq}", "event": "run.escalated", **as_json(item)})


def _whole(result: Outcome | Parked) -> Outcome:
    assert not isinstance(result, Parked), "a run that may not be parked was"
    return result


def _watcher(yard: Yard, run: str) -> Callable[[Event], None] | None:
    watchers = (*yard.observers, *((yard.on_event,) if yard.on_event is not None else ()))
    if not watchers:
        return None
    failed: set[int] = set()

    def tell(event: Event) -> None:
        for place, watch in enumerate(watchers):
            with Trap() as trap:  # one that fails keeps nothing from the others
                watch(run, event)
            if trap.error is not None and place not in failed:
                failed.add(place)
                words = "%s failed at event %d of run %s (%s); what it shows of the run is not whole"
                _log.warning(words, type(watch).__name__, event.seq, run, type(trap.error).__name__)

    return tell


def _started(spec: Spec, task: Task, run: str) -> RunStarted:
    return RunStarted(
        run=run,
        agent=spec.name,
        task=_clean(task.text),
        role=spec.role,
        model=str(spec.worker.voices[0]),
        instructions=_clean(spec.instructions),
        tools=spec.worker.toolset.facts,
        checks=tuple(spec.worker.checks),
        ceilings=spec.ceilings,
        task_type=task.task_type,
        conversation=task.conversation,
        root=task.root or run,
        parent=task.parent,
        versions=spec.versions,
        overhead=spec.overhead,
        standing=task.standing,
        fallbacks=tuple(str(voice) for voice in spec.worker.voices[1:]),
        supervised=spec.worker.supervise is not None,
        typed=spec.worker.read_answer is not None,
        window=spec.window,
        keep_last=spec.keep_last,
        tenant=task.tenant,
        user=task.user,
        handed=task.handed,
        depth=task.depth,
    )


def _delegate(child: Spec, yard: Yard, pulse: Pulse | None) -> Delegate:
    """The agent behind a tool, as something the performer of its parent can call.

    The child's id is made of the call's key: after a crash the same call takes the same child up, and begins no other.
    """

    async def run_child(call: Call, parent: Journal, key: str) -> ChildResult:
        state = parent.state
        if state.started.depth >= DEEPEST:
            return ChildResult({"outcome": "refused", "reason": "too-deep", "answer": _TOO_DEEP}, None)
        task = _handed_task(call, state, child, key)
        narrowed = replace(child, ceilings=within(state, child.ceilings))
        outcome = _whole(await go_on(narrowed, yard, await _child(narrowed, task, yard), None, pulse))
        last = fold(child.rules, await yard.store.read(outcome.run))
        ended = ChildEnded(
            outcome.run,
            child.name,
            outcome.name,
            outcome.spend,
            call.turn,
            call.position,
            last.ledger.standing(),
            last.rules.watch.handed(last.watched),
        )
        missing: Sequence[str] = getattr(outcome, "missing", ())
        result: dict[str, JSON] = {
            "outcome": outcome.name,
            "reason": outcome.reason,
            "answer": outcome.answer,
            "missing": list(missing),
            "run": outcome.run,
        }
        return ChildResult(result, ended)

    return run_child


def _handed_task(call: Call, state: State, child: Spec, key: str) -> Task:
    """What the call hands to the child, with what the root has done and handed on so far."""
    started = state.started
    return Task(
        str(call.arguments.get("task", "")),
        started.task_type,
        started.conversation,
        root=started.root,
        parent=started.run,
        standing=state.ledger.standing(),
        run=key.replace(":", "."),
        tenant=started.tenant,
        user=started.user,
        handed=handed_on(state.rules.watch.handed(state.watched), started.agent, child.name, asks=not call.acting),
        depth=started.depth + 1,
    )


async def _child(spec: Spec, task: Task, yard: Yard) -> Journal:
    """The child's journal: a new one, or the one that was begun before its parent's worker died."""
    assert task.run is not None
    try:
        await yard.store.read(task.run)
    except NotFound:
        return await begun(spec, task, yard)
    journal, epoch = await taken(spec, task.run, yard)
    if not journal.state.over:
        journal.record(resumed(spec, journal.state, epoch, "recovered"))
    return journal


def _clean(text: str) -> str:
    """Text as it can be stored and sent: half a character, from a broken terminal or file, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
