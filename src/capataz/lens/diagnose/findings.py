"""The words of a diagnosis: what was found in one run, where, and what it cost from there on.

A finding names one of the four ways in which agents fail, its kind, and the events that show it. A pointer is weaker:
a place worth a look, with its limits said beside it, and never a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from capataz.events.facts import JSON

Failure = Literal["loop", "hang", "talk", "error"]

FAILURES: dict[Failure, str] = {
    "loop": "The loop that never ends",
    "hang": "The turn that hangs",
    "talk": "The turn that only talks",
    "error": "The error taken for another",
}
"""The four failures, as one says them to a person."""

_TALK = frozenset({"narration", "false-done", "no-call"})


def failure_of(kind: str) -> Failure:
    """Which of the four a kind of signal belongs to."""
    if kind in _TALK:
        return "talk"
    return "hang" if kind in ("hung", "unanswered") else "error" if kind in ERROR_KINDS else "loop"


ERROR_KINDS: dict[str, str] = {
    "hopeless-retry": "the same call again after an error that another try cannot mend",
    "rushed-retry": "a rate limit answered with another try at once",
    "dropped-transient": "an error that passes by itself ended the run without another try",
    "error-burst": "several errors in a row, whatever was called",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known of a run besides its events. `label`: how it really went, where the record says so."""

    id: str
    source: str
    origin: str
    label: bool | None = None
    task_key: str = ""
    task_type: str = ""
    usage_known: bool = False
    times_known: bool = False


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used. `money` in US dollars; None once a part of it has no known price."""

    turns: int = 0
    calls: int = 0
    tokens: int = 0
    money: Decimal | None = Decimal(0)

    def __add__(self, other: Spent) -> Spent:
        money = None if self.money is None or other.money is None else self.money + other.money
        return Spent(self.turns + other.turns, self.calls + other.calls, self.tokens + other.tokens, money)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that went wrong in one run."""

    failure: Failure
    kind: str
    guard: str
    """Name of the guard that saw it, or "diagnosis" where no live guard does."""
    seqs: tuple[int, ...]
    """The events that show it, oldest first."""
    words: str
    action: str
    """What the guards would have done: nudge, fail-turn, stop, escalate, or nothing ("")."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A place worth a look."""

    kind: Literal["no-source", "computed", "conflict", "ungrounded-argument"]
    seq: int
    where: str
    """What holds the value: the answer, or a tool and its argument, or a key."""
    value: str
    detail: str = ""


