"""Agents that wake each other: hand-offs between the runs of one root in which nothing in the world changes.

Every single run is short and looks healthy; the loop lies between them. So the hand-offs of a root are told from run
to run: each run begins with the tally of those before it and gives its own back when it ends. Fed the events of a
whole lineage, where the logs carry no tally, the guard counts the starts of its runs itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from capataz.events.facts import (
    ACTING,
    ChildEnded,
    EffectChecked,
    Event,
    HandedOver,
    MessageReceived,
    RunStarted,
    ToolFinished,
)
from capataz.guards.base import Signal
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.reading import SHOWN, Step
from capataz.guards.shared import Shared

RUNS = 512
PAIRS = 64


@dataclass(slots=True)
class Pair:
    """Two agents that hand work to each other, since the last change of the world."""

    tally: HandedOver
    elsewhere: bool = False
    """The model of another run was told: this one need not hear it again before it is stopped."""
    places: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Lineage:
    agents: dict[str, str] = field(default_factory=dict[str, str])
    """Run id to agent, for the latest runs whose start was seen: their end is not another hand-off."""
    agent: str = ""
    root: str = ""
    looks: frozenset[str] = frozenset()
    """Agents that are only asked: asking one of them again is no round."""
    confirmable: frozenset[str] = frozenset()
    pairs: dict[tuple[str, str], Pair] = field(default_factory=dict[tuple[str, str], Pair])


def handed_on(tally: Iterable[HandedOver], giver: str, taker: str, asks: bool = False) -> tuple[HandedOver, ...]:
    """The tally after one more hand-off, which stands last. To ask the same agent again (`asks`) is no hand-off.

    >>> [one.count for one in handed_on(handed_on((), "a", "b"), "b", "a")]
    [2]
    """
    pair = {giver, taker}
    others, before = list[HandedOver](), HandedOver(giver, taker, 0)
    for one in tally:
        if {one.giver, one.taker} == pair:
            before = one
        else:
            others.append(one)
    again = asks and before.count > 0 and before.giver == giver
    return (*others[1 - PAIRS :], replace(before, giver=giver, taker=taker, count=before.count + (not again)))


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
            if step is not None and step.moved and fact.child is None and _changes(state, fact):
                state.pairs.clear()
        elif isinstance(fact, EffectChecked):
            if fact.phase == "after" and fact.answer == "yes":
                state.pairs.clear()
        elif isinstance(fact, RunStarted):
            return self._started(state, event, fact)
        elif isinstance(fact, ChildEnded):
            if fact.handed is not None:
                return self._told(state, event, fact.handed)
            if fact.run not in state.agents:
                asks = fact.agent in state.looks
                return self._told(state, event, handed_on(tally(state), state.agent, fact.agent, asks))
        elif isinstance(fact, MessageReceived) and fact.role == "user":
            state.pairs.clear()
        return None

    def _started(self, state: Lineage, event: Event, fact: RunStarted) -> Signal | None:
        giver = None if fact.parent is None else state.agents.get(fact.parent)
        state.agents[fact.run] = fact.agent
        if len(state.agents) > RUNS:
            del state.agents[next(iter(state.agents))]
        state.root = fact.root or state.root or fact.run
        state.looks |= {tool.agent for tool in fact.tools if tool.agent and tool.kind not in ACTING}
        state.confirmable |= {tool.name for tool in fact.tools if tool.confirmable}
        if fact.handed is not None:
            return self._told(state, event, fact.handed)
        if giver is not None:
            return self._told(state, event, handed_on(tally(state), giver, fact.agent))
        state.agent = state.agent or fact.agent
        return None

    def _told(self, state: Lineage, event: Event, told: Sequence[HandedOver]) -> Signal | None:
        """Take a newer tally in, and say what is to be said of the hand-offs it adds."""
        held, state.pairs, found = state.pairs, {}, list[Signal]()
        for one in told:
            first, second = sorted((one.giver, one.taker))
            pair = held.get((first, second)) or Pair(replace(one, count=0, told=False))
            new = one.count > pair.tally.count
            pair.elsewhere |= one.told and not pair.tally.told
            pair.tally, state.pairs[first, second] = one, pair
            if new:
                pair.places = [*pair.places[:1], *pair.places[1:][2 - SHOWN :], event.seq]
                if (signal := self._weigh(state, pair)) is not None:
                    found.append(signal)
        return max(found, key=lambda signal: (signal.urgent, signal.advice == "stop"), default=None)

    def _weigh(self, state: Lineage, pair: Pair) -> Signal | None:
        count, (first, second) = pair.tally.count, sorted((pair.tally.giver, pair.tally.taker))
        rounds, rest = divmod(count - 1, 2)
        limit = self.thresholds.handoffs
        if rest or (rounds != limit.nudge and rounds < limit.stop):
            return None
        pair.tally = replace(pair.tally, told=True)
        return Signal(
            self.name,
            "handoff",
            f"handoff:{state.root}:{first}:{second}",
            tuple(pair.places),
            "stop" if rounds >= limit.stop else "nudge",
            f"{first} and {second} handed the work to each other {count} times ({rounds} rounds), "
            "and no effect changed since.",
            f"{first} and {second} have handed this work to and fro for {rounds} rounds and nothing has changed. Do "
            "the next step yourself, or say what blocks it, instead of handing it on.",
            urgent=rounds >= limit.stop and pair.elsewhere,
            setting="handoffs",
            count=rounds,
        )


def tally(state: Lineage) -> tuple[HandedOver, ...]:
    """What is to be told to a run that is begun now, or to the one that began this one."""
    return tuple(pair.tally for pair in state.pairs.values())


def _changes(state: Lineage, fact: ToolFinished) -> bool:
    """Whether an act that led somewhere new has changed an effect: what has a read-back is judged by that alone."""
    if fact.call.tool in state.confirmable:
        return False
    return fact.state_changed is True or (fact.state_changed is None and fact.call.kind == "write")
