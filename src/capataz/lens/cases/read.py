"""Labelled histories: short JSON stories of runs with the place where a cut is right, turned into our events.

The format is written down for users in `docs/guards/cases.md`. A label that contradicts itself or its history is never
scored: `check` finds every mistake in it, and here they are raised together, each with its case and its field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import orjson

from capataz.events.facts import (
    JSON,
    Call,
    CheckEvaluated,
    Event,
    Fact,
    Kind,
    MessageReceived,
    ModelReplied,
    Role,
    RunStarted,
    TickPassed,
    ToolFacts,
    ToolFinished,
    ToolRefused,
    ToolStarted,
)
from capataz.guards.limits import ToolLimits
from capataz.lens.cases.check import mistakes
from capataz.mistakes import Misuse

_Object: TypeAlias = Mapping[str, Any]
_KINDS: Mapping[str, Kind] = {
    "read": "read", "search": "search", "poll": "poll", "write": "write", "exec": "exec", "message": "message",
    "ui": "exec", "plan": "write", "sample": "read",
}  # fmt: skip
_SHOWN = 10
"""Mistakes of one file that are told in full."""
_FORMAT = "see docs/guards/cases.md for the format"


@dataclass(frozen=True, slots=True)
class Case:
    """One labelled history. Indices count the items of `history`; None means that nothing is right there."""

    id: str
    kind: str
    group: str
    signal: str | None
    accepted: frozenset[str]
    not_before: int | None
    at_latest: int | None
    onset: int
    events: tuple[Event, ...]
    items: tuple[int, ...]
    """For each event, the item of the history it came from."""
    limits: Mapping[str, ToolLimits]
    steps: int

    @property
    def healthy(self) -> bool:
        return self.kind == "healthy"

    @property
    def recovering(self) -> bool:
        return self.group == "recovered"


_MARK = b"\xef\xbb\xbf"
"""What some editors write in front of UTF-8."""


def read_cases(text: bytes, where: str) -> list[Case]:
    """The cases of one file: a JSON list, or an object that holds one under `cases`.

    Raises `Misuse` that names every mistake of the file (the first ten in full), with case and field.
    """
    try:
        held = orjson.loads(text.removeprefix(_MARK))
    except orjson.JSONDecodeError as error:
        raise Misuse(f"{where} is not JSON: {error}") from error
    listed = cast(_Object, held).get("cases") if isinstance(held, dict) else held
    if not isinstance(listed, list):
        raise Misuse(f"{where} holds no list of cases; {_FORMAT}")
    raws = cast(list[object], listed)
    _refuse(where, [f"{_named(raw, place)}: {words}" for place, raw in enumerate(raws) for words in mistakes(raw)])
    cases = [_Writer(cast(_Object, raw)).case() for raw in raws]
    distinct(cases, where)
    return cases


def holds_cases(text: bytes) -> bool:
    """Whether this is meant to be a file of cases: broken JSON is, prose and lists of other things are not."""
    if text.removeprefix(_MARK).lstrip()[:1] not in (b"[", b"{"):
        return False
    try:
        held = orjson.loads(text.removeprefix(_MARK))
    except orjson.JSONDecodeError:
        return True
    listed = cast(_Object, held).get("cases") if isinstance(held, dict) else held
    return isinstance(listed, list) and any(
        isinstance(raw, Mapping) and "history" in raw for raw in cast(list[object], listed)
    )


def case_of(raw: _Object) -> Case:
    """Read one case. Raises `Misuse` that names every mistake in it."""
    _refuse(f"case {raw.get('id', '?')!r}", list(mistakes(raw)))
    return _Writer(raw).case()


def distinct(cases: Iterable[Case], where: str) -> None:
    """Refuse cases that share an id: in the report nobody could tell them apart."""
    counts = Counter(case.id for case in cases)
    shared = [f"case {name!r}: id is given to {times} cases" for name, times in counts.items() if times > 1]
    _refuse(where, [f"{words}; give each its own" for words in shared])


def _named(raw: object, place: int) -> str:
    """A case by its id, or by where it stands."""
    name = cast(_Object, raw).get("id") if isinstance(raw, Mapping) else None
    return f"case {name!r}" if isinstance(name, str) and name else f"case {place} of the list"


def _refuse(where: str, wrong: Sequence[str]) -> None:
    if wrong:
        more = [f"and {len(wrong) - _SHOWN:,} more"] if len(wrong) > _SHOWN else []
        lines = "\n  ".join([*wrong[:_SHOWN], *more])
        raise Misuse(f"{where} cannot be scored; {_FORMAT}\n  {lines}")


class _Writer:
    """Writes the events of one case."""

    def __init__(self, raw: _Object) -> None:
        self.raw = raw
        self.tools = cast(Mapping[str, _Object], raw.get("tools") or {})
        self.history = cast(list[_Object], list(raw["history"]))
        self.contract = cast(_Object, raw.get("contract") or {})
        self.events: list[Event] = []
        self.items: list[int] = []
        self.done: set[str] = set()
        self.clock = 0.0

    def case(self) -> Case:
        raw, expected = self.raw, cast(_Object, self.raw.get("expected") or {})
        self._begin()
        at = 0
        while at < len(self.history):
            at = self._item(at)
        self._silence()
        signal = expected.get("signal")
        accepted = frozenset(str(kind) for kind in (*(raw.get("accept_also") or ()), signal) if kind)
        return Case(
            str(raw["id"]), str(raw["kind"]), str(raw.get("group", "")), signal, accepted,
            expected.get("not_before"), expected.get("at_latest"), int(expected.get("onset") or 0),
            tuple(self.events), tuple(self.items), self._limits(), len(self.history),
        )  # fmt: skip

    def _add(self, item: int, fact: Fact) -> None:
        self.events.append(Event(len(self.events), self.clock, fact))
        self.items.append(item)

    def _begin(self) -> None:
        role: Role = self.raw.get("agent_role") or ("acting" if self.contract.get("acting") else "coordinating")
        facts = tuple(
            ToolFacts(name, _KINDS[_class(tool)], tool.get("target_arg"), repeatable=_class(tool) == "sample")
            for name, tool in self.tools.items()
        )
        task = next((str(item["text"]) for item in self.history if item.get("role") == "user"), "")
        self._add(
            0, RunStarted(run=str(self.raw["id"]), agent="case", task=task, role=role, tools=facts, source="case")
        )

    def _limits(self) -> dict[str, ToolLimits]:
        return {
            name: ToolLimits(poll_budget=float(tool["poll_budget_s"]))
            for name, tool in self.tools.items()
            if tool.get("poll_budget_s")
        }

    def _item(self, at: int) -> int:
        item = self.history[at]
        if "tool" in item:
            return self._batch(at)
        text, role = str(item.get("text") or ""), item.get("role", "model")
        if role in ("user", "runtime"):
            self._add(at, MessageReceived("user" if role == "user" else "runtime", text))
            return at + 1
        turn = int(item.get("turn", at + 1))
        self._add(at, ModelReplied(turn=turn, attempt=1, text=text))
        for name in self.contract.get("required_effects") or ():
            self._add(at, CheckEvaluated(str(name), name in self.done))
        return at + 1

    def _batch(self, at: int) -> int:
        """All calls of one turn: one reply that asks for them, then their results."""
        turn = int(self.history[at].get("turn", at + 1))
        end = at
        while (
            end < len(self.history) and "tool" in self.history[end] and self.history[end].get("turn", end + 1) == turn
        ):
            end += 1
        batch = self.history[at:end]
        calls = tuple(self._call(turn, place, item) for place, item in enumerate(batch))
        self.clock = max(self.clock, float(batch[0].get("started_s") or 0))
        self._add(at, ModelReplied(turn=turn, attempt=1, text="", calls=calls, stop="calls"))
        for place, (call, item) in enumerate(zip(calls, batch, strict=True)):
            self._finish(at + place, call, item)
        return end

    def _call(self, turn: int, place: int, item: _Object) -> Call:
        tool = self.tools.get(item["tool"], {})
        arguments: Mapping[str, JSON] = item.get("args") or {}
        target = arguments.get(tool.get("target_arg") or "")
        return Call(
            turn, place, f"{turn}.{place}", str(item["tool"]), arguments, _KINDS[_class(tool)],
            None if target is None else str(target),
        )  # fmt: skip

    def _finish(self, at: int, call: Call, item: _Object) -> None:
        tool = self.tools.get(call.tool)
        error = bool(item.get("is_error"))
        if tool is None and error:
            self._add(at, ToolRefused(call, "unknown-tool", str(item.get("result"))))
            return
        self.clock = max(self.clock, float(item.get("started_s") or 0))
        self._add(at, ToolStarted(call.turn, call.position, call.tool))
        if "ended_s" in item and item["ended_s"] is None:
            return
        self.clock = max(self.clock, float(item.get("ended_s") or 0))
        changed = item.get("state_changed")
        if tool is not None and _class(tool) == "plan":
            changed = False
        if not error and not (changed is False and call.kind in ("write", "message")):
            self.done.add(call.tool)
        self._add(at, ToolFinished(call, item.get("result"), error=error, state_changed=changed))

    def _silence(self) -> None:
        """A history that ends in silence says when it was looked at, and when there was a last sign of life."""
        if "now_s" not in self.raw:
            return
        self.clock = float(self.raw["now_s"])
        last: _Object = self.history[-1] if self.history else {}
        inside = "ended_s" in last and last["ended_s"] is None
        beat = float(self.raw.get("last_beat_s") or 0)
        self._add(max(0, len(self.history) - 1), TickPassed(beat, "tool" if inside else "own"))


def _class(tool: _Object) -> str:
    return str(tool.get("class") or ("read" if tool.get("read_only") else "exec"))
