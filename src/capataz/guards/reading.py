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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TypeAlias, TypeVar

import orjson

from capataz.events.facts import (
    ACTING,
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
from capataz.guards.canon import argument_bytes, digest, error_words, names_absence, result_bytes
from capataz.guards.shape import refuses

MEMORY = 2_048
"""Distinct steps remembered since the world last moved, and distinct acts over the whole run."""
LAID_ASIDE = 256
"""Results of new calls that wait for the call to be repeated, at most; the older half goes when there are more."""
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
_TOKEN = re.compile(r"[a-z0-9_]{2,}")
_COMMANDS = frozenset(("command", "cmd"))
_LOOKING = frozenset(("read", "search", "poll"))

CALLS: frozenset[type[Fact]] = frozenset((ToolFinished, ToolRefused))
READ: frozenset[type[Fact]] = CALLS | {MessageReceived, ModelReplied, RunStarted, HistoryCompressed, RunEnded}
"""Facts the reader learns from."""
TROUBLED = 64
"""Tools remembered as having failed."""
HELD = 256
"""Calls of one reply that are held back to be read in their order."""

T = TypeVar("T")


def trim(memory: dict[int, T], ceiling: int = MEMORY) -> None:
    """Forget the older half once there is too much: O(1) amortised."""
    if len(memory) > ceiling:
        for key in list(islice(memory, ceiling // 2)):
            del memory[key]


def note(places: list[int], seq: int) -> None:
    """Keep one more position as proof: the first and the latest, `SHOWN` in all."""
    places.append(seq)
    if len(places) > SHOWN:
        del places[1]


@dataclass(slots=True)
class Step:
    """One finished (or refused) call, read. `key` names the call, `pair` the call together with what came back.

    The hashes hold within one process; `name` is the same everywhere. `changed` is what the tool says of the world (an
    error that says nothing changed nothing). `new` says that this call never had this result since the world last
    moved, and `before` where it had, this time included, after how often. `free` is set where repeating is the task,
    `waits` where the call only lets time pass, `patient` where the step before waited or polled, `moved` where this
    step itself moved the world, `plain` where it succeeded, brought news and no error stands open, `first` where this
    call was never made before, as far as is remembered. `known` is the hash of the result where it was needed anyhow.
    What is a property is worked out when asked, since most steps are never asked; those that say "now" are true only
    until the next step is read.
    """

    reader: Reader
    event: Event
    call: Call
    tool: str
    kind: Kind
    acting: bool
    arguments: bytes
    key: int
    pair: int
    error: bool
    words: frozenset[str]
    changed: bool | None
    moved: bool
    new: bool
    before: list[int]
    free: bool
    waits: bool
    patient: bool
    plain: bool
    first: bool
    known: int | None

    @property
    def name(self) -> str:
        return digest(self.tool.encode() + b"\0" + self.arguments)

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def outcome(self) -> JSON:
        fact = self.event.fact
        if isinstance(fact, ToolFinished):
            return fact.result
        return {"error": fact.message} if isinstance(fact, ToolRefused) else None

    @property
    def result(self) -> int:
        """Hash of what came back, without its noise."""
        return self.known if self.known is not None else result_hash(self.outcome, self.kind, self.error)

    @property
    def target(self) -> int:
        """Hash of tool and target; 0 where the call names none."""
        return 0 if self.call.target is None else hash((self.tool, self.call.target))

    @property
    def shell(self) -> bool:
        """A tool that acts was used to look: a silent command is no empty search."""
        return not self.acting and (self.tool in self.reader.shells or _is_shell_by_name(self.tool))

    @property
    def tried(self) -> bool:
        """A command of a shell failed, and the error speaks of what was written in it, not of the machine it ran on.

        Names of arguments are no words of the command: an error of a host is none of a call that has a `host`.
        """
        if not _is_command(self.call):
            return False
        said = " ".join(value for value in self.call.arguments.values() if isinstance(value, str))
        return not self.words.isdisjoint(_TOKEN.findall(said.lower()))

    @property
    def seen(self) -> int:
        """Now: how often this call had this result since the world last moved."""
        return self.before[0]

    @property
    def epoch(self) -> int:
        """Now: how often the world had moved before this step."""
        return self.reader.epoch - self.moved

    @property
    def chapter(self) -> int:
        """Now: how often a person has spoken."""
        return self.reader.chapter

    @property
    def run(self) -> int:
        """Now: how many steps in a row were this very pair."""
        return self.reader.run


_Aside: TypeAlias = tuple[str | bytes, Kind, bool]
"""What came back of a new call, its class, and whether it was an error."""


@dataclass(slots=True)
class Reader:
    """Turns events into steps. One per watched run."""

    epoch: int = 0
    chapter: int = 0
    page: int = 0
    free: frozenset[str] = frozenset()
    shells: frozenset[str] = frozenset()
    number: int = 0
    run: int = 0
    batch: int = 0
    _aside: dict[int, _Aside] = field(default_factory=dict[int, _Aside])
    """Call to its only result so far."""
    _answers: dict[int, dict[int, int]] = field(default_factory=dict[int, dict[int, int]])
    """Call to its results so far: the hash of each, and the name of the pair."""
    _seen: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    _acts: dict[int, None] = field(default_factory=dict[int, None])
    _asked: int = 0
    """Calls of the latest reply that have not been read."""
    _held: list[Event] = field(default_factory=list[Event])
    _pair: int = 0
    _turn: int = -1
    _patient: bool = False
    _troubled: set[str] = field(default_factory=set[str])
    """Tools that have failed and not succeeded since, while the world did not move."""

    def read(self, event: Event) -> Iterable[Step]:
        """The steps that can be read now, to be gone through to the end.

        Calls of one reply are read in the order they were asked for, whatever the
        order they ended in, once all have ended or the run goes on without them.
        """
        fact = event.fact
        if type(fact) is ToolFinished and self._asked < 2:
            return (self._step(event, fact.call, fact.result, fact.error, fact.state_changed),)
        if type(fact) is ModelReplied and not self._held:
            self._asked = len(fact.calls)
            return ()
        if type(fact) in CALLS:
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
        if type(fact) is ToolFinished:
            return (self._step(event, fact.call, fact.result, fact.error, fact.state_changed),)
        if type(fact) is ToolRefused and fact.reason != "not-run":
            return (self._step(event, fact.call, {"error": fact.message}, True, False),)
        return ()

    def _turn_page(self, person: bool) -> None:
        self.page += 1
        self._seen.clear()
        if person:
            self.chapter += 1
            self._pair = 0
            self._acts.clear()
            self._troubled.clear()

    def _step(self, event: Event, call: Call, outcome: JSON, error: bool, changed: bool | None) -> Step:
        tool, kind = call.tool, call.kind
        acting = kind in ACTING
        arguments = argument_bytes(call.arguments)
        key = hash((tool, arguments))
        if key in self._answers or key in self._aside:
            pair, known = self._named_pair(key, outcome, kind, error)
        else:
            pair, known = self._first_pair(key, outcome, kind, error), None
        if changed is None and (error or (acting and refuses(outcome))):
            changed = False
        self.number += 1
        if pair != self._pair:
            self._pair, self.run, self.batch = pair, 0, 0
        self.run += 1
        self.batch = self.batch + 1 if call.turn == self._turn else 1
        self._turn = call.turn
        words = _words(event.fact) if error else _NO_WORDS
        if error and not acting and _is_command(call) and names_absence(words):
            kind = "poll"  # to look through a shell for what is not there yet is what waiting looks like
        moved, new, places = self._remember(pair, event.seq, acting, changed)
        waits = kind == "exec" and (_waits_by_name(tool) or _SLEEPS.search(arguments) is not None)
        patient, self._patient = self._patient, waits or kind == "poll"
        calm = not error and new and self.run == 1
        if error or self._troubled:
            self._trouble(tool, error, moved)
            calm = False
        return Step(
            self, event, call, tool, kind, acting, arguments, key, pair, error,
            words, changed, moved, new, places, tool in self.free, waits, patient,
            calm, known is None, known,
        )  # fmt: skip

    def _trouble(self, tool: str, error: bool, moved: bool) -> None:
        """Keep what has failed: what ends it is shown to everyone."""
        if moved:
            self._troubled.clear()
        if not error:
            self._troubled.discard(tool)
        elif len(self._troubled) < TROUBLED:
            self._troubled.add(tool)

    def _named_pair(self, key: int, outcome: JSON, kind: Kind, error: bool) -> tuple[int, int]:
        """The name of a call made before with this result, and the hash of the result.

        The name is the same for every result that differs in noise only.
        """
        known = self._answers.get(key)
        if known is None:
            known = self._know(key, result_hash(*self._aside.pop(key)))
        result = result_hash(outcome, kind, error)
        pair = known.get(result)
        if pair is None:
            pair = known[result] = hash((key, result))
            trim(known, RESULTS)
        return pair, result

    def _first_pair(self, key: int, outcome: JSON, kind: Kind, error: bool) -> int:
        raw = outcome if type(outcome) is str else _json(outcome)
        if raw is None or len(raw) > SHORT:
            self._know(key, result_hash(outcome, kind, error))
        else:
            self._aside[key] = (raw, kind, error)
            if len(self._aside) > LAID_ASIDE:
                trim(self._aside, LAID_ASIDE)
        return hash((key, 0))

    def _know(self, key: int, result: int) -> dict[int, int]:
        known = self._answers[key] = {result: hash((key, 0))}
        trim(self._answers)
        return known

    def _remember(self, pair: int, seq: int, acting: bool, changed: bool | None) -> tuple[bool, bool, list[int]]:
        """Whether the world moved, whether this was news, and where it was seen since the world last moved."""
        places = self._seen.get(pair)
        revisited = acting and pair in self._acts
        moved = False
        if acting and not revisited:
            moved = changed is not False
            self._acts[pair] = None
            if len(self._acts) > MEMORY:
                trim(self._acts)
        new = places is None and not revisited
        if moved:
            self.epoch += 1
            if self._seen:
                self._seen.clear()
            places = None
        if places is None:
            places = self._seen[pair] = [1, seq]
            if len(self._seen) > MEMORY:
                trim(self._seen)
            return moved, new, places
        places[0] += 1
        places.append(seq)
        if len(places) > SHOWN + 1:
            del places[2]
        return moved, new, places


def result_hash(outcome: JSON | bytes, kind: Kind, error: bool) -> int:
    """Hash of what came back, without its noise. Bytes are JSON that was laid aside."""
    shown: JSON = orjson.loads(outcome) if isinstance(outcome, bytes) else outcome
    return hash((result_bytes(shown, kind), error))


def _words(fact: Fact) -> frozenset[str]:
    if isinstance(fact, ToolFinished):
        return error_words(fact.result, fact.call.arguments, fact.call.tool)
    if isinstance(fact, ToolRefused):
        if fact.reason == "unknown-tool":
            return _UNKNOWN_TOOL
        return error_words(fact.message, fact.call.arguments, fact.call.tool)
    return _NO_WORDS


@lru_cache(maxsize=4096)
def _waits_by_name(tool: str) -> bool:
    return _WAITING.search(tool) is not None


@lru_cache(maxsize=4096)
def _is_shell_by_name(tool: str) -> bool:
    return _SHELL.search(tool) is not None


def _is_command(call: Call) -> bool:
    return _is_shell_by_name(call.tool) or not _COMMANDS.isdisjoint(call.arguments)


def _json(value: JSON) -> bytes | None:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return None


def _position(event: Event) -> int:
    fact = event.fact
    return fact.call.position if isinstance(fact, ToolFinished | ToolRefused) else 0
