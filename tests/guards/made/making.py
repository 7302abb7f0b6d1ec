"""A short way to tell a labelled history. What is drawn is drawn from a fixed seed: the set never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from capataz.events.facts import JSON

HEX = "0123456789abcdef"
Tool = dict[str, JSON]


@dataclass
class Tale:
    """One case while it is told. Indices are those of the history."""

    id: str
    kind: str
    why: str
    tools: Mapping[str, Tool]
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    loop: list[int] = field(default_factory=list[int])
    """Where the calls of the loop stand."""
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    expected: dict[str, Any] = field(default_factory=dict[str, Any])
    turn: int = 0
    clock: float | None = None
    draw: Random = field(init=False)

    def __post_init__(self) -> None:
        self.draw = Random(self.id)

    def hex(self, digits: int = 8) -> str:
        return "".join(self.draw.choice(HEX) for _ in range(digits))

    def stamp(self) -> str:
        month, day, hour, minute = (self.draw.randint(*span) for span in ((1, 9), (10, 28), (10, 23), (10, 59)))
        return f"2026-0{month}-{day}T{hour}:{minute}:07Z"

    def call(
        self,
        tool: str,
        args: dict[str, JSON] | None = None,
        result: JSON = "ok",
        changed: bool | None = None,
        *,
        error: bool = False,
        loop: bool = False,
        batch: bool = False,
        took: float = 0,
    ) -> None:
        if not batch:
            self.turn += 1
        if loop:
            self.loop.append(len(self.history))
        item = {
            "turn": self.turn, "tool": tool, "args": args or {}, "result": result, "is_error": error,
            "state_changed": False if error and changed is None else changed,
        }  # fmt: skip
        if self.clock is not None:
            item |= {"started_s": self.clock, "ended_s": self.clock + took}
            self.clock += took + 1
        self.history.append(item)

    def say(self, text: str, role: str = "model") -> None:
        self.turn += 1
        said: dict[str, Any] = {"turn": self.turn, "text": text}
        self.history.append(said if role == "model" else {**said, "role": role})

    def cut(self, first: int, last: int, also: tuple[str, ...] = ()) -> Tale:
        """A cut is right from the `first`-th call of the loop to the `last`-th, counted from 1."""
        latest = self.loop[min(last, len(self.loop)) - 1]
        self.expected = {"signal": self.kind, "not_before": self.loop[first - 1], "at_latest": latest}
        if self.more.get("group") in ("late", "relapse"):
            self.expected["onset"] = self.loop[0]
        if also:
            self.more["accept_also"] = list(also)
        return self

    def at(self, first: int, last: int, also: tuple[str, ...] = ()) -> Tale:
        """The window by indices of the history."""
        self.expected = {"signal": self.kind, "not_before": first, "at_latest": last}
        if also:
            self.more["accept_also"] = list(also)
        return self

    def raw(self) -> dict[str, Any]:
        expected = self.expected or {"signal": None, "not_before": None, "at_latest": None}
        return {
            "id": self.id, "kind": self.kind, "why": self.why, **self.more, "tools": self.tools,
            "history": self.history, "expected": expected,
        }  # fmt: skip


def tool(kind: str, target: str | None = None, **more: JSON) -> Tool:
    return {"class": kind, "read_only": kind in ("read", "search", "poll"), "target_arg": target, **more}


Telling = Callable[[], Iterator[Tale]]
Says: TypeAlias = "JSON | Callable[[int, Tale], JSON]"
