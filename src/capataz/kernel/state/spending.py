"""What a run has used so far, its own and its children's."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from capataz.events.facts import Spend, Usage


@dataclass(slots=True)
class Spending:
    calls: int = 0
    """Own calls of tools that were begun, repeated ones included."""
    input: int = 0
    output: int = 0
    money: Decimal | None = Decimal(0)
    """None once any part of it has no known price."""
    children: Spend = Spend()

    def use(self, usage: Usage) -> None:
        self.input += usage.input
        self.output += usage.output
        self.money = _sum(self.money, usage.money)

    def add_child(self, spend: Spend) -> None:
        """A child's spend counts as the parent's, but its seconds: those passed for both at once."""
        sum_of = self.children
        self.children = Spend(
            sum_of.turns + spend.turns,
            sum_of.calls + spend.calls,
            sum_of.input_tokens + spend.input_tokens,
            sum_of.output_tokens + spend.output_tokens,
            _sum(sum_of.money, spend.money),
        )

    def total(self, turns: int, seconds: float) -> Spend:
        """All of it, where the run itself has taken so many turns and seconds."""
        children = self.children
        return Spend(
            turns + children.turns,
            self.calls + children.calls,
            self.input + children.input_tokens,
            self.output + children.output_tokens,
            _sum(self.money, children.money),
            seconds,
        )


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return None if one is None or other is None else one + other
