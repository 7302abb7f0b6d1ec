"""Talking instead of doing: a turn of an acting role that calls nothing, the same reply again, a reply that chants.

What the words claim is never looked at. A turn is told by what it did, a chant by its period.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capataz.events.facts import CheckEvaluated, Event, MessageReceived, ModelReplied, RunStarted
from capataz.guards.base import Signal
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.reading import Step, note
from capataz.guards.shared import Shared

_NOTHING_CALLED = (
    "You have not used any tool yet, so nothing has been done. Saying it does not do it. "
    "Call the tool that does the work now, or, after looking, say plainly why it should not be done."
)
_ONLY_LOOKED = (
    "You have only looked so far; what has to be done is not done. "
    "Call the tool that does it now, or say plainly why it should not be done."
)
_CHANT = "Your reply only repeated itself. Say once what you have to say, or call the tool that does the next step."


@dataclass(slots=True)
class Talk:
    acting: bool = False
    called: bool = False
    acted: bool = False
    reply: int = -1
    """Position of the latest reply, while it is one without calls."""
    text: int = 0
    same: int = 0
    places: list[int] = field(default_factory=list[int])


class Narrating(Shared[Talk]):
    """Turns without a call: of an acting role while nothing was called or done, or saying the same again."""

    name = "narrating"
    facts = frozenset((RunStarted, ModelReplied, CheckEvaluated, MessageReceived))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Talk:
        return Talk()

    def see(self, state: Talk, event: Event, step: Step | None) -> Signal | None:
        fact = event.fact
        if type(fact) is ModelReplied:
            return self._replied(state, event, fact)
        if isinstance(fact, RunStarted):
            state.acting = fact.role == "acting"
        elif isinstance(fact, MessageReceived):
            state.text = 0
        elif isinstance(fact, CheckEvaluated) and not fact.passed:
            return self._unmet(state, event, fact)
        return None

    def _replied(self, state: Talk, event: Event, fact: ModelReplied) -> Signal | None:
        if fact.purpose != "loop":
            return None
        if fact.calls:
            state.called, state.reply, state.text = True, -1, 0
            state.acted = state.acted or any(call.acting for call in fact.calls)
            return None
        if fact.stop == "pause":
            return None
        state.reply = event.seq
        text = hash(fact.text.strip())
        if text != state.text:
            state.text, state.same, state.places = text, 0, []
        state.same += 1
        note(state.places, event.seq)
        if state.acting and not state.called:
            words = "An acting role answered without calling anything, and nothing had been called before."
            return Signal(self.name, "narration", "narration", (event.seq,), "fail-turn", words, _NOTHING_CALLED)
        limit = self.thresholds.same_text
        if state.same != limit.nudge and state.same < limit.stop:
            return None
        return Signal(
            self.name,
            "narration",
            f"said:{state.places[0]}",
            tuple(state.places),
            "stop" if state.same >= limit.stop else "nudge",
            f"The same reply came {state.same} times in a row, without a call.",
            f"You have given the same reply {state.same} times. Do the next step, or say something that is new.",
            setting="same_text",
            count=state.same,
        )

    def _unmet(self, state: Talk, event: Event, fact: CheckEvaluated) -> Signal | None:
        if not state.acting or state.acted or not state.called or state.reply < 0:
            return None
        reply, state.reply = state.reply, -1
        words = f"An acting role stopped after only looking, and {fact.name} is not met."
        return Signal(self.name, "narration", "narration", (reply, event.seq), "fail-turn", words, _ONLY_LOOKED)


class Chanting(Shared[None]):
    """One reply that says the same passage again and again up to its end."""

    name = "chanting"
    facts = frozenset((ModelReplied,))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> None:
        return None

    def see(self, state: None, event: Event, step: Step | None) -> Signal | None:
        fact = event.fact
        if type(fact) is not ModelReplied or len(fact.text) < 100:
            return None
        times, unit = refrain(fact.text)
        if times < self.thresholds.chant:
            return None
        words = f"One reply of {len(fact.text)} characters says {unit.strip()[:60]!r} at least {times} times on end."
        return Signal(self.name, "narration", f"chant:{fact.turn}", (event.seq,), "fail-turn", words, _CHANT)


_LOOKED_AT = 4_000
_SEED = 24


def refrain(text: str) -> tuple[int, str]:
    """How often the last passage of a text stands there on end, and the passage. Rules and blank space do not count.

    >>> refrain("well " * 40)[0]
    40
    """
    tail = text.rstrip()[-_LOOKED_AT:]
    at = tail.rfind(tail[-_SEED:], 0, len(tail) - 1)
    period = len(tail) - _SEED - at
    if at < 0:
        return 1, ""
    unit = tail[-period:]
    if not any(letter.isalpha() for letter in unit):
        return 1, ""
    times = 1
    while tail[-(times + 1) * period : -times * period] == unit:
        times += 1
    return times + (tail[: -times * period].strip() == unit.strip()), unit
