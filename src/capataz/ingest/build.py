"""Turning a foreign record, told step by step, into our events.

A converter says what it reads (`say`, `reply`, `result`, `label`, `end`); this is the only place that numbers turns
and positions, matches results to calls, guesses classes and stamps times. Ids of calls are not unique with every
provider, so a call is known by turn and position, and an id only leads to the newest call that still waits under it.
Nothing here may raise on what a record says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from capataz.events.facts import (
    JSON,
    Call,
    Event,
    Fact,
    Fault,
    Kind,
    MessageReceived,
    ModelCallFailed,
    ModelReplied,
    Role,
    RunEnded,
    RunLabelled,
    RunStarted,
    ToolFacts,
    ToolFinished,
    Usage,
)
from capataz.ingest.kinds import Guess, Hints, guess, target_value


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a run was read: the file as it was named, and the line it begins in (0: the whole file)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """One foreign run as our events, with what is known about it besides.

    `label` is what the record itself says about success (a test, a reward, a score); None where it says nothing.
    `task_key` names the task, so that runs of the same task can be compared; empty where unknown.
    With `times_known` False every event has the same time: order is real, and nothing is said of durations.
    With `usage_known` False the tokens are estimates (characters divided by four).
    """

    id: str
    source_format: str
    origin: Origin
    events: list[Event]
    label: bool | None = None
    task_key: str = ""
    model: str = ""
    usage_known: bool = False
    times_known: bool = False
    guesses: Mapping[str, Guess] = field(default_factory=dict[str, Guess])
    """What was guessed of each tool, by name."""
    parent: str | None = None
    """The run that started this one, for sub-agents told inside another run's record."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as a record writes it."""

    tool: str
    arguments: Mapping[str, JSON]
    id: str = ""
    kind: Kind | None = None
    """Where the converter knows better than the name."""


