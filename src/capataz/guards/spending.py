"""Burning tokens: more within one minute than a run at work uses. The other guards see why; this one sees the bill."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from capataz.events.facts import Event, ModelReplied
from capataz.guards.base import Signal
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.reading import Step
from capataz.guards.shared import Shared

MINUTE = 60.0


@dataclass(slots=True)
class Bill:
    """What was used since a minute was begun. A new one begins with the first reply after the last has passed."""

    since: float = 0.0
    until: float = -inf
    first: int = -1
    tokens: int = 0
    told: bool = False


class Spending(Shared[Bill]):
    """Tokens per minute over the limit; told once in each such minute. Tokens read from a cache are not counted."""

    name = "spending"
    facts = frozenset((ModelReplied,))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Bill:
        return Bill()

    def see(self, state: Bill, event: Event, step: Step | None) -> Signal | None:
        fact = event.fact
        if type(fact) is not ModelReplied:
            return None
        if event.at >= state.until:
            state.since, state.until = event.at, event.at + MINUTE
            state.first, state.tokens, state.told = event.seq, 0, False
        usage = fact.usage
        state.tokens += usage.input + usage.output - usage.cache_read
        if state.tokens <= self.thresholds.token_rate or state.told or event.at <= state.since:
            return None
        state.told = True
        return Signal(
            self.name,
            "token-rate",
            "token-rate",
            (state.first, event.seq),
            "nudge",
            f"{state.tokens:,} tokens within one minute; {self.thresholds.token_rate:,} are usual at most.",
            f"You have used {state.tokens:,} tokens within one minute. Take smaller steps and read less at once.",
        )
