"""The tools of one agent, and the door every call of a model passes the moment its reply arrives.

A call is read once, against the tools that are there: what comes out is either canonical or carries the problem in
words for the model. What was not understood is never repaired and run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import cast

import orjson

from capataz.events.facts import JSON, Call, Fault, Row, ToolFacts
from capataz.mistakes import Misuse, ToolMisuse
from capataz.ports import RawCall, ToolSpec
from capataz.tools.define import Tool
from capataz.tools.wording import BadArguments

_LONGEST_NAME = 64


class Toolset:
    """An ordered set of tools with different names. Raises `Misuse` when it cannot be one."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance] callers are not all typed
                raise ToolMisuse(f"{tool!r} is not a tool: decorate the function with @tool")
            if tool.signature.method:
                raise ToolMisuse(f"tool {tool.name} is a method: take it from an instance, as in shop.{tool.name}")
            if tool.name in self._tools:
                raise Misuse(f"two tools are named {tool.name}: give one of them name=...")
            self._tools[tool.name] = tool

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def get(self, name: str) -> Tool | None:
        """None where there is none, as for a run that was begun by a version of the agent that had it."""
        return self._tools.get(name)

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    @cached_property
    def facts(self) -> tuple[ToolFacts, ...]:
        return tuple(tool.facts for tool in self._tools.values())

    @cached_property
    def sealed(self) -> frozenset[str]:
        """Names of the tools that are given placeholders, not the personal data behind them."""
        return frozenset(tool.name for tool in self._tools.values() if not tool.restore)

    @cached_property
    def digest(self) -> str:
        """The same for the same names, kinds, targets, descriptions and schemas, in whatever order."""
        told = [
            [t.name, t.kind, t.target, t.description, t.signature.schema]
            for t in sorted(self._tools.values(), key=lambda t: t.name)
        ]
        return hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def read(self, raws: Sequence[RawCall], turn: int) -> tuple[Call, ...]:
        """Read the calls of one reply, in order. Never raises: what is wrong with a call is in its `problem`."""
        return tuple(self._read(raw, turn, position) for position, raw in enumerate(raws))

    def _read(self, raw: RawCall, turn: int, position: int) -> Call:
        tool = self._tools.get(raw.name)
        if tool is None:
            return _problem(raw, turn, position, None, "contract", "unknown-tool", self.unknown(raw.name))
        if raw.cut:
            words = "the call was cut off before its end and was not run: write it again, shorter"
            return _problem(raw, turn, position, tool, "contract", "truncated", words)
        try:
            arguments = tool.signature.read(raw.arguments if raw.arguments.strip() else "{}")
        except BadArguments as bad:
            if bad.unreadable:
                words = f"{bad}: the call was not run, write it again"
                return _problem(raw, turn, position, tool, "contract", "unparsable-arguments", words)
            return _problem(raw, turn, position, tool, "invalid_input", "invalid-arguments", str(bad))
        target, approval = tool.target_of(arguments), tool.approval(arguments)
        return Call(turn, position, raw.id, tool.name, arguments, tool.kind, target, approval=approval)

    def unknown(self, name: str) -> str:
        """That there is no such tool, in words for the model."""
        shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
        if not self._tools:
            return f"there is no tool {shown!r}: you have no tools"
        near = get_close_matches(name[:_LONGEST_NAME], self._tools, 3)
        guess = f" Did you mean {' or '.join(near)}?" if near else ""
        return f"there is no tool {shown!r}.{guess} Your tools are: {', '.join(self._tools)}."


def _problem(raw: RawCall, turn: int, position: int, tool: Tool | None, row: Row, reason: str, words: str) -> Call:
    """A call that cannot run, with its arguments as received."""
    return Call(
        turn,
        position,
        raw.id,
        raw.name,
        _as_received(raw.arguments),
        kind="exec" if tool is None else tool.kind,
        problem=words,
        fault=Fault(row, reason, words, origin="model"),
    )


def _as_received(text: str) -> dict[str, JSON]:
    try:
        value = orjson.loads(text.strip() or "{}")
    except ValueError:
        value = None
    if isinstance(value, dict):
        return cast("dict[str, JSON]", value)
    return {"unparsed": text.encode(errors="replace").decode()}
