"""One run, examined: the guards replayed over it, its errors, silences, talk and claims, and what it cost.

An examiner holds what is the same for all runs (guards, prices, the fault table). A replay is exact up to the first
firing; what the run spent after a cut is what it really spent, not what it would have saved had the model listened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise

from capataz.events.facts import Event, ModelReplied, RunStarted, ToolFinished, Usage
from capataz.guards.catalogue import default_guards
from capataz.guards.watch import Watch
from capataz.kernel.verdicts import Mode
from capataz.lens.diagnose.errors import errors
from capataz.lens.diagnose.findings import Baselines, Diagnosis, Finding, Spent, Subject, failure_of
from capataz.lens.diagnose.grounding import pointers
from capataz.lens.replay import Fired, Replayed, replay
from capataz.policy.table import FaultTable

Price = Callable[[str, Usage], "Decimal | None"]
"""US dollars for a usage of a model, or None where no price is known."""

_MOST_FINDINGS = 40
_MOST_PAIRS = 300


def unpriced(model: str, usage: Usage) -> Decimal | None:
    """Only what the record itself says."""
    return usage.money


@dataclass(frozen=True, slots=True)
class Examiner:
    """What is the same for every run."""

    watch: Watch = field(default_factory=lambda: Watch(default_guards()))
    modes: Mapping[str, Mode] = field(default_factory=dict[str, Mode])
    table: FaultTable = field(default_factory=FaultTable)
    price: Price = unpriced

    def examine(self, subject: Subject, events: Sequence[Event]) -> Diagnosis:
        """Everything that can be said of one run."""
        replayed = replay(events, self.watch, self.modes)
        wrong = errors(events, self.table, subject.times_known)
        guarded = _found(replayed)
        tally = _tally(events, subject, self.price)
        cut = None if replayed.cut is None else _finding(replayed.cut)
        after = Spent() if replayed.cut is None else _spent(events[replayed.cut.place + 1 :], self.price)
        findings = [*guarded, *wrong.findings, *tally.findings]
        return Diagnosis(
            subject,
            tally.spent,
            tuple(sorted(findings[:_MOST_FINDINGS], key=lambda finding: finding.seqs[-1:])),
            cut,
            after,
            tally.spent.turns,
            tally.silent_turns,
            wrong.count,
            tuple(wrong.rows.items()),
            wrong.longest,
            tally.unbacked,
            tally.unanswered,
            tuple(tally.waits_model),
            tuple(tally.waits_tool),
            pointers(events),
            tally.baselines,
            tuple(dict.fromkeys(tally.pairs)),
        )


def _found(replayed: Replayed) -> list[Finding]:
    """One finding for each loop: the strongest thing that was said of it, with its first words."""
    best: dict[str, Fired] = {}
    order = {"observe": 0, "nudge": 1, "fail-turn": 2, "escalate": 3, "stop": 3}
    for fired in replayed.fired:
        held = best.get(fired.signal.identity)
        if held is None or order[fired.verdict.action] > order[held.verdict.action]:
            best[fired.signal.identity] = fired
    return [_finding(fired) for fired in best.values()]


def _finding(fired: Fired) -> Finding:
    signal = fired.signal
    return Finding(
        failure_of(signal.kind), signal.kind, signal.guard, signal.evidence, signal.words, fired.verdict.action
    )


def _spent(events: Sequence[Event], price: Price) -> Spent:
    turns = calls = tokens = 0
    money: Decimal | None = Decimal(0)
    for event in events:
        fact = event.fact
        if isinstance(fact, ModelReplied):
            turns += 1
            calls += len(fact.calls)
            tokens += fact.usage.tokens
            cost = fact.usage.money if fact.usage.money is not None else price(fact.model, fact.usage)
            money = None if money is None or cost is None else money + cost
    return Spent(turns, calls, tokens, money)


@dataclass(slots=True)
class _Tally:
    """One pass over a run for everything the guards do not look at."""

    spent: Spent = field(default_factory=Spent)
    silent_turns: int = 0
    unanswered: int = 0
    unbacked: bool = False
    waits_model: list[float] = field(default_factory=list[float])
    waits_tool: list[float] = field(default_factory=list[float])
    pairs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    findings: list[Finding] = field(default_factory=list[Finding])
    baselines: Baselines = field(default_factory=lambda: Baselines(None, None, ""))


def _tally(events: Sequence[Event], subject: Subject, price: Price) -> _Tally:
    told = _Tally(spent=_spent(events, price))
    replies = [(event, event.fact) for event in events if isinstance(event.fact, ModelReplied)]
    finished = {(e.fact.call.turn, e.fact.call.position) for e in events if isinstance(e.fact, ToolFinished)}
    told.silent_turns = sum(not fact.calls for _, fact in replies)
    told.unanswered = sum((c.turn, c.position) not in finished for _, fact in replies for c in fact.calls)
    tools = [call.tool for _, fact in replies for call in fact.calls]
    told.pairs = list(pairwise(["(start)", *tools[:_MOST_PAIRS], "(end)"]))
    if subject.times_known:
        _waits(told, events)
    _claims(told, events, replies)
    told.baselines = _baselines(replies, tools)
    return told


def _waits(told: _Tally, events: Sequence[Event]) -> None:
    """Gaps in front of replies and of results. The first event after the start has no gap worth the name."""
    for before, event in pairwise(events[1:]):
        gap = event.at - before.at
        if isinstance(event.fact, ModelReplied):
            told.waits_model.append(gap)
        elif isinstance(event.fact, ToolFinished):
            told.waits_tool.append(gap)


def _claims(told: _Tally, events: Sequence[Event], replies: Sequence[tuple[Event, ModelReplied]]) -> None:
    """How the run ended against what it had done. Words are never looked at."""
    start = events[0].fact if events else None
    if not isinstance(start, RunStarted) or not replies:
        return
    last_event, last = replies[-1]
    if last.calls:
        if told.unanswered and events[-1] is last_event:
            words = f"the record ends with {len(last.calls)} call{'s' * (len(last.calls) > 1)} whose result never came"
            told.findings.append(Finding("hang", "unanswered", "diagnosis", (last_event.seq,), words, ""))
        return
    acted = any(isinstance(e.fact, ToolFinished) and e.fact.call.acting and not e.fact.error for e in events)
    told.unbacked = start.role == "acting" and not acted


def _baselines(replies: Sequence[tuple[Event, ModelReplied]], tools: Sequence[str]) -> Baselines:
    first = next((event.seq for event, fact in replies if any(call.acting for call in fact.calls)), None)
    speakers = Counter(fact.model for _, fact in replies if fact.model)
    counted = speakers if len(speakers) > 1 else Counter(tools)
    loudest = counted.most_common(1)[0][0] if counted else ""
    return Baselines(first, replies[-1][0].seq if replies else None, loudest)
