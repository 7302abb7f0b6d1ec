"""The picture of a run: when the model was asked, when tools ran, and where the harness decided something.

A picture has at most a few hundred shapes, however long the run: longer runs are drawn in slices of equal length, each
in the colour of the worst that happened in it. Everything drawn is also said in words on the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from capataz.lens.trace.fold import CallView, Trace, TurnView
from capataz.lens.words import Tone, duration, line

WIDTH, LEFT = 1000.0, 70.0
MOST_SHAPES = 260
_WORST: tuple[Tone, ...] = ("bad", "warn", "good", "plain", "quiet")
_PLAIN: Tone = "plain"
_FAILED: Tone = "bad"
_QUIET: Tone = "quiet"
_STATES: dict[str, Tone] = {"failed": "bad", "in-doubt": "bad", "refused": "warn", "done": "plain"}


@dataclass(frozen=True, slots=True)
class Shape:
    """One box of the picture. `turn` is the index of the turn it leads to."""

    lane: int
    x: float
    width: float
    tone: Tone
    turn: int
    words: str
    share: float = 1.0
    """How much of its height is drawn, from below."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes in three lanes (model, tools, harness), and the marks under them."""

    shapes: tuple[Shape, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    sliced: int = 0
    """How many slices stand for the run; 0 where each thing is drawn by itself."""
    words: str = ""


@dataclass(slots=True)
class _Scale:
    start: float
    span: float
    even: bool
    turns: int

    def x(self, at: float, turn: int) -> float:
        """Where a time stands. A record without real times is drawn turn by turn."""
        share = turn / max(self.turns, 1) if self.even else (at - self.start) / self.span
        return LEFT + max(0.0, min(1.0, share)) * (WIDTH - LEFT - 4)

    def width(self, seconds: float) -> float:
        share = 0.6 / max(self.turns, 1) if self.even else seconds / self.span
        return max(2.5, min(share, 1.0) * (WIDTH - LEFT - 4))


def picture(tree: Trace) -> Picture:
    """The picture of a tree."""
    if not tree.turns:
        return Picture()
    span = tree.now - tree.started_at
    scale = _Scale(tree.started_at, max(span, 1e-6), span <= 0, len(tree.turns))
    sliced = MOST_SHAPES // 3 if len(tree.turns) + len(tree.calls) > MOST_SHAPES else 0
    if sliced:
        shapes = _slices(scale, tree, sliced)
    else:
        shapes = [shape for index, turn in enumerate(tree.turns) for shape in _of_turn(scale, index, turn)]
    return Picture(tuple(shapes), _ticks(scale), sliced, _words(tree, sliced))


def tone_of_turn(turn: TurnView) -> Tone:
    """The worst that happened in a turn."""
    tones: set[Tone] = {line(mark.fact).tone for mark in turn.marks if type(mark.fact).__name__ == "VerdictGiven"}
    tones |= {_STATES.get(call.state, "quiet") for call in turn.calls}
    if turn.waits:
        tones.add("warn")
    if turn.reply is None and turn.failures:
        tones.add("bad")
    if any(call.confirmed for call in turn.calls):
        tones.add("good")
    return _worst(tones)


def _worst(tones: set[Tone]) -> Tone:
    for tone in _WORST:
        if tone in tones:
            return tone
    return "plain"


def _of_turn(scale: _Scale, index: int, turn: TurnView) -> Iterator[Shape]:
    number = turn.number
    if turn.reply is not None:
        seconds, tone = turn.reply.seconds, _PLAIN
        words = f"turn {number}: the model, {duration(seconds)}"
    else:
        seconds, tone = 0.0, _FAILED if turn.failures else _QUIET
        words = f"turn {number}: no reply"
    yield Shape(0, scale.x(turn.started_at, index), scale.width(seconds), tone, index, words)
    for call in turn.calls:
        yield _call(scale, index, call)
    for mark in turn.marks:
        told = line(mark.fact)
        if told.tone in ("bad", "warn") or type(mark.fact).__name__ in _DECISIONS:
            yield Shape(2, scale.x(mark.at, index), 2.5, told.tone, index, f"turn {number}: {told.head}")


_DECISIONS = frozenset({"VerdictGiven", "CheckEvaluated", "RunEnded", "HistoryCompressed", "RunResumed"})


def _call(scale: _Scale, index: int, call: CallView) -> Shape:
    at = call.started_at if call.started_at is not None else scale.start + scale.span * index / max(scale.turns, 1)
    tone: Tone = "good" if call.confirmed else _STATES.get(call.state, "quiet")
    words = f"turn {call.call.turn}: {call.call.tool}, {call.state}"
    return Shape(1, scale.x(at, index), scale.width(call.seconds or 0.0), tone, index, words)


@dataclass(slots=True)
class _Slice:
    tones: Counter[Tone] = field(default_factory=Counter[Tone])
    first: int = -1


def _slices(scale: _Scale, tree: Trace, many: int) -> list[Shape]:
    """The same in slices of equal length."""
    wide = (WIDTH - LEFT - 4) / many
    found: dict[tuple[int, int], _Slice] = {}

    def add(lane: int, at: float, tone: Tone, index: int) -> None:
        place = min(many - 1, int((scale.x(at, index) - LEFT) / wide))
        kept = found.get((lane, place))
        if kept is None:
            kept = found[lane, place] = _Slice(first=index)
        kept.tones[tone] += 1

    for index, turn in enumerate(tree.turns):
        add(0, turn.started_at, "plain" if turn.reply is not None else "bad" if turn.failures else "quiet", index)
        for call in turn.calls:
            at = call.started_at if call.started_at is not None else turn.started_at
            add(1, at, "good" if call.confirmed else _STATES.get(call.state, "quiet"), index)
        for mark in turn.marks:
            tone = line(mark.fact).tone
            if tone in ("bad", "warn") or type(mark.fact).__name__ in _DECISIONS:
                add(2, mark.at, tone, index)
    return [
        shape
        for (lane, place), kept in sorted(found.items())
        for shape in _of_slice(lane, LEFT + place * wide, wide - 0.6, kept)
    ]


def _of_slice(lane: int, x: float, width: float, kept: _Slice) -> Iterator[Shape]:
    """A slice: its ground, and over it how much of it went wrong."""
    count, worst = sum(kept.tones.values()), _worst(set(kept.tones))
    name = ("model calls", "tool calls", "decisions")[lane]
    told = ", ".join(f"{number} {_NAMES[tone]}" for tone, number in kept.tones.items() if tone in _NAMES)
    words = f"{count} {name}{f', {told}' if told else ''}"
    if worst in ("bad", "warn") and lane < 2:
        yield Shape(lane, x, width, "good" if kept.tones["good"] else "plain", kept.first, words)
        yield Shape(lane, x, width, worst, kept.first, words, max(0.15, kept.tones[worst] / count))
    else:
        yield Shape(lane, x, width, worst, kept.first, words)


_NAMES: dict[Tone, str] = {"bad": "failed", "warn": "refused or waited", "good": "confirmed"}


def _ticks(scale: _Scale) -> tuple[tuple[float, str], ...]:
    if scale.even:
        return ()
    room = WIDTH - LEFT - 4
    return tuple((LEFT + share * room, duration(scale.span * share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0))


def _words(tree: Trace, sliced: int) -> str:
    calls = sum(len(turn.calls) for turn in tree.turns)
    verdicts = sum(len(turn.verdicts) for turn in tree.turns)
    how = f", drawn in {sliced} slices" if sliced else ""
    return (
        f"Timeline of {len(tree.turns)} turns with {calls} tool calls and {verdicts} verdicts over "
        f"{duration(tree.now - tree.started_at)}{how}. The same is told turn by turn below."
    )