@dataclass(slots=True)
class RunBuilder:
    """Builds one run. `kinds` is what the user says of tools by name; it overrules every guess."""

    format: str
    origin: Origin
    kinds: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    most: int = 200_000
    id: str = ""
    task: str = ""
    task_key: str = ""
    task_type: str | None = None
    agent: str = ""
    model: str = ""
    instructions: str = ""
    role: Role | None = None
    """None: decided at the end, from who spoke."""
    hints: dict[str, Hints] = field(default_factory=dict[str, Hints])
    """Tools the record declares, with what it says of them."""
    left_out: int = 0
    parent: str | None = None
    _facts: list[tuple[float | None, Fact]] = field(default_factory=list[tuple[float | None, Fact]])
    _turn: int = 0
    _spoken: int = 0
    _label: RunLabelled | None = None
    _ended: RunEnded | None = None
    _waiting: dict[str, list[Call]] = field(default_factory=dict[str, list[Call]])
    _guesses: dict[str, Guess] = field(default_factory=dict[str, Guess])
    _chars: int = 0
    _reported: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing an agent did was told yet."""
        return self._turn == 0

    def say(self, text: str, role: str = "user", at: float | None = None) -> None:
        """Somebody spoke to the agent. The first words of the person are the task."""
        self._chars += len(text)
        if role == "user":
            self._spoken += 1
            if not self.task:
                self.task = text
                return
        self._add(MessageReceived("user" if role == "user" else "runtime", text), at)

    def reply(
        self,
        text: str,
        asked: Sequence[Asked] = (),
        *,
        usage: Usage | None = None,
        at: float | None = None,
        model: str = "",
        stop: str = "",
        thinking: str = "",
        seconds: float = 0.0,
    ) -> tuple[Call, ...]:
        """The model spoke, and may have asked for calls. Gives the calls as recorded; re-sent ones are dropped."""
        fresh = [ask for ask in asked if not self._resent(ask)]
        if asked and not fresh and not text:
            return ()
        self._turn += 1
        calls = tuple(self._call(ask, position) for position, ask in enumerate(fresh))
        for call in calls:
            self._waiting.setdefault(call.id, []).append(call)
        self.model = model or self.model
        told = ModelReplied(
            self._turn,
            0,
            text,
            calls,
            stop or ("calls" if calls else "stop"),
            self._usage(usage, text, calls),
            model or self.model,
            thinking=thinking,
            seconds=seconds,
        )
        self._add(told, at)
        return calls

    def result(
        self, value: JSON, *, id: str = "", error: bool = False, at: float | None = None, seconds: float = 0.0
    ) -> bool:
        """The newest waiting call with this id (the oldest of all without one) came back. False: nobody waits.

        The newest, since a runtime that reuses an id while a call waits under it has given that one up.
        """
        queue = self._waiting.get(id) if id else next((calls for calls in self._waiting.values() if calls), None)
        if not queue:
            return False
        return self.settle(queue[-1 if id else 0], value, error=error, at=at, seconds=seconds)

    def settle(
        self, call: Call, value: JSON, *, error: bool = False, at: float | None = None, seconds: float = 0.0
    ) -> bool:
        """This very call came back. A second result for it is dropped."""
        queue = self._waiting.get(call.id, [])
        if call not in queue:
            return False
        queue.remove(call)
        self._chars += len(value) if isinstance(value, str) else 80
        self._add(ToolFinished(call, value, error=error, seconds=seconds), at)
        return True

    def spread(self, total: Usage | None) -> None:
        """The record says only what the whole run used: each reply without a figure of its own gets an equal part."""
        bare = [
            i for i, (_, fact) in enumerate(self._facts) if isinstance(fact, ModelReplied) and not fact.usage.reported
        ]
        if not bare or total is None or not (total.tokens or total.money):
            return
        money = None if total.money is None else total.money / len(bare)
        each = Usage(total.input // len(bare), total.output // len(bare), total.cache_read // len(bare), money=money)
        self._reported = True
        for index in bare:
            at, fact = self._facts[index]
            if isinstance(fact, ModelReplied):
                self._facts[index] = (at, replace(fact, usage=each))

    def failed(self, fault: Fault, at: float | None = None) -> None:
        """A model call failed."""
        self._add(ModelCallFailed(self._turn + 1, 0, fault, self.model), at)

    def label(self, success: bool | None, by: str, detail: str = "") -> None:
        """How the run really went, says somebody outside of it."""
        self._label = RunLabelled(success, by, detail)

    def end(self, ended: RunEnded) -> None:
        """The record says how its own runtime ended the run."""
        self._ended = ended

    def finish(self) -> ImportedRun | None:
        """The run, or None where the agent never did anything and nothing is known about it."""
        if self.empty and self._label is None and self._ended is None:
            return None
        known = any(at is not None for at, _ in self._facts)
        told = [(None, self._started()), *self._facts]
        told.extend((None, fact) for fact in (self._ended, self._label) if fact is not None)
        return ImportedRun(
            self.id or str(self.origin),
            self.format,
            self.origin,
            _stamped(told),
            None if self._label is None else self._label.success,
            self.task_key,
            self.model,
            self._reported,
            known,
            self._guesses,
            self.parent,
        )

    def _started(self) -> RunStarted:
        for name in self.hints:
            if name not in self._guesses:
                self._guesses[name] = guess(name, {}, self.hints[name])
        tools = tuple(
            ToolFacts(name, self.kinds.get(name, found.kind), found.target) for name, found in self._guesses.items()
        )
        run = self.id or str(self.origin)
        role = self.role or ("talking" if self._spoken > 1 or not tools else "acting")
        return RunStarted(
            run,
            self.agent or self.format,
            self.task,
            role,
            self.model,
            self.instructions,
            tools,
            task_type=self.task_type,
            root=self.parent or run,
            parent=self.parent,
            source=self.format,
        )

    def _add(self, fact: Fact, at: float | None) -> None:
        if len(self._facts) < self.most:
            self._facts.append((at, fact))
        else:
            self.left_out += 1

    def _resent(self, ask: Asked) -> bool:
        """The same call under the same id while it still waits: a stream that repeats itself, not a second call."""
        if not ask.id:
            return False
        return any(call.tool == ask.tool and call.arguments == ask.arguments for call in self._waiting.get(ask.id, ()))

    def _call(self, ask: Asked, position: int) -> Call:
        found = guess(ask.tool, ask.arguments, self.hints.get(ask.tool))
        if ask.kind is not None:
            found = replace(found, kind=ask.kind, why="its format")
        said = self.kinds.get(ask.tool)
        if said is not None:
            found = replace(found, kind=said, why="you said so")
        seen = self._guesses.get(ask.tool)
        if seen is None or (seen.kind != found.kind and found.kind == "exec"):
            self._guesses[ask.tool] = found
        target = target_value(found.target, ask.tool, ask.arguments, found.kind)
        id = ask.id or f"{self._turn}.{position}"
        return Call(self._turn, position, id, ask.tool, ask.arguments, found.kind, target)

    def _usage(self, usage: Usage | None, text: str, calls: Sequence[Call]) -> Usage:
        written = len(text) + sum(len(call.tool) + len(str(call.arguments)) for call in calls)
        before = self._chars
        self._chars += written
        if usage is not None and (usage.tokens or usage.money is not None):
            self._reported = True
            return usage
        return Usage((before + len(self.task)) // 4, written // 4, reported=False)


def _stamped(told: Sequence[tuple[float | None, Fact]]) -> list[Event]:
    """Events in order with times that never go back; where a time is not known, that of the fact before.

    No time is made up: a poll that seems to wait for seconds nobody measured would be judged by them.
    """
    events: list[Event] = []
    now = next((at for at, _ in told if at is not None), 0.0)
    for seq, (at, fact) in enumerate(told):
        now = now if at is None else max(now, at)
        events.append(Event(seq, now, fact))
    return events


def finished(*builders: RunBuilder) -> list[ImportedRun]:
    """The runs that came to something."""
    return [run for builder in builders if (run := builder.finish()) is not None]
