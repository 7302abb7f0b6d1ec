"""The few events a reader needs to believe a finding: those it rests on, the one before, and the end.

What is kept to be shown is masked here, once, before it is shortened: a report travels further than the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from capataz.events.facts import (
    JSON,
    Call,
    Event,
    Fact,
    MessageReceived,
    ModelReplied,
    RunEnded,
    RunStarted,
    ToolFinished,
    ToolRefused,
)
from capataz.lens.diagnose.findings import Diagnosis, Finding, Pointer, Step
from capataz.lens.masked import Shower
from capataz.lens.words import line

_MOST = 16
_LONGEST = 360
_LOOKED_AT = 4_000
"""Characters of one text that are masked and then shortened; what lies behind is never shown."""


def steps_of(told: Diagnosis, events: Sequence[Event], shower: Shower) -> tuple[Step, ...]:
    """At most 16 events of a run, masked, in words, with those its findings and pointers rest on marked."""
    if not events:
        return ()
    marked: set[int] = set()
    findings = [finding for finding in (told.cut, told.first, *told.findings[:3]) if finding is not None]
    for finding in findings:
        marked.update(finding.seqs)
    for pointer in told.pointers[:4]:
        marked.add(pointer.seq)
    places = {event.seq: place for place, event in enumerate(events)}
    wanted = sorted(places[seq] for seq in marked if seq in places)[: _MOST - 3]
    chosen = {0, len(events) - 1, *wanted}
    if wanted:
        chosen.add(max(0, wanted[0] - 1))
    return tuple(_step(events[place], events[place].seq in marked, shower) for place in sorted(chosen))


def masked(told: Diagnosis, shower: Shower) -> Diagnosis:
    """The diagnosis as it may leave: its words, values and ids without secrets and personal data."""
    subject = replace(told.subject, id=_text(told.subject.id, shower), task_key=_text(told.subject.task_key, shower))
    return replace(
        told,
        subject=subject,
        findings=tuple(_finding(finding, shower) for finding in told.findings),
        cut=None if told.cut is None else _finding(told.cut, shower),
        pointers=tuple(_pointer(pointer, shower) for pointer in told.pointers),
    )


def _finding(finding: Finding, shower: Shower) -> Finding:
    return replace(finding, words=_text(finding.words, shower))


def _pointer(pointer: Pointer, shower: Shower) -> Pointer:
    return replace(pointer, value=_text(pointer.value, shower), detail=_text(pointer.detail, shower))


def _step(event: Event, marked: bool, shower: Shower) -> Step:
    fact = event.fact
    said = line(_covered(fact, shower))
    turn = fact.turn if isinstance(fact, ModelReplied) else 0
    if isinstance(fact, (ToolFinished, ToolRefused)):
        turn = fact.call.turn
    return Step(event.seq, turn, said.head, clip(said.text, _LONGEST), marked, said.tone == "bad")


def _covered(fact: Fact, shower: Shower) -> Fact:
    """The fact with everything somebody wrote masked."""
    match fact:
        case RunStarted():
            return replace(fact, task=_text(fact.task, shower), instructions="")
        case MessageReceived():
            return replace(fact, text=_text(fact.text, shower))
        case ModelReplied():
            calls = tuple(_call(call, shower) for call in fact.calls)
            return replace(fact, text=_text(fact.text, shower), thinking="", calls=calls)
        case ToolFinished():
            return replace(fact, call=_call(fact.call, shower), result=_value(fact.result, shower), full=None)
        case ToolRefused():
            return replace(fact, call=_call(fact.call, shower), message=_text(fact.message, shower))
        case RunEnded():
            return replace(fact, answer=_text(fact.answer, shower), detail=_text(fact.detail, shower))
        case _:
            return fact


def _call(call: Call, shower: Shower) -> Call:
    arguments = {_text(name, shower): _value(value, shower) for name, value in call.arguments.items()}
    return replace(call, arguments=arguments, target=None if call.target is None else _text(call.target, shower))


def _value(value: JSON, shower: Shower) -> JSON:
    return _text(value, shower) if isinstance(value, str) else shower.value(value)


def _text(text: str, shower: Shower) -> str:
    return shower.text(text[:_LOOKED_AT])


def clip(text: str, most: int) -> str:
    """A text cut to size, in its middle, with what was left out counted."""
    if len(text) <= most:
        return text
    kept = most - 30
    return f"{text[: kept * 2 // 3]} … {len(text) - kept:,} characters … {text[-kept // 3 :]}"
