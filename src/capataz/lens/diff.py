"""Two runs side by side, and the first place where they part.

Steps are aligned by what they are (the model spoke, this tool with these arguments, this verdict), then what they said
is compared value by value. Models hardly ever use the same words twice, so words alone are no parting: the first
divergence is the first different deed, result or judgement; the first different words are told apart from it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from capataz.events.facts import (
    JSON,
    EscalationAnswered,
    Event,
    Fact,
    MessageReceived,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunStarted,
    ToolFinished,
    ToolRefused,
    VerdictGiven,
)
from capataz.events.plain import to_json
from capataz.guards.canon import argument_bytes
from capataz.kernel.state.ledger import canonical
from capataz.lens.diagnose.reading import parsed
from capataz.lens.lcs import common
from capataz.lens.words import called, line, said

Role = Literal["task", "message", "model", "tool", "verdict", "end"]
Sign = Literal["same", "differs", "gone", "new"]
MOST_VALUES = 200


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a run, fit to be compared. `key` says what it is, `text` what it said, `value` what came back."""

    seq: int
    turn: int
    role: Role
    key: Hashable
    title: str
    text: str = ""
    value: JSON = None
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs. `path` is empty where the whole differs."""

    path: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the comparison. "gone": only in A; "new": only in B."""

    sign: Sign
    a: Step | None
    b: Step | None
    changes: tuple[Change, ...] = ()

    @property
    def words_only(self) -> bool:
        """Only what the model said differs, not what was done or what came back."""
        one = self.a or self.b
        return self.sign != "same" and one is not None and one.role == "model"


@dataclass(frozen=True, slots=True)
class Diff:
    """The whole comparison. Both places are indices of `rows`; None where there is none."""

    rows: tuple[Row, ...]
    divergence: int | None
    words: int | None
    """The first place where only the model's words differ."""

    @property
    def same(self) -> bool:
        return self.divergence is None and self.words is None


def diff(a: Sequence[Event], b: Sequence[Event]) -> Diff:
    """Compare two runs."""
    rows = tuple(_rows(list(steps(a)), list(steps(b))))
    parted = next((i for i, row in enumerate(rows) if row.sign != "same" and not row.words_only), None)
    reworded = next((i for i, row in enumerate(rows) if row.words_only), None)
    return Diff(rows, parted, reworded)


def steps(events: Sequence[Event]) -> Iterator[Step]:
    """The steps of a run that can be compared with those of another."""
    turn = 0
    for event in events:
        fact = event.fact
        if isinstance(fact, ModelReplied):
            turn = fact.turn
        step = _step(event.seq, turn, fact)
        if step is not None:
            yield step


def _step(seq: int, turn: int, fact: Fact) -> Step | None:
    match fact:
        case RunStarted():
            asked: JSON = {"task": fact.task, "instructions": fact.instructions, "model": fact.model}
            return Step(seq, turn, "task", "task", "the task", value=asked)
        case MessageReceived(role=role, text=text):
            return Step(seq, turn, "message", ("message", role), f"{role} says", text)
        case EscalationAnswered(action=action, text=text):
            return Step(seq, turn, "message", ("decision", action), f"decision: {action}", text)
        case ModelReplied(text=text) if text.strip():
            return Step(seq, turn, "model", ("model", fact.purpose), "the model says", text)
        case ToolFinished(call=call):
            key = ("tool", call.tool, argument_bytes(call.arguments))
            title = called(call, 300)
            return Step(seq, call.turn, "tool", key, title, value=parsed(fact.result), tool=call.tool)
        case ToolRefused(call=call, reason=reason, message=message):
            key = ("refused", call.tool, argument_bytes(call.arguments))
            return Step(
                seq, call.turn, "tool", key, f"refused {called(call, 300)}", f"{reason}: {message}", tool=call.tool
            )
        case VerdictGiven() if fact.action != "observe":
            return Step(seq, turn, "verdict", ("verdict", fact.guard, fact.action), line(fact).head, fact.words)
        case RunEnded() | RunEscalated():
            outcome = fact.outcome if isinstance(fact, RunEnded) else "escalated"
            ended: JSON = {"outcome": outcome, "reason": fact.reason}
            return Step(seq, turn, "end", "end", f"{outcome}: {fact.reason}", value=ended)
        case _:
            return None


def _rows(a: Sequence[Step], b: Sequence[Step]) -> Iterator[Row]:
    pairs = common([step.key for step in a], [step.key for step in b])
    before_a = before_b = 0
    for i, j in [*pairs, (len(a), len(b))]:
        yield from _between(a[before_a:i], b[before_b:j])
        if i < len(a) and j < len(b):
            changes = tuple(changed(a[i], b[j]))
            yield Row("differs" if changes else "same", a[i], b[j], changes)
        before_a, before_b = i + 1, j + 1


def _between(a: Sequence[Step], b: Sequence[Step]) -> Iterator[Row]:
    """What stands between two matches: steps of the same tool (or role) are laid side by side."""
    pairs = common([(step.role, step.tool) for step in a], [(step.role, step.tool) for step in b])
    before_a = before_b = 0
    for i, j in [*pairs, (len(a), len(b))]:
        yield from (Row("gone", step, None) for step in a[before_a:i])
        yield from (Row("new", None, step) for step in b[before_b:j])
        if i < len(a) and j < len(b):
            yield Row("differs", a[i], b[j], (*_titles(a[i], b[j]), *changed(a[i], b[j])))
        before_a, before_b = i + 1, j + 1


def _titles(a: Step, b: Step) -> Iterator[Change]:
    if a.title != b.title:
        yield Change("", a.title, b.title)


def changed(a: Step, b: Step) -> Iterator[Change]:
    """What two aligned steps say differently."""
    if a.text != b.text:
        yield Change("text", a.text, b.text)
    if to_json(canonical(a.value)) != to_json(canonical(b.value)):
        yield from _values("", a.value, b.value, [MOST_VALUES])


def _values(path: str, a: JSON, b: JSON, left: list[int]) -> Iterator[Change]:
    """The leaves in which two values differ, at most so many as are `left`."""
    if left[0] <= 0 or canonical(a) == canonical(b):
        return
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            name = f"{path}.{key}" if path else key
            if key not in a or key not in b:
                left[0] -= 1
                yield Change(name, said(a[key]) if key in a else None, said(b[key]) if key in b else None)
            else:
                yield from _values(name, a[key], b[key], left)
    elif isinstance(a, list) and isinstance(b, list):
        for place in range(max(len(a), len(b))):
            name = f"{path}[{place}]"
            if place >= len(a) or place >= len(b):
                left[0] -= 1
                yield Change(
                    name, said(a[place]) if place < len(a) else None, said(b[place]) if place < len(b) else None
                )
            else:
                yield from _values(name, a[place], b[place], left)
    else:
        left[0] -= 1
        yield Change(path or "result", said(a), said(b))
