"""Burning tokens: more within one minute than a run at work uses. The other guards see why; this one sees the bill."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from capataz.events.facts import Event, ModelReplied
from capataz.guards.base import Signal
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.reading import Step
from capataz.guards.shared import Shared

MINUTE = 60.0
REPLIES = 256


@dataclass(slots=True)
class Bill:
    lately: deque[tuple[float, int, int]] = field(default_factory=lambda: deque[tuple[float, int, int]](maxlen=REPLIES))
    """(time, position, tokens) of the replies of the last minute."""
    tokens: int = 0
    told: float = float("-inf")


class Spending(Shared[Bill]):
    """Tokens per minute over the limit; told at most once a minute. Tokens read from a cache are not counted."""

    name = "spending"
    facts = frozenset((ModelReplied,))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Bill:
        return Bill()

    def see(self, state: Bill, event: Event, step: Step | None) -> Signal | None:
        fact = event.fact
        if not isinstance(fact, ModelReplied) or not fact.usage.tokens:
            return None
        if len(state.lately) == REPLIES:
            state.tokens -= state.lately[0][2]
        tokens = fact.usage.tokens - fact.usage.cache_read
        state.lately.append((event.at, event.seq, tokens))
        state.tokens += tokens
        while state.lately[0][0] < event.at - MINUTE:
            state.tokens -= state.lately.popleft()[2]
        moving = state.lately[0][0] < event.at or len(state.lately) == 1
        if not moving or state.tokens <= self.thresholds.token_rate or event.at < state.told + MINUTE:
            return None
        state.told = event.at
        return Signal(
            self.name,
            "token-rate",
            "token-rate",
            tuple(seq for _, seq, _ in state.lately)[-8:],
            "nudge",
            f"{state.tokens:,} tokens within one minute; {self.thresholds.token_rate:,} are usual at most.",
            f"You have used {state.tokens:,} tokens within one minute. Take smaller steps and read less at once.",
        )
