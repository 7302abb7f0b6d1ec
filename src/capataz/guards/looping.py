"""Loops of calls: the same one again, a ring of several, and steps that bring nothing new while nothing changes.

A call is judged together with what came back and with what it did to the world. A queue that hands out another job,
a page that moves on and a test after an edit repeat their arguments, and are no loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capataz.events.facts import Event
from capataz.guards.base import Advice, Signal
from capataz.guards.canon import digest
from capataz.guards.limits import DEFAULTS, POLL_CUT, Limit, Thresholds
from capataz.guards.reading import SHOWN, Step, trim
from capataz.guards.shared import Shared
from capataz.guards.wording import named, ordinal

LONGEST_CYCLE = 8


WATCHED = 256
"""Calls that came again and are remembered with what came between."""


@dataclass(slots=True)
class Visit:
    """When a call last gave this result, and whether every way back to it so far led over something new."""

    number: int
    shown: int
    fruitful: bool = True


@dataclass(slots=True)
class Visits:
    shown: int = 0
    """Steps that were no news, or failed: what lies between two visits and was not shown is new."""
    open: dict[int, Visit] = field(default_factory=dict[int, Visit])


class Repeating(Shared[Visits]):
    """The same call with the same result: in a row, or again and again while nothing changes.

    Reads count too, later than acts; errors in a row are the business of `Failing`, polls of `Polling`. A list that is
    looked up again before each of its items is a way to something new, and is borne as long as a poll.
    """

    name = "repeating"
    calm = True

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Visits:
        return Visits()

    def see(self, state: Visits, event: Event, step: Step | None) -> Signal | None:
        if step is None:
            return None
        state.shown += 1
        fruitful = step.seen > 1 and _is_fruitful(state, step)
        if (step.run == 1 and step.seen < 3) or step.free or step.kind == "poll":
            return None
        if self.thresholds.tool(step.tool).free:
            return None
        if step.seen > step.run and not step.waits:
            return self._again(step, fruitful)
        return None if step.error else self._in_a_row(step)

    def _limit(self, step: Step) -> tuple[str, Limit]:
        if (own := self.thresholds.tool(step.tool).repeat) is not None:
            return f"tools.{step.tool}.repeat", own
        if step.kind == "write" and step.changed is False:
            return "unchanged_write", self.thresholds.unchanged_write
        return f"repeats.{step.kind}", self.thresholds.repeats["read" if step.kind == "poll" else step.kind]

    def _in_a_row(self, step: Step) -> Signal | None:
        setting, limit = self._limit(step)
        urgent = step.reader.batch > self.thresholds.batch
        if step.run != limit.nudge and step.run < limit.stop and not urgent:
            return None
        advice: Advice = "stop" if urgent or step.run >= limit.stop else "nudge"
        return Signal(
            self.name,
            "identical",
            f"identical:{step.name}",
            tuple(step.before[1:][-step.run :]),
            advice,
            f"{named(step)} was called {step.run} times in a row with the same result.",
            f"You have called {step.tool} {step.run} times in a row with the same arguments and got the same result. "
            "Calling it again will not change that. Use what you have, try another way, or say what blocks you.",
            urgent,
            setting,
            step.run,
        )

    def _again(self, step: Step, fruitful: bool) -> Signal | None:
        looks = self.thresholds.poll_looks
        patient = step.patient or fruitful
        limit = Limit(looks, looks + 1) if patient else self.thresholds.revisits
        if step.seen != limit.nudge and step.seen < limit.stop:
            return None
        return Signal(
            self.name,
            "no-progress",
            f"again:{step.name}",
            tuple(step.before[1:]),
            "stop" if step.seen >= limit.stop else "nudge",
            f"{named(step)} gave the same result for the {ordinal(step.seen)} time, and nothing changed in between.",
            f"This is the {ordinal(step.seen)} time that {step.tool} gave you this very result, and you changed "
            "nothing in between. Change something first, or go on with what you know.",
            setting="" if patient else "revisits",
            count=step.seen,
        )


def _is_fruitful(state: Visits, step: Step) -> bool:
    """Whether a look is a station on the way to ever new things: between all visits so far something new was seen."""
    visit = state.open.get(step.pair)
    number, shown = step.reader.number, state.shown
    if visit is None or step.seen == 2:
        state.open[step.pair] = Visit(number, shown)
        trim(state.open, WATCHED)
        return False
    visit.fruitful = visit.fruitful and number - visit.number > shown - visit.shown
    visit.number, visit.shown = number, shown
    return visit.fruitful and not step.acting and not step.error


@dataclass(slots=True)
class Ring:
    """What came lately, and how long it has matched itself at each distance."""

    pairs: list[int] = field(default_factory=list[int])
    steps: list[Step] = field(default_factory=list[Step])
    """Those of `pairs`: a fixed number of the latest, so that their results may be kept."""
    matched: list[int] = field(default_factory=lambda: [0] * (LONGEST_CYCLE + 1))
    since: list[float] = field(default_factory=lambda: [0.0] * (LONGEST_CYCLE + 1))
    """When each of these began to match."""
    dirty: bool = False
    stale: int = 0
    stale_places: list[int] = field(default_factory=list[int])
    chapter: int = 0
    page: int = 0
    told: dict[int, str] = field(default_factory=dict[int, str])
    """Steps of rings the model was told of since the world last moved, with the ring's identity."""
    told_run: int = 0
    told_size: int = 0


