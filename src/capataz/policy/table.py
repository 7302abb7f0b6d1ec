"""What an error may cost: the table from each row of the taxonomy to retries, backoff and terminal action.

The table is data. `decide` reads it; nothing else knows how often anything is tried again. A row missing from it is
a mistake found when the policy is built, never during a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

from capataz.events.facts import Fault, Row
from capataz.mistakes import PolicyMisuse

Terminal = Literal["supervisor", "human", "correct", "abort", "partial"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: how often to try again, how long to wait (seconds), and what happens when that is used up.

    The wait before retry n (from 0) is `first * factor**n`, at most `cap`, plus up to `jitter` of itself, drawn.
    """

    retries: int
    terminal: Terminal
    first: float = 0.5
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 0.0

    def wait(self, attempt: int, hint: float | None, fraction: float) -> float:
        """Seconds before trying again: the provider's hint where there is one, never less than it."""
        own = min(self.first * self.factor**attempt, self.cap)
        own += own * self.jitter * fraction
        return own if hint is None else max(hint, own if hint == 0 else hint)


DEFAULT_TABLE: Mapping[Row, Rule] = MappingProxyType(
    {
        "transient": Rule(3, "supervisor"),
        "rate_limit": Rule(5, "supervisor", first=1.0, cap=60.0, jitter=0.5),
        "invalid_input": Rule(0, "correct"),
        "auth": Rule(0, "human"),
        "contract": Rule(1, "abort"),
        "unknown": Rule(2, "human"),
        "ours": Rule(0, "partial"),
    }
)


@dataclass(frozen=True, slots=True)
class FaultTable:
    """The rules, one for every row. Building one that lacks a row fails."""

    rules: Mapping[Row, Rule] = field(default_factory=lambda: DEFAULT_TABLE)

    def __post_init__(self) -> None:
        missing = [row for row in get_args(Row) if row not in self.rules]
        if missing:
            raise PolicyMisuse(f"the fault table has no rule for {', '.join(missing)}: add one for each row")

    def rule(self, fault: Fault) -> Rule:
        return self.rules[fault.row]

    def retries(self, fault: Fault) -> int:
        """How often this fault is tried again: the row's number, or fewer where the reason is hopeless."""
        allowed = self.rules[fault.row].retries
        return allowed if fault.retries is None else min(allowed, fault.retries)
