"""The beginning of a run as the beginning of another one: what came before a step, with one edit.

The new log says whose record it goes on from and what was edited. What was spent before the step was the other run's:
here it costs nothing. Without permission its acting tools are only described from then on, so nothing of it may ever
count as an effect. A run of another runtime cannot be forked: nobody here can go on with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capataz.events.facts import (
    ACTING,
    JSON,
    ChildEnded,
    Event,
    Fact,
    Fork,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunStarted,
    Spend,
    TickPassed,
    ToolFinished,
    Usage,
)
from capataz.lens.words import called, short
from capataz.mistakes import Misuse


@dataclass(frozen=True, slots=True)
class Edit:
    """What is different from the step on. `result` is (value,), so that null can be a result too."""

    result: tuple[JSON] | None = None
    instructions: str | None = None
    policy: str | None = None
    """Name of another policy."""
    rules: str = ""
    """The text of its file."""

    @property
    def words(self) -> str:
        parts = [
            "another result" if self.result is not None else "",
            "other instructions" if self.instructions is not None else "",
            f"another policy ({self.policy})" if self.policy is not None else "",
        ]
        return ", ".join(part for part in parts if part) or "no edit"


def forked(events: Sequence[Event], step: int, edit: Edit, run: str, now: float, *, dry: bool = True) -> list[Event]:
    """The beginning of the new run `run`, begun at `now`. Raises `Misuse` for a step that cannot be forked at."""
    started = events[0].fact if events else None
    if not isinstance(started, RunStarted):
        raise Misuse("the beginning of this log is missing: it cannot be forked")
    if started.source != "capataz":
        raise Misuse(f"run {started.run} was driven by {started.source}: only runs of our own can be gone on with")
    prefix = [event for event in events if event.seq <= step]
    if step < 0 or prefix[-1].seq != step:
        raise Misuse(f"run {started.run} has no event {step}: its last is {events[-1].seq}")
    _refuse_ends(prefix)
    facts = [_free(event.fact) for event in prefix]
    facts[0] = _begun(started, step, edit, run, dry)
    if edit.result is not None:
        facts[-1] = _edited(prefix[-1], edit.result[0])
    return [Event(event.seq, now, fact) for event, fact in zip(prefix, facts, strict=True)]


def steps_to_fork(events: Sequence[Event]) -> list[tuple[int, str]]:
    """Where a run may be forked, with words: after each result, and after each reply that asked for nothing."""
    found: list[tuple[int, str]] = []
    for event in events:
        match event.fact:
            case ToolFinished(call=call):
                found.append((event.seq, f"turn {call.turn}: {called(call, 90)}"))
            case ModelReplied(calls=(), text=text, turn=turn, purpose="loop"):
                found.append((event.seq, f"turn {turn}: {short(text, 80) or 'it said nothing'}"))
            case RunStarted():
                found.append((event.seq, "the beginning"))
            case _:
                pass
    return found


def _refuse_ends(prefix: Sequence[Event]) -> None:
    last = prefix[-1].fact
    if any(isinstance(event.fact, RunEnded) for event in prefix):
        raise Misuse(f"at event {prefix[-1].seq} the run has ended: fork at an earlier one")
    if isinstance(last, RunEscalated) and last.to == "human":
        raise Misuse(f"at event {prefix[-1].seq} the run waits for a person: answer it, or fork at an earlier one")


def _begun(started: RunStarted, step: int, edit: Edit, run: str, dry: bool) -> RunStarted:
    prompt = started.instructions if edit.instructions is None else edit.instructions
    grown = len(prompt.encode("utf-8", "replace")) - len(started.instructions.encode("utf-8", "replace"))
    tools, above = started.tools, started.fork or Fork("", 0)
    if dry:  # a read-back would look for what was only described
        tools = tuple(replace(tool, confirmable=False) if tool.kind in ACTING else tool for tool in tools)
    return replace(
        started,
        run=run,
        root=run,
        parent=None,
        conversation=None,
        instructions=prompt,
        overhead=max(0, started.overhead + grown),
        tools=tools,
        supervised=started.supervised and not dry,
        fork=Fork(
            *(started.run, step, edit.words, dry),
            prompt=edit.instructions is not None or above.prompt,
            policy=edit.rules or above.policy,
        ),
    )


def _free(fact: Fact) -> Fact:
    """What the other run has paid for."""
    if isinstance(fact, ModelReplied):
        return replace(fact, usage=Usage())
    if isinstance(fact, ChildEnded):
        return replace(fact, spend=Spend())
    if isinstance(fact, TickPassed):
        return TickPassed(0.0, fact.waiting_for)
    return fact


def _edited(event: Event, result: JSON) -> ToolFinished:
    if not isinstance(event.fact, ToolFinished):
        raise Misuse(f"event {event.seq} is no result of a tool: a result can only be edited where there is one")
    return replace(event.fact, result=result, full=None, error=False, fault=None, in_doubt=False)
