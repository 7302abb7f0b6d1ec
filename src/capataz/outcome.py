"""How a run honestly ended. A closed set of five; exhausting anything never looks like success.

`Completed` cannot be built without evidence: a confirmed effect or a satisfied check. That rule lives here, in the
type, and nowhere else needs to remember it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from capataz.events.facts import Evidence, OutcomeName, Spend
from capataz.mistakes import Misuse


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    name: ClassVar[OutcomeName]
    run: str = ""
    """Run id: `capataz show RUN` draws its trace."""
    spend: Spend = field(default_factory=Spend)
    warnings: tuple[str, ...] = ()
    detail: str = ""
    """One sentence for a person."""
    value: Any = None
    """The answer as the type that was asked for; None where none was, or where the run did not get that far."""


@dataclass(frozen=True, slots=True)
class Completed(_Ended):
    """Every required effect is confirmed. `evidence` says which, and where in the log.

    >>> Completed("done", ())
    Traceback (most recent call last):
    ...
    capataz.mistakes.Misuse: Completed needs evidence: a confirmed effect or a satisfied check
    """

    name: ClassVar[OutcomeName] = "completed"
    answer: str
    evidence: tuple[Evidence, ...]
    reason: str = "effects-confirmed"

    def __post_init__(self) -> None:
        if not self.evidence:
            raise Misuse("Completed needs evidence: a confirmed effect or a satisfied check")


@dataclass(frozen=True, slots=True)
class Answered(_Ended):
    """Something was said and nothing had to be done: a role that talks, or an acting run that looked and declined."""

    name: ClassVar[OutcomeName] = "answered"
    answer: str
    no_action: bool = False
    reason: str = "answered"
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Partial(_Ended):
    """The run was ended before it was done: a ceiling, a loop, an effect that could not be confirmed."""

    name: ClassVar[OutcomeName] = "partial"
    answer: str
    reason: str
    missing: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    answer_turn: int | None = None


@dataclass(frozen=True, slots=True)
class Escalated(_Ended):
    """Suspended: someone else has to decide. The log stays open and an answer resumes the run."""

    name: ClassVar[OutcomeName] = "escalated"
    answer: str
    reason: str
    missing: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Aborted(_Ended):
    """Going on made no sense: an error whose row says so, or a person's order."""

    name: ClassVar[OutcomeName] = "aborted"
    answer: str
    reason: str
    missing: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


Outcome: TypeAlias = Completed | Answered | Partial | Escalated | Aborted
