"""Searching for what is not there: one empty answer after the other, in other words each time.

Empty is told by the shape of the answer. Calls of other kinds in between do not hide the streak; a search that finds
something ends it. Searches of one reply count once: a batch is one idea. Where the tool declares a target, looking in
another place is another question, and only rewordings of one question are counted together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from capataz.events.facts import JSON, Event
from capataz.guards.base import Signal
from capataz.guards.canon import meaningful
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.reading import Step, note
from capataz.guards.shape import is_empty
from capataz.guards.shared import Shared
from capataz.guards.wording import ordinal

HUNTS = 16
WAYS = 8
LONGEST = 200

_FIGURES = re.compile(r"\d+")
_NAME = re.compile(r"@|/")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_TERM = re.compile(r"[^\W_]{2,}")


@dataclass(slots=True)
class Hunt:
    """Empty searches for one thing."""

    terms: set[str]
    squashed: str
    number: int
    named: bool
    """Whether it looks for a name (address, path): words in common mean nothing there."""
    count: int = 0
    turn: int = -1
    ways: set[int] = field(default_factory=set[int])
    """Sets of arguments it was asked through."""
    tools: set[str] = field(default_factory=set[str])
    last: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    places: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Hunts:
    open: list[Hunt] = field(default_factory=list[Hunt])
    chapter: int = 0
    started: int = 0


class Searching(Shared[Hunts]):
    """Searches that find nothing, counted over turns, tools and unrelated calls."""

    name = "searching"
    kinds = frozenset(("search",))

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds

    def begin(self) -> Hunts:
        return Hunts()

    def see(self, state: Hunts, event: Event, step: Step | None) -> Signal | None:
        if step is None or step.kind != "search" or step.error or step.free or step.shell:
            return None
        if step.chapter != state.chapter:
            state.chapter = step.chapter
            state.open.clear()
        if not is_empty(step.outcome):
            state.open.clear()
            return None
        hunt = _hunt(state, step)
        if not _counts(hunt, step):
            return None
        hunt.turn = step.call.turn
        hunt.count += 1
        note(hunt.places, step.seq)
        limit = self.thresholds.empty_search
        if hunt.count != limit.nudge and hunt.count < limit.stop:
            return None
        return Signal(
            self.name,
            "empty-search",
            f"empty:{hunt.number}",
            tuple(hunt.places),
            "stop" if hunt.count >= limit.stop else "nudge",
            f"{step.tool} found nothing for the {ordinal(hunt.count)} time in a row.",
            f"You have searched {hunt.count} times in a row and found nothing. If no sensible rewording is left, do "
            "not search again: tell the user that nothing was found, and what you searched for.",
            setting="empty_search",
            count=hunt.count,
        )


def _hunt(state: Hunts, step: Step) -> Hunt:
    """The open hunt this search belongs to, or a new one."""
    target = step.call.target
    terms, squashed = _terms(target) if target is not None else (_asked(step), "")
    named = target is not None and _NAME.search(target) is not None
    for hunt in state.open:
        if target is None or _goes_on(hunt, step, terms) or _alike(hunt, terms, squashed, named):
            hunt.terms |= terms
            return hunt
    state.started += 1
    hunt = Hunt(terms, squashed, state.started, named)
    state.open.append(hunt)
    if len(state.open) > HUNTS:
        del state.open[0]
    return hunt


def _asked(step: Step) -> set[str]:
    """The words of a search that declares no target."""
    texts = (value for value in meaningful(step.call.arguments).values() if isinstance(value, str))
    return set[str]().union(*(_terms(text)[0] for text in texts))


def _goes_on(hunt: Hunt, step: Step, terms: set[str]) -> bool:
    """Whether a search with a target goes on with a hunt that has none: the same tool, or a word in common."""
    return not hunt.squashed and (step.tool in hunt.tools or not hunt.terms or not hunt.terms.isdisjoint(terms))


def _counts(hunt: Hunt, step: Step) -> bool:
    """Whether this is the same question again: not in the same batch, through other filters, or a scan going on."""
    arguments = meaningful(step.call.arguments)
    previous, hunt.last = hunt.last, arguments
    way = hash((step.tool, *sorted(arguments)))
    other_way = way not in hunt.ways and step.tool in hunt.tools
    if len(hunt.tools) < WAYS:
        hunt.tools.add(step.tool)
    if len(hunt.ways) < WAYS:
        hunt.ways.add(way)
    return hunt.turn != step.call.turn and not other_way and not scans(previous, arguments)


def scans(previous: Mapping[str, JSON], now: Mapping[str, JSON]) -> bool:
    """Whether a search goes on through a series: the same but for figures, and each of those has grown.

    >>> scans({"q": "x", "day": "2024-01-09"}, {"q": "x", "day": "2024-01-10"}), scans({"top": 5}, {"top": 4})
    (True, False)
    """
    if previous.keys() != now.keys():
        return False
    moved = 0
    for key, value in now.items():
        before = previous[key]
        if before == value:
            continue
        grown = _grown(before, value)
        if not grown:
            return False
        moved += 1
    return moved > 0


def _grown(before: JSON, value: JSON) -> bool:
    if isinstance(before, str) and isinstance(value, str):
        one, other = _FIGURES.findall(before[:LONGEST]), _FIGURES.findall(value[:LONGEST])
        same_frame = _FIGURES.sub("#", before[:LONGEST]) == _FIGURES.sub("#", value[:LONGEST])
        return same_frame and [int(figure) for figure in other] > [int(figure) for figure in one]
    if isinstance(before, int | float) and isinstance(value, int | float) and not isinstance(value, bool):
        return value > before
    return False


def _terms(target: str) -> tuple[set[str], str]:
    words = [word.lower() for word in _TERM.findall(_CAMEL.sub(" ", target[:LONGEST]))]
    return set(words), "".join(words)


def _alike(hunt: Hunt, terms: set[str], squashed: str, named: bool) -> bool:
    """Whether a target is a rewording of what this hunt has looked for; other numbers and names are other things."""
    if not hunt.squashed:
        return False
    if hunt.squashed == squashed:
        return True
    if hunt.named or named or any(term.isdigit() for term in terms ^ hunt.terms):
        return False
    return len(terms & hunt.terms) * 2 >= max(1, min(len(terms), len(hunt.terms)))
