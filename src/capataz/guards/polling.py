"""Waiting for something that does not move: a poll behind a moving clock.

Waiting is work, so a poll has a time and not a count. It is dead when the same look brought the same answer at least
twelve times and longer than the tool says is usual. A record without times knows nothing of that: there the looks are
counted, and more of them are borne than any good run of the records has made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capataz.events.facts import Event
from capataz.guards.base import Advice, Signal
from capataz.guards.limits import DEFAULTS, POLL_CUT, Thresholds
from capataz.guards.reading import Step, note, trim
from capataz.guards.shared import Shared

WATCHED = 64


@dataclass(slots=True)
class Look:
    """One thing that is waited for."""

    pair: int
    """The call with its answer."""
    first: float
    """When it was first seen as it is."""
    count: int = 0
    told: int = 0
    """Number of unchanged looks at which the model was told; 0 before."""
    places: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Looks:
    open: dict[int, Look] = field(default_factory=dict[int, Look])
    chapter: int = 0


class Polling(Shared[Looks]):
    """Polls of one thing whose answer, clocks aside, does not change."""

    name = "polling"
    kinds = frozenset(("poll",))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Looks:
        return Looks()

    def see(self, state: Looks, event: Event, step: Step | None) -> Signal | None:
        if step is None or step.kind != "poll" or step.free or step.error:
            return None
        if step.chapter != state.chapter:
            state.chapter = step.chapter
            state.open.clear()
        look = state.open.get(step.key)
        if look is None or look.pair != step.pair:
            look = state.open[step.key] = Look(step.pair, step.event.at)
            trim(state.open, WATCHED)
        look.count += 1
        note(look.places, step.seq)
        advice = self._advice(look, step)
        if advice is None:
            return None
        waited = step.event.at - look.first
        span = f" over {waited:,.0f} seconds" if waited > 0 else ""
        return Signal(
            self.name,
            "identical",
            f"poll:{step.name}",
            tuple(look.places),
            advice,
            f"{step.tool} was asked {look.count} times{span}, and nothing moved but the clock.",
            f"You have asked {step.tool} {look.count} times{span} and nothing has moved. Do not go on asking: find out "
            "what holds it up, or say that it does not come to an end.",
            setting=self._setting(step.tool) if waited > 0 else "poll_looks_blind",
            count=int(waited) if waited > 0 else look.count,
        )

    def _setting(self, tool: str) -> str:
        own = self.thresholds.tool(tool).poll_budget
        return f"tools.{tool}.poll_budget" if own else "poll_budget"

    def _advice(self, look: Look, step: Step) -> Advice | None:
        limits = self.thresholds
        if look.count < limits.poll_looks:
            return None
        waited = step.event.at - look.first
        budget = limits.patience(step.tool)
        blind = waited <= 0
        if not blind and waited < budget:
            return None
        if not look.told:
            look.told = look.count
            return "nudge"
        if blind:
            return "stop" if look.count >= limits.poll_looks_blind else None
        over = waited >= POLL_CUT * budget and look.count >= look.told + limits.poll_patience
        return "stop" if over else None
