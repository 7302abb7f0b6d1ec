"""A model that says what a test tells it to, and time that passes when a test says so.

These are fakes, not mocks: they keep the promises of the ports, so that what is tested is the real runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from capataz.events.facts import JSON, Event, Fact, Fault, Usage
from capataz.events.plain import to_json
from capataz.mistakes import ModelRefused
from capataz.ports import ModelRequest, RawCall, Reply

Step: TypeAlias = "Reply | Fault | str | Callable[[ModelRequest], Reply | Fault | str]"


def calls(*wanted: tuple[str, dict[str, JSON]], text: str = "", usage: Usage | None = None) -> Reply:
    """A reply that asks for tools: `calls(("refund", {"order_id": "81"}))`."""
    raw = tuple(
        RawCall(f"call-{position}", name, to_json(arguments).decode())
        for position, (name, arguments) in enumerate(wanted)
    )
    return Reply(text, raw, stop="calls", usage=usage or Usage(100, 20))


def says(text: str, usage: Usage | None = None) -> Reply:
    """A reply that only talks."""
    return Reply(text, usage=usage or Usage(100, 20))


class ScriptedModel:
    """Answers with its steps, one a call, and then with the last one for ever. `requests` keeps what it was asked.

    >>> model = ScriptedModel("hello")
    >>> asyncio.run(model.complete(ModelRequest("m", "", []), lambda: None)).text
    'hello'
    """

    def __init__(self, *steps: Step, name: str = "scripted") -> None:
        if not steps:
            raise ValueError("a scripted model needs at least one step")
        self.name = name
        self.requests: list[ModelRequest] = []
        self._steps: Sequence[Step] = steps

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        step = self._steps[min(len(self.requests), len(self._steps) - 1)]
        self.requests.append(
            ModelRequest(request.model, request.system, list(request.history), request.tools, request.tool_choice)
        )
        beat()
        await asyncio.sleep(0)
        if callable(step):
            step = step(request)
        if isinstance(step, Fault):
            raise ModelRefused(step)
        return says(step) if isinstance(step, str) else step

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class FakeClock:
    """Time that moves only when something sleeps, or when a test moves it."""

    time: float = 1_000_000.0
    slept: list[float] = field(default_factory=list[float])

    def now(self) -> float:
        return self.time

    def move(self, seconds: float) -> None:
        self.time += seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


@dataclass
class FakeChance:
    """Draws that a test knows: always the same fraction, and ids counted up."""

    value: float = 0.5
    count: int = 0

    def fraction(self) -> float:
        return self.value

    def identity(self) -> str:
        self.count += 1
        return f"run-{self.count:04d}"


def given(*facts: Fact, at: float = 0.0, step: float = 1.0) -> list[Event]:
    """Facts as the events of one log, a second apart: what a test feeds to a guard or folds into a state."""
    return list(_numbered(facts, at, step))


def _numbered(facts: Iterable[Fact], at: float, step: float) -> Iterable[Event]:
    for seq, fact in enumerate(facts):
        yield Event(seq, at + seq * step, fact)
