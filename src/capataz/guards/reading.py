"""What the built-in guards read off an event: computed once, shared by all of them.

A finished call becomes a `Step`: which call it was, what came back, whether it failed, and whether it was news. The
`Reader` also keeps what news means: the world has moved when an act leads somewhere new. A state that was there before
is no progress, however loudly a tool says that it changed something. Texts are never kept, only hashes and
positions, and every memory here has a ceiling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from capataz.events.facts import (
    JSON,
    Call,
    Event,
    Kind,
    MessageReceived,
    ModelReplied,
    RunStarted,
    ToolFinished,
    ToolRefused,
)
from capataz.guards.canon import argument_bytes, digest, error_words, result_bytes

MEMORY = 2_048
"""Distinct steps remembered since the world last moved, and distinct acts over the whole run."""
SHOWN = 8
"""Positions kept as proof for one thing that repeats: the first and the latest."""

_NO_WORDS: frozenset[str] = frozenset()
_UNKNOWN_TOOL = frozenset(("unknown", "tool"))
_WAITING = re.compile(r"(?:^|[_\-.])(?:sleep|wait|pause|delay|idle)(?:$|[_\-.])", re.IGNORECASE)
_SLEEPS = re.compile(rb'":"(?:sleep|timeout|wait) \d')
_LOOKING = frozenset(("read", "search", "poll"))

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
    often a person spoke, `page` how often anybody did or the context was compressed. `free` is set where repeating
    is the task, `waits` where the call only lets time pass, `moved` where this step itself moved the world.
    """

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
    result: int
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
    refused: bool

    @property
    def name(self) -> str:
        return digest(self.tool.encode() + b"\0" + self.arguments)


@dataclass(slots=True)
class Reader:
    """Turns events into steps. One per watched run."""

    epoch: int = 0
    chapter: int = 0
    page: int = 0
    free: frozenset[str] = frozenset()
    _seen: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    _acts: dict[int, None] = field(default_factory=dict[int, None])
    _waits: dict[str, bool] = field(default_factory=dict[str, bool])

    def read(self, event: Event) -> Step | None:
        """The step, where the event ends a call; None for everything else."""
        fact = event.fact
        if isinstance(fact, ToolFinished):
            return self._step(event, fact.call, fact.result, fact.error, fact.state_changed, False)
        if isinstance(fact, ToolRefused):
            if fact.reason == "not-run":
                return None
            return self._step(event, fact.call, {"error": fact.message}, True, False, fact.reason == "unknown-tool")
        if isinstance(fact, MessageReceived):
            self._turn_page(person=fact.role == "user")
        elif isinstance(fact, ModelReplied):
            if fact.purpose == "compressing":
                self._turn_page(person=False)
        elif isinstance(fact, RunStarted):
            self.free = frozenset(tool.name for tool in fact.tools if tool.repeatable and tool.kind in _LOOKING)
        return None

    def _turn_page(self, person: bool) -> None:
        self.page += 1
        self._seen.clear()
        if person:
            self.chapter += 1
            self._acts.clear()

    def _step(self, event: Event, call: Call, outcome: JSON, error: bool, changed: bool | None, unknown: bool) -> Step:
        tool, kind = call.tool, call.kind
        arguments = argument_bytes(call.arguments)
        key = hash((tool, arguments))
        result = hash((result_bytes(outcome, kind), error))
        pair = hash((key, result))
        acting = call.acting
        if error and changed is None:
            changed = False
        revisited = acting and pair in self._acts
        moved = acting and not revisited and changed is not False
        places = self._seen.get(pair)
        new = places is None and not revisited
        epoch = self.epoch
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
        places.append(event.seq)
        if len(places) > SHOWN + 1:
            del places[2]
        words = _NO_WORDS
        if error:
            words = _UNKNOWN_TOOL if unknown else error_words(outcome, call.arguments, tool)
        return Step(
            call, tool, kind, acting, event.seq, event.at, call.turn, arguments, outcome, key, result, pair,
            0 if call.target is None else hash((tool, call.target)), error, words, changed, moved, new, places[0],
            places, epoch, self.chapter, self.page, tool in self.free,
            kind == "exec" and self._is_waiting(tool, arguments), unknown,
        )  # fmt: skip

    def _is_waiting(self, tool: str, arguments: bytes) -> bool:
        by_name = self._waits.get(tool)
        if by_name is None:
            by_name = _WAITING.search(tool) is not None
            if len(self._waits) < MEMORY:
                self._waits[tool] = by_name
        return by_name or (b'":"' in arguments and _SLEEPS.search(arguments) is not None)