class Cycling(Shared[Ring]):
    """A ring of two to eight steps that comes round with the same results, or any mix of steps already taken.

    A ring with a poll, or with a look and a wait, is waiting: it needs twelve laps, and as long as its polls may take.
    """

    name = "cycling"

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Ring:
        return Ring()

    def see(self, state: Ring, event: Event, step: Step | None) -> Signal | None:
        if step is None or step.free:
            return None
        if step.reader.page != state.page:
            _turn_page(state, step)
        found = self._match(state, step)
        if step.plain and not state.stale:
            return found
        return found or self._weigh(state, step)

    def _match(self, state: Ring, step: Step) -> Signal | None:
        pairs = state.pairs
        lap = 0
        if not step.first and step.pair in pairs:
            state.dirty = True
            matched = state.matched
            size = len(pairs)
            for distance in range(2, LONGEST_CYCLE + 1):
                if distance <= size and pairs[-distance] == step.pair:
                    if not matched[distance]:
                        state.since[distance] = step.event.at
                    matched[distance] += 1
                    if not lap and matched[distance] >= min(distance, self.thresholds.cycle_steps):
                        lap = distance
                else:
                    matched[distance] = 0
        elif state.dirty:
            state.dirty = False
            state.matched = [0] * (LONGEST_CYCLE + 1)
        pairs.append(step.pair)
        state.steps.append(step)
        if len(pairs) > 3 * LONGEST_CYCLE:
            del pairs[:LONGEST_CYCLE]
            del state.steps[:LONGEST_CYCLE]
        if step.moved:
            state.told.clear()
            state.told_run = 0
        if lap and len(set(pairs[-lap:])) > 1:
            return self._came_round(state, step, lap)
        return self._resumed(state, step) if state.told else None

    def _came_round(self, state: Ring, step: Step, lap: int) -> Signal | None:
        matched = state.matched[lap]
        needed = min(lap, self.thresholds.cycle_steps)
        members = state.steps[-lap:]
        known, over = state.told.get(step.pair), matched > needed
        if _is_waiting(members):
            needed = (self.thresholds.poll_looks - 1) * lap
            budget = self._budget(members, step.event.at - state.since[lap])
            over = matched > needed and budget >= POLL_CUT
            if matched < needed or budget < 1 or (known and not over):
                return None
        ring = sorted(set(state.pairs[-lap:]))
        identity = known or f"cycle:{_ring_name(members)}"
        for pair in ring:
            state.told[pair] = identity
        trim(state.told, 64)
        state.told_size = lap
        tools = ", ".join(one.tool for one in members)
        advice: Advice = "stop" if over else "nudge"
        laps = (matched + lap) / lap
        return Signal(
            self.name,
            "alternating" if lap == 2 else "cycle-n",
            identity,
            tuple(one.seq for one in state.steps[-2 * lap :]),
            advice,
            f"The same {lap} calls ({tools}) came round {laps:.1f} times with the same results.",
            f"You are going round in a ring of {lap} calls ({tools}); each gave the same result as the last time. "
            "Another lap will bring nothing new. Break out: try another way, or say what blocks you.",
        )

    def _budget(self, members: list[Step], waited: float) -> float:
        """How often the time of the polls in this ring has passed; often where there is no poll, or are no times."""
        budgets = [self.thresholds.patience(one.tool) for one in members if one.kind == "poll"]
        return waited / max(budgets) if budgets and waited > 0 else 2.0

    def _resumed(self, state: Ring, step: Step) -> Signal | None:
        """A ring the model was told of is taken up again: one lap is enough."""
        identity = state.told.get(step.pair)
        if identity is None:
            state.told_run = 0
            return None
        state.told_run += 1
        if state.told_run < max(state.told_size, 2):
            return None
        return Signal(
            self.name,
            "alternating" if state.told_size == 2 else "cycle-n",
            identity,
            tuple(one.seq for one in state.steps[-state.told_run :]),
            "stop",
            f"A ring of {state.told_size} calls was taken up again after the model was told of it.",
            "You are in the same ring of calls again. Do something else, or say what blocks you.",
        )

    def _weigh(self, state: Ring, step: Step) -> Signal | None:
        """Steps that repeat something earlier weigh one each, new ones take one off; a change of the world all."""
        if step.moved:
            state.stale = 0
        if step.new:
            if state.stale:
                state.stale -= 1
            return None
        if step.seen == 1 or step.run > 1 or step.patient or step.waits or step.kind == "poll":
            return None
        if not state.stale:
            state.stale_places = []
        state.stale += 1
        state.stale_places.append(step.seq)
        if len(state.stale_places) > SHOWN:
            del state.stale_places[0]
        limit = self.thresholds.stale
        if state.stale < limit.nudge:
            return None
        return Signal(
            self.name,
            "no-progress",
            f"stale:{step.epoch}.{step.chapter}",
            tuple(state.stale_places),
            "stop" if state.stale >= limit.stop else "nudge",
            f"{state.stale} calls brought back what was already known, and nothing changed in between.",
            f"Your last {state.stale} calls only brought back what you already had, and you changed nothing in "
            "between. Use what you know, change something, or say what blocks you.",
            setting="stale",
            count=state.stale,
        )


def _turn_page(state: Ring, step: Step) -> None:
    """Somebody spoke or the context was compressed: what came before is forgiven, but a ring that was told of is not,
    unless it was a person who spoke.
    """
    state.page, state.stale, state.told_run = step.reader.page, 0, 0
    state.pairs.clear()
    state.steps.clear()
    state.matched = [0] * (LONGEST_CYCLE + 1)
    if step.chapter != state.chapter:
        state.chapter = step.chapter
        state.told.clear()


def _is_waiting(members: list[Step]) -> bool:
    """A ring with a poll in it, or with a look between two waits."""
    waits = [one.waits for one in members]
    return any(one.kind == "poll" for one in members) or (any(waits) and not all(waits))


def _ring_name(members: list[Step]) -> str:
    """The same wherever one enters the ring, and in every replay."""
    return digest("".join(sorted(one.name for one in members)).encode())
