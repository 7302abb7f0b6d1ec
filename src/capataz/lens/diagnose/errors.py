"""The error taken for another: retries that cannot help, retries without a wait, tries given up too early, bursts.

What each error deserves is the fault table's business; here a record is only held against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from capataz.events.facts import Event, Fault, ModelCallFailed, ModelReplied, ToolFinished
from capataz.faults.classify import classify_text
from capataz.lens.diagnose.findings import ERROR_KINDS, Finding
from capataz.lens.diagnose.grounding import text_of
from capataz.policy.table import FaultTable

BURST = 3
"""Errors in a row that count as a burst."""
_SHOWN = 8


@dataclass(slots=True)
class Errors:
    """What a run's errors were, and what was made of them."""

    count: int = 0
    rows: Counter[str] = field(default_factory=Counter[str])
    longest: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])


@dataclass(slots=True)
class _Last:
    """The latest error of one exact call."""

    fault: Fault
    seqs: list[int]
    at: float


def errors(events: Sequence[Event], table: FaultTable, times_known: bool) -> Errors:
    """Go through a run's errors in order."""
    told = Errors()
    last: dict[tuple[str, str], _Last] = {}
    burst: list[int] = []
    hopeless: dict[tuple[str, str], _Last] = {}
    for event in events:
        fact = event.fact
        if isinstance(fact, ModelCallFailed):
            _count(told, fact.fault)
        if not isinstance(fact, ToolFinished):
            continue
        key = (fact.call.tool, repr(sorted(fact.call.arguments.items(), key=lambda pair: pair[0])))
        if not fact.error:
            _burst(told, burst)
            burst = []
            last.pop(key, None)
            continue
        burst.append(event.seq)
        fault = fact.fault or _fault(text_of(fact.result)[:2000])
        _count(told, fault)
        before = last.get(key)
        if before is not None:
            _again(told, hopeless, key, before, event, fault, table, times_known)
            before.seqs.append(event.seq)
            before.fault, before.at = fault, event.at
        elif len(last) < 1_000:
            last[key] = _Last(fault, [event.seq], event.at)
    _burst(told, burst)
    for key, case in hopeless.items():
        row = case.fault.row.replace("_", " ")
        words = f"{key[0]} was called {len(case.seqs)} times with the same arguments, and {row} errors do not pass"
        told.findings.append(_finding("hopeless-retry", case.seqs, words))
    _dropped(told, events, table)
    return told


@lru_cache(maxsize=4096)
def _fault(text: str) -> Fault:
    """Loops say the same error again and again."""
    return classify_text(text)


def _count(told: Errors, fault: Fault) -> None:
    told.count += 1
    told.rows[fault.row] += 1


def _again(
    told: Errors,
    hopeless: dict[tuple[str, str], _Last],
    key: tuple[str, str],
    before: _Last,
    event: Event,
    fault: Fault,
    table: FaultTable,
    times_known: bool,
) -> None:
    """The same call failed again: was another try worth it?"""
    if fault.row == before.fault.row and fault.row != "unknown" and table.retries(fault) == 0:
        hopeless[key] = before
    if before.fault.row == "rate_limit" and times_known:
        least = table.rule(before.fault).wait(0, before.fault.wait, 0.0)
        if event.at - before.at < least:
            passed = event.at - before.at
            words = f"{key[0]} was tried again {passed:.1f} s after a rate limit; at least {least:.1f} s were due"
            told.findings.append(_finding("rushed-retry", [before.seqs[-1], event.seq], words))


def _burst(told: Errors, burst: list[int]) -> None:
    told.longest = max(told.longest, len(burst))
    if len(burst) >= BURST:
        told.findings.append(_finding("error-burst", burst, f"{len(burst)} errors in a row"))


def _dropped(told: Errors, events: Sequence[Event], table: FaultTable) -> None:
    """The last result was an error that passes by itself, and the run ended on it without another try."""
    finished = [event for event in events[-8:] if isinstance(event.fact, (ToolFinished, ModelReplied))]
    if len(finished) < 2 or not isinstance(finished[-1].fact, ModelReplied) or finished[-1].fact.calls:
        return
    final = finished[-2].fact
    if not isinstance(final, ToolFinished) or not final.error:
        return
    fault = final.fault or _fault(text_of(final.result)[:2000])
    if fault.row in ("transient", "rate_limit") and table.retries(fault) > 0:
        words = f"{final.call.tool} failed in a way that passes ({fault.reason}); the run ended without another try"
        told.findings.append(_finding("dropped-transient", [finished[-2].seq, finished[-1].seq], words))


def _finding(kind: str, seqs: Sequence[int], words: str) -> Finding:
    shown = tuple(seqs[: _SHOWN - 1]) + tuple(seqs[_SHOWN - 1 :][-1:])
    return Finding("error", kind, "diagnosis", shown, words, "")


KINDS = tuple(ERROR_KINDS)
