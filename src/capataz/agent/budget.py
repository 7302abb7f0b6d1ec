"""What a run may use."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from capataz.events.facts import Ceilings
from capataz.runtime import described


@dataclass(frozen=True, slots=True)
class Budget:
    """An allowance: the hard ceilings of one run, with all its sub-agents. None is no limit.

    `money` in US dollars, `seconds` of wall clock. Reaching one ends the run `Partial`, with what it has.
    """

    turns: int | None = 60
    calls: int | None = 100
    tokens: int | None = 1_000_000
    money: float | Decimal | None = None
    seconds: float | None = 3600.0

    def __post_init__(self) -> None:
        for name in ("turns", "calls", "tokens", "money", "seconds"):
            described.check_allowance(name, getattr(self, name), whole=name in ("turns", "calls", "tokens"))

    def ceilings(self) -> Ceilings:
        money = None if self.money is None else Decimal(str(self.money))
        return Ceilings(self.turns, self.calls, self.tokens, money, self.seconds)
