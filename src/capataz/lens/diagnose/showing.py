"""The few events a reader needs to believe a finding: those it rests on, the one before, and the end."""

from __future__ import annotations

from collections.abc import Sequence

from capataz.events.facts import Event, ModelReplied, ToolFinished, ToolRefused
from capataz.lens.diagnose.findings import Diagnosis, Step
from capataz.lens.words import line

_MOST = 16
_LONGEST = 360


def steps_of(told: Diagnosis, events: Sequence[Event]) -> tuple[Step, ...]:
    """At most 16 events of a run, in words, with those its findings and pointers rest on marked."""
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
    return tuple(_step(events[place], events[place].seq in marked) for place in sorted(chosen))


def _step(event: Event, marked: bool) -> Step:
    fact = event.fact
    said = line(fact)
    turn = fact.turn if isinstance(fact, ModelReplied) else 0
    if isinstance(fact, (ToolFinished, ToolRefused)):
        turn = fact.call.turn
    return Step(event.seq, turn, said.head, clip(said.text, _LONGEST), marked, said.tone == "bad")


def clip(text: str, most: int) -> str:
    """A text cut to size, in its middle, with what was left out counted."""
    if len(text) <= most:
        return text
    kept = most - 30
    return f"{text[: kept * 2 // 3]} … {len(text) - kept:,} characters … {text[-kept // 3 :]}"
