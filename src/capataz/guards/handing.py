"""Agents that wake each other: hand-offs between the runs of one root in which nothing in the world changes.

Every single run is short and looks healthy; the loop lies between them. So this guard is fed the events of the whole
lineage: the starts of its runs, what they did, and their ends. It also works on the log of one run, where it sees the
hand-offs of that run alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capataz.events.facts import ChildEnded, EffectChecked, Event, MessageReceived, RunStarted, ToolFinished
from capataz.guards.base import Signal
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.reading import SHOWN, Step
from capataz.guards.shared import Shared

RUNS = 512
PAIRS = 64


@dataclass(slots=True)
class Pair:
    """Two agents that hand work to each other, since the last change of the world."""

    handed: int = 0
    last: tuple[str, str] = ("", "")
    places: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Lineage:
    agents: dict[str, str] = field(default_factory=dict[str, str])
    """Run id to agent, for the latest runs."""
    runs: dict[str, int] = field(default_factory=dict[str, int])
    """Runs whose start was seen, so that their end is not counted as another hand-off."""
    agent: str = ""
    pairs: dict[tuple[str, str, str], Pair] = field(default_factory=dict[tuple[str, str, str], Pair])
    root: str = ""


class Handing(Shared[Lineage]):
    """Rounds between two agents of one root that change no effect. A round is one hand-off there and one back."""

    name = "handing"
    kinds = frozenset(("write", "exec", "message"))
    facts = frozenset((RunStarted, ChildEnded, ToolFinished, EffectChecked, MessageReceived))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Lineage:
        return Lineage()

    def see(self, state: Lineage, event: Event, step: Step | None) -> Signal | None:
        fact = event.fact
        if isinstance(fact, ToolFinished):
            if fact.state_changed and fact.child is None and step is not None and step.moved:
                state.pairs.clear()
        elif isinstance(fact, EffectChecked):
            if fact.phase == "after" and fact.answer == "yes":
                state.pairs.clear()
        elif isinstance(fact, RunStarted):
            return self._started(state, event, fact)
        elif isinstance(fact, ChildEnded):
            if fact.run not in state.runs:
                return self._handed(state, event, state.agent, fact.agent)
        elif fact.role == "user" if isinstance(fact, MessageReceived) else False:
            state.pairs.clear()
        return None

    def _started(self, state: Lineage, event: Event, fact: RunStarted) -> Signal | None:
        state.agents[fact.run] = fact.agent
        state.runs[fact.run] = event.seq
        if len(state.agents) > RUNS:
            del state.agents[next(iter(state.agents))]
            del state.runs[next(iter(state.runs))]
        state.root = fact.root or state.root or fact.run
        if fact.parent is None or fact.parent not in state.agents:
            state.agent = state.agent or fact.agent
            return None
        return self._handed(state, event, state.agents[fact.parent], fact.agent)

    def _handed(self, state: Lineage, event: Event, giver: str, taker: str) -> Signal | None:
        first, second = sorted((giver, taker))
        pair = state.pairs.setdefault((state.root, first, second), Pair())
        if len(state.pairs) > PAIRS:
            del state.pairs[next(iter(state.pairs))]
        pair.handed += 1
        pair.places.append(event.seq)
        if len(pair.places) > SHOWN:
            del pair.places[1]
        rounds, rest = divmod(pair.handed - 1, 2)
        limit = self.thresholds.handoffs
        if rest or (rounds != limit.nudge and rounds < limit.stop):
            return None
        return Signal(
            self.name,
            "handoff",
            f"handoff:{state.root}:{first}:{second}",
            tuple(pair.places),
            "stop" if rounds >= limit.stop else "nudge",
            f"{first} and {second} handed the work to each other {pair.handed} times ({rounds} rounds), "
            "and no effect changed since.",
            f"{first} and {second} have handed this work to and fro for {rounds} rounds and nothing has changed. Do "
            "the next step yourself, or say what blocks it, instead of handing it on.",
        )