LIMITS: dict[str, str] = {
    "no-source": (
        "A number, date or id in an answer that nothing outside the model said before it, and that is no sum, "
        "difference or small multiple of what was said. Says unsupported, never false. Blind to words, names and "
        "negations. On public records good runs have it as often as failed ones of the same length."
    ),
    "computed": (
        "A number in an answer that nobody said, but that is one sum, difference or small multiple of what was said: "
        "the model did the arithmetic itself. Not wrong by itself; longer arithmetic is not recognised."
    ),
    "ungrounded-argument": (
        "An id, address or date in an acting call that appears nowhere before it. World knowledge and composed ids are "
        "false alarms. Where agents invent ids it tells a lot (WorkBench: 34 % of failed and 3 % of good short runs), "
        "elsewhere next to nothing. A place to look, no gate."
    ),
    "conflict": (
        "Two results that say different things about the same key of the same thing, with no act in between. Exact "
        "values only; something outside may have changed the world meanwhile."
    ),
    "distance": (
        "Share of this run's steps (a tool after another) that no good run of the same kind has. Flags what is new, "
        "not what is wrong; needs at least 30 good runs of the kind."
    ),
}
"""What each pointer can and cannot say, shown wherever the pointer is."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """What one would guess without looking: shown beside every attribution, since on public records such guesses
    match published model judges."""

    first_act: int | None
    """Event of the first acting call."""
    last_step: int | None
    """Event of the last reply."""
    loudest: str
    """Who spoke most, where several speak; else the tool used most."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything found in one run."""

    subject: Subject
    spent: Spent
    findings: tuple[Finding, ...] = ()
    cut: Finding | None = None
    """Where the guards would have ended the run."""
    after: Spent = Spent()
    """What was used after that point."""
    turns: int = 0
    turns_without_call: int = 0
    errors: int = 0
    """Results that were errors."""
    error_rows: tuple[tuple[str, int], ...] = ()
    longest_burst: int = 0
    unbacked: bool = False
    """The run ended as if done and no acting call of it had succeeded."""
    unanswered: int = 0
    """Calls whose result never came."""
    waits_model: tuple[float, ...] = ()
    """Seconds the model was waited for, where times are known."""
    waits_tool: tuple[float, ...] = ()
    pointers: tuple[Pointer, ...] = ()
    baselines: Baselines = Baselines(None, None, "")
    pairs: tuple[tuple[str, str], ...] = ()
    """Tools that followed one another, for the distance from good runs."""

    @property
    def first(self) -> Finding | None:
        """The attribution: the earliest finding the guards would have acted on, else the earliest of all."""
        found = [finding for finding in self.findings if finding.action not in ("", "observe")]
        # A burst of errors is told, but is no misjudgement by itself: red tests come in bursts.
        found = found or [finding for finding in self.findings if finding.kind != "error-burst"]
        return min(found, key=lambda finding: finding.seqs[-1] if finding.seqs else 0) if found else None

    @property
    def repeats(self) -> bool:
        """Whether the run repeated itself: two loops of steps or more. One is a stumble that most runs get over."""
        return sum(one.failure == "loop" and one.kind != "token-rate" for one in self.findings) > 1

    @property
    def failure(self) -> Failure | None:
        """Which of the four this run is counted under: by what would have ended it, else by its first finding."""
        chosen = self.cut or self.first
        return None if chosen is None else chosen.failure


@dataclass(frozen=True, slots=True)
class Shown:
    """A diagnosis with the few events a reader needs to believe it, cut to size."""

    diagnosis: Diagnosis
    steps: tuple[Step, ...] = ()
    distance: float | None = None
    good_runs: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One event, in words."""

    seq: int
    turn: int
    what: str
    text: str
    marked: bool = field(default=False)
    """Whether a finding rests on it."""
    bad: bool = False


def as_json(shown: Shown) -> dict[str, JSON]:
    """One run of the report, for machines."""
    told = shown.diagnosis
    return {
        "id": told.subject.id,
        "source": told.subject.source,
        "origin": told.subject.origin,
        "label": told.subject.label,
        "task": told.subject.task_key[:200],
        "failure": told.failure,
        "kind": None if told.first is None else (told.cut or told.first).kind,
        "findings": [_finding(finding) for finding in told.findings[:20]],
        "cut": None if told.cut is None else _finding(told.cut),
        "spent": spent_json(told.spent),
        "after_cut": spent_json(told.after),
        "turns_without_call": told.turns_without_call,
        "errors": told.errors,
        "claimed_without_effect": told.unbacked,
        "unanswered_calls": told.unanswered,
        "pointers": [_pointer(pointer) for pointer in told.pointers],
        "baselines": {
            "first_acting_step": told.baselines.first_act,
            "last_step": told.baselines.last_step,
            "spoke_most": told.baselines.loudest,
        },
        "distance_from_good_runs": shown.distance,
        "good_runs_compared": shown.good_runs,
    }


def spent_json(spent: Spent) -> dict[str, JSON]:
    """Money as a text, so that no digit is lost; null where a price is unknown."""
    money = None if spent.money is None else str(spent.money)
    return {"turns": spent.turns, "calls": spent.calls, "tokens": spent.tokens, "money": money}


def _finding(finding: Finding) -> dict[str, JSON]:
    return {
        "failure": finding.failure,
        "kind": finding.kind,
        "guard": finding.guard,
        "seqs": list(finding.seqs),
        "words": finding.words,
        "action": finding.action,
    }


def _pointer(pointer: Pointer) -> dict[str, JSON]:
    return {
        "kind": pointer.kind,
        "seq": pointer.seq,
        "where": pointer.where,
        "value": pointer.value,
        "detail": pointer.detail,
    }
