"""What the built-in guards read off an event: computed once, shared by all of them.

A finished call becomes a `Step`: which call it was, what came back, whether it failed, and whether it was news. The
`Reader` also keeps what news means: the world has moved when an act leads somewhere new. A state that was there before
is no progress, however loudly a tool says that it changed something.

Nearly every call of a healthy run is one that was never made before, and for such a call nobody needs to know what
came back. So the result of a new call is laid aside as it is, and only cleaned of noise when the same call is made
again. At most `LAID_ASIDE` short results wait so; everything else kept here is hashes and positions, with a ceiling.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TypeVar

import orjson

from capataz.events.facts import (
    JSON,
    Call,
    Event,
    Fact,
    HistoryCompressed,
    Kind,
    MessageReceived,
    ModelReplied,
    RunEnded,
    RunStarted,
    ToolFinished,
    ToolRefused,
)
from capataz.guards.canon import argument_bytes, digest, error_words, result_bytes

MEMORY = 2_048
"""Distinct steps remembered since the world last moved, and distinct acts over the whole run."""
LAID_ASIDE = 128
"""Results of new calls that wait for the call to be repeated."""
SHORT = 1_024
"""Characters of a result that may be laid aside; of a longer one only the hash is kept, from the start."""
RESULTS = 64
"""Different results remembered of one call."""
SHOWN = 8
"""Positions kept as proof for one thing that repeats: the first and the latest."""

_NO_WORDS: frozenset[str] = frozenset()
_UNKNOWN_TOOL = frozenset(("unknown", "tool"))
_WAITING = re.compile(r"(?:^|[_\-.])(?:sleep|wait|pause|delay|idle)(?:$|[_\-.])", re.IGNORECASE)
_SHELL = re.compile(r"(?:^|[_\-.])(?:bash|shell|sh|zsh|terminal|console|powershell|cmd)(?:$|[_\-.])", re.IGNORECASE)
_SLEEPS = re.compile(rb'":"(?:sleep|timeout|wait) \d')
_LOOKING = frozenset(("read", "search", "poll"))

CALLS: frozenset[type[Fact]] = frozenset((ToolFinished, ToolRefused))
READ: frozenset[type[Fact]] = CALLS | {MessageReceived, ModelReplied, RunStarted, HistoryCompressed, RunEnded}
"""Facts the reader learns from."""
HELD = 256
"""Calls of one reply that are held back to be read in their order."""

T = TypeVar("T")


def trim(memory: dict[int, T], ceiling: int = MEMORY) -> None:
    """Forget the older half once there is too much: O(1) amortised."""
    if len(memory) > ceiling:
        for key in list(islice(memory, ceiling // 2)):
            del memory[key]


@dataclass(slots=True)
class Step:
    """One finished (or refused) call, read. `key` names the call, `pair` the call together with what came back.

    The hashes hold within one process; `name` is the same everywhere. `target` is 0 where the call names none.
    `changed` is what the tool says of the world (an error that says nothing changed nothing). `new` says that this
    call never had this result since the world last moved, `seen` how often it had, this time included, and `before`
    where (first and latest positions). `epoch` counts how often the world moved before this step, `chapter` how
    often a person spoke, `page` how often anybody did or the context was compressed. `number` counts steps; `run` is
    how many in a row were this very pair, `batch` how many of those came in this turn. `free` is set where repeating
    is the task, `waits` where the call only lets time pass, `patient` where the step before waited or polled, `shell`
    where a tool that acts was used to look (a silent command is no empty search), `moved` where this step itself moved
    the world, `plain` where it succeeded and brought news.
    """

    event: Event
    call: Call
    tool: str
    kind: Kind
    acting: bool
    seq: int
    at: float
    turn: int
    arguments: bytes
    outcome: JSON
    key: int
    pair: int
    target: int
    error: bool
    words: frozenset[str]
    changed: bool | None
    moved: bool
    new: bool
    seen: int
    before: list[int]
    epoch: int
    chapter: int
    page: int
    free: bool
    waits: bool
    shell: bool
    patient: bool
    number: int
    run: int
    batch: int
    plain: bool

    @property
    def name(self) -> str:
        return digest(self.tool.encode() + b"\0" + self.arguments)

    @property
    def result(self) -> int:
        """Hash of what came back, without its noise. Worked out when asked: most steps are never asked."""
        return hash((result_bytes(self.outcome, self.kind), self.error))


@dataclass(slots=True)
class _Answers:
    """What came back of one call so far: laid aside as it was, or known by hash."""

    raw: str | bytes | None
    kind: Kind
    error: bool
    known: dict[int, int] = field(default_factory=dict[int, int])
    """Hash of the result to the name of the pair, once they are told apart."""

    def pair(self, key: int, result: int) -> int:
        if self.raw is not None:
            first: JSON = self.raw if isinstance(self.raw, str) else orjson.loads(self.raw)
            self.known[hash((result_bytes(first, self.kind), self.error))] = hash((key, 0))
            self.raw = None
        pair = self.known.get(result)
        if pair is None:
            pair = self.known[result] = hash((key, result)) if self.known else hash((key, 0))
            trim(self.known, RESULTS)
        return pair


@dataclass(slots=True)
class Reader:
    """Turns events into steps. One per watched run."""

    epoch: int = 0
    chapter: int = 0
    page: int = 0
    free: frozenset[str] = frozenset()
    shells: frozenset[str] = frozenset()
    _answers: dict[int, _Answers] = field(default_factory=dict[int, _Answers])
    _aside: deque[int] = field(default_factory=deque[int])
    _seen: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    _acts: dict[int, None] = field(default_factory=dict[int, None])
    _asked: int = 0
    """Calls of the latest reply that have not been read."""
    _held: list[Event] = field(default_factory=list[Event])
    _number: int = 0
    _pair: int = 0
    _run: int = 0
    _batch: int = 0
    _turn: int = -1
    _patient: bool = False

    def read(self, event: Event) -> Iterable[Step]:
        """The steps that can be read now, to be gone through to the end. Calls of one reply are read in the order they were asked for, whatever the
        order they ended in, once all have ended or the run goes on without them.
        """
        fact = event.fact
        if isinstance(fact, ToolFinished | ToolRefused):
            if self._asked < 2:
                return self._steps(event)
            self._held.append(event)
            return self._release() if len(self._held) >= self._asked or len(self._held) >= HELD else ()
        if self._held:
            return self._release_before(event)
        self._learn(fact)
        return ()

    def _release_before(self, event: Event) -> Iterator[Step]:
        yield from self._release()
        self._learn(event.fact)

    def _learn(self, fact: Fact) -> None:
        if isinstance(fact, ModelReplied):
            self._asked = len(fact.calls)
        elif isinstance(fact, MessageReceived):
            self._turn_page(person=fact.role == "user")
        elif isinstance(fact, HistoryCompressed):
            self._turn_page(person=False)
        elif isinstance(fact, RunStarted):
            self.free = frozenset(tool.name for tool in fact.tools if tool.repeatable and tool.kind in _LOOKING)
            self.shells = frozenset(tool.name for tool in fact.tools if tool.kind == "exec")

    def _release(self) -> Iterator[Step]:
        """One by one, since a step is only true until the next one is read."""
        held, self._held = self._held, []
        self._asked -= len(held)
        held.sort(key=_position)
        for event in held:
            yield from self._steps(event)

    def _steps(self, event: Event) -> Sequence[Step]:
        fact = event.fact
        if isinstance(fact, ToolFinished):
            return (self._step(event, fact.call, fact.result, fact.error, fact.state_changed, False),)
        if isinstance(fact, ToolRefused) and fact.reason != "not-run":
            unknown = fact.reason == "unknown-tool"
            return (self._step(event, fact.call, {"error": fact.message}, True, False, unknown),)
        return ()

    def _turn_page(self, person: bool) -> None:
        self.page += 1
        self._seen.clear()
        if person:
            self.chapter += 1
            self._pair = 0
            self._acts.clear()

    def _step(self, event: Event, call: Call, outcome: JSON, error: bool, changed: bool | None, unknown: bool) -> Step:
        tool, kind, acting = call.tool, call.kind, call.acting
        arguments = argument_bytes(call.arguments)
        key = hash((tool, arguments))
        pair = self._named_pair(key, outcome, kind, error)
        if error and changed is None:
            changed = False
        epoch = self.epoch
        moved, new, places = self._remember(pair, event.seq, acting, changed)
        self._count(pair, call.turn)
        waits = kind == "exec" and (_waits_by_name(tool) or (b'":"' in arguments and bool(_SLEEPS.search(arguments))))
        patient, self._patient = self._patient, waits or kind == "poll"
        words = _NO_WORDS
        if error:
            words = _UNKNOWN_TOOL if unknown else error_words(outcome, call.arguments, tool)
        return Step(
            event, call, tool, kind, acting, event.seq, event.at, call.turn, arguments, outcome, key, pair,
            0 if call.target is None else hash((tool, call.target)), error, words, changed, moved, new, places[0],
            places, epoch, self.chapter, self.page, tool in self.free, waits,
            not acting and (tool in self.shells or _is_shell_by_name(tool)), patient, self._number, self._run,
            self._batch, not error and new and self._run == 1,
        )  # fmt: skip

    def _named_pair(self, key: int, outcome: JSON, kind: Kind, error: bool) -> int:
        """The name of this call with this result: the same for every result that differs in noise only."""
        answers = self._answers.get(key)
        if answers is not None:
            return answers.pair(key, hash((result_bytes(outcome, kind), error)))
        raw = outcome if isinstance(outcome, str) else _json(outcome)
        if raw is None or len(raw) > SHORT:
            answers = self._answers[key] = _Answers(None, kind, error)
            trim(self._answers)
            return answers.pair(key, hash((result_bytes(outcome, kind), error)))
        self._answers[key] = _Answers(raw, kind, error)
        self._aside.append(key)
        if len(self._aside) > LAID_ASIDE:
            oldest = self._aside.popleft()
            waiting = self._answers.get(oldest)
            if waiting is not None and waiting.raw is not None:
                del self._answers[oldest]
        return hash((key, 0))

    def _remember(self, pair: int, seq: int, acting: bool, changed: bool | None) -> tuple[bool, bool, list[int]]:
        """Whether the world moved, whether this was news, and where it was seen since the world last moved."""
        places = self._seen.get(pair)
        revisited = acting and pair in self._acts
        new = places is None and not revisited
        moved = acting and not revisited and changed is not False
        if moved:
            self.epoch += 1
            self._seen.clear()
            places = None
        if acting and not revisited:
            self._acts[pair] = None
            trim(self._acts)
        if places is None:
            places = self._seen[pair] = [0]
            trim(self._seen)
        places[0] += 1
        places.append(seq)
        if len(places) > SHOWN + 1:
            del places[2]
        return moved, new, places

    def _count(self, pair: int, turn: int) -> None:
        self._number += 1
        if pair != self._pair:
            self._pair, self._run, self._batch = pair, 0, 0
        self._run += 1
        self._batch = self._batch + 1 if turn == self._turn else 1
        self._turn = turn


@lru_cache(maxsize=4096)
def _waits_by_name(tool: str) -> bool:
    return _WAITING.search(tool) is not None


@lru_cache(maxsize=4096)
def _is_shell_by_name(tool: str) -> bool:
    return _SHELL.search(tool) is not None


def _json(value: JSON) -> bytes | None:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return None


def _position(event: Event) -> int:
    fact = event.fact
    return fact.call.position if isinstance(fact, ToolFinished | ToolRefused) else 0
