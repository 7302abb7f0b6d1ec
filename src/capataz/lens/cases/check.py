"""Whether a labelled case says what it means: every mistake in a label, with the field it stands in and how to mend it.

A wrong label that is scored in silence is worse than none: it makes guards look good or bad for no reason. Fields that
are not known are somebody's own notes and are let be, unless they look like a known one spelt wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any, TypeAlias, cast, get_args

from capataz.events.facts import Role

Object: TypeAlias = Mapping[str, Any]
LOOPS = ("identical", "target", "alternating", "cycle-n", "no-progress", "empty-search", "error-repeat")
GATES = ("narration", "false-done", "hung")
CLASSES = ("read", "search", "poll", "write", "exec", "message", "ui", "plan", "sample")
ROLES = ("user", "runtime", "model")
_WRONG = (*LOOPS, *GATES)
_ALIKE = 0.86
"""How much an unknown name must look like a known one to be taken for a slip."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What one field must be, and how to say so."""

    words: str
    kinds: tuple[type, ...] = ()
    one_of: tuple[str, ...] = ()
    null: bool = True
    needed: bool = False

    def wrong(self, value: object) -> str | None:
        """What is the matter with this value; None when nothing is."""
        if value is None and self.null:
            return None
        if self.one_of:
            return (
                None if value in self.one_of else f"is {_shown(value)}; give {self.words}{_meant(value, self.one_of)}"
            )
        if isinstance(value, bool) != (bool in self.kinds) or not isinstance(value, self.kinds):
            return f"is {_shown(value)}; give {self.words}"
        if isinstance(value, int | float) and not isinstance(value, bool) and not (isfinite(value) and value >= 0):
            return f"is {_shown(value)}; give {self.words}"
        return None


def _one_of(words: Sequence[str], null: bool = False, needed: bool = False) -> _Shape:
    return _Shape(f"one of {', '.join(words)}", one_of=tuple(words), null=null, needed=needed)


_TEXT, _FLAG, _OBJECT = _Shape("a text", (str,)), _Shape("true or false", (bool,)), _Shape("an object", (dict,))
_LIST, _ANY = _Shape("a list", (list,)), _Shape("anything", (object,))
_INDEX = _Shape("an index of the history, counted from 0, or null", (int,))
_COUNT, _SECONDS = _Shape("a whole number from 0 on", (int,)), _Shape("a number of seconds from 0 on", (int, float))
_NAME = _Shape("a text", (str,), null=False, needed=True)

_CASE: Mapping[str, _Shape] = {
    "id": _NAME, "kind": _one_of(("healthy", *_WRONG), needed=True), "tools": _OBJECT,
    "history": _Shape("a list of what happened", (list,), null=False, needed=True), "expected": _OBJECT,
    "contract": _OBJECT, "agent_role": _one_of(get_args(Role), null=True), "now_s": _SECONDS, "last_beat_s": _SECONDS,
    "accept_also": _LIST, "group": _TEXT,
}  # fmt: skip
_EXPECTED: Mapping[str, _Shape] = {
    "signal": _one_of(_WRONG, null=True), "not_before": _INDEX, "at_latest": _INDEX, "onset": _INDEX,
}  # fmt: skip
_TOOL: Mapping[str, _Shape] = {
    "class": _one_of(CLASSES, null=True), "read_only": _FLAG, "target_arg": _TEXT, "poll_budget_s": _SECONDS,
}  # fmt: skip
_CALL: Mapping[str, _Shape] = {
    "turn": _COUNT, "tool": _NAME, "args": _OBJECT, "is_error": _FLAG, "state_changed": _FLAG,
    "started_s": _SECONDS, "ended_s": _SECONDS,
}  # fmt: skip
_SAID: Mapping[str, _Shape] = {
    "turn": _COUNT, "text": _Shape("a text", (str,), null=False, needed=True), "role": _one_of(ROLES, null=True),
}  # fmt: skip
_CONTRACT: Mapping[str, _Shape] = {"acting": _FLAG, "required_effects": _LIST}
_NOTES = (
    "why", "source", "trade", "result", "lenient_nudge", "nudge_ok_from", "first_onset", "cut_not_before",
    "nudge_signal", "error_action_ok_from",
)  # fmt: skip
"""Names that mean something to people who label, and nothing here."""


def mistakes(raw: object) -> Iterator[str]:
    """Every mistake in one case: "expected.not_before is 9, but ...". Nothing when it can be scored.

    >>> list(mistakes({"id": "a", "kind": "loop", "history": [{"text": "hi"}]}))[0][:21]
    "kind is 'loop'; give "
    """
    if not isinstance(raw, Mapping):
        yield f"is {_shown(raw)}; give an object with id, kind and history"
        return
    case = cast(Object, raw)
    found = list(_fields(case, _CASE, ""))
    yield from found
    broken = {words.split()[0].partition("[")[0].partition(".")[0] for words in found}
    tools: Object = case.get("tools") or {} if "tools" not in broken else {}
    for name, tool in tools.items():
        yield from _object(tool, _TOOL, f"tools.{name}")
    if "history" not in broken:
        yield from _history(cast("list[object]", case["history"]), tools)
    if "contract" not in broken:
        yield from _object(case.get("contract") or {}, _CONTRACT, "contract")
    yield from _names(case, broken)
    if "expected" not in broken and "kind" not in broken:
        yield from _label(case, 0 if "history" in broken else len(case["history"]))


def _object(value: object, shapes: Mapping[str, _Shape], at: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _fields(cast(Object, value), shapes, f"{at}.")
    else:
        yield f"{at} is {_shown(value)}; give an object"


def _fields(held: Object, shapes: Mapping[str, _Shape], at: str) -> Iterator[str]:
    for name, shape in shapes.items():
        if name not in held:
            if shape.needed:
                yield f"{at}{name} is missing; give {shape.words}"
        elif (wrong := shape.wrong(held[name])) is not None:
            yield f"{at}{name} {wrong}"
        elif shape is _NAME and not held[name]:
            yield f"{at}{name} is empty; give {shape.words}"
    for name in held:
        if name not in shapes and name not in _NOTES:
            near = get_close_matches(name, [known for known in shapes if known not in held], 1, _ALIKE)
            if near:
                yield f"{at}{name} is no field; did you mean {near[0]}?"


def _history(history: Sequence[object], tools: Object) -> Iterator[str]:
    if not history:
        yield "history is empty; give at least one call or text"
    turn = 0
    for place, item in enumerate(history):
        at = f"history[{place}]"
        held = _held(item)
        if ("tool" in held) == ("text" in held):
            yield f"{at} is {_shown(item)}; give an object with either tool (a call) or text"
            continue
        found = list(_fields(held, _CALL if "tool" in held else _SAID, f"{at}."))
        yield from found
        if found:
            continue
        yield from _order(held, at, turn)
        turn = max(turn, held.get("turn") or 0)
        tool = held.get("tool")
        if tool is None or tool in tools or held.get("is_error"):
            continue
        if near := _meant(tool, tuple(tools)):  # a tool may go undeclared, a slip may not
            yield f"{at}.tool is {tool!r}, which is not under tools; declare it there{near}"


def _held(item: object) -> Object:
    return cast(Object, item) if isinstance(item, Mapping) else {}


def _order(item: Object, at: str, turn: int) -> Iterator[str]:
    """Time and turns run forward."""
    if (now := item.get("turn")) is not None and now < turn:
        yield f"{at}.turn is {now}, after turn {turn}; put the history in order"
    started, ended = item.get("started_s"), item.get("ended_s")
    if started is not None and ended is not None and ended < started:
        yield f"{at}.ended_s is {ended}, before started_s {started}; give seconds from the start of the run"


def _names(case: Object, broken: Iterable[str]) -> Iterator[str]:
    """Lists of names hold names."""
    if "accept_also" not in broken:
        for place, kind in enumerate(case.get("accept_also") or ()):
            if kind not in _WRONG:
                yield f"accept_also[{place}] is {_shown(kind)}; give one of {', '.join(_WRONG)}{_meant(kind, _WRONG)}"
    contract: Object = case.get("contract") or {} if "contract" not in broken else {}
    effects: object = contract.get("required_effects")
    for place, name in enumerate(cast("list[object]", effects) if isinstance(effects, list) else ()):
        if not isinstance(name, str) or not name:
            yield f"contract.required_effects[{place}] is {_shown(name)}; give the name of a tool"


def _label(case: Object, steps: int) -> Iterator[str]:
    """The label by itself, against the kind, and against the length of the history."""
    kind, expected = case["kind"], case.get("expected")
    if expected is None:
        if kind != "healthy":
            yield "expected is missing; give signal, and not_before and at_latest where not any place is right"
        return
    found = list(_fields(expected, _EXPECTED, "expected."))
    yield from found
    if found:
        return
    for name in ("not_before", "onset"):  # what may come at the latest may lie beyond the end
        at = expected.get(name)
        if at is not None and steps and at >= steps:
            yield f"expected.{name} is {at}, but the history ends at {steps - 1}; give an index of the history"
    if kind == "healthy":
        for name in ("signal", "not_before", "at_latest"):
            if expected.get(name) is not None:
                yield f"expected.{name} is {_shown(expected[name])}, but kind is healthy; give null, or another kind"
    else:
        yield from _window(expected)


def _window(expected: Object) -> Iterator[str]:
    """A case of something wrong says what is to be noticed; where no place is given, any is right."""
    if expected.get("signal") is None:
        yield f"expected.signal is missing; give one of {', '.join(_WRONG)}, or make kind healthy"
    first, last, onset = expected.get("not_before"), expected.get("at_latest"), expected.get("onset") or 0
    if first is not None and last is not None and first > last:
        yield f"expected.not_before is {first}, after at_latest {last}; the window must begin before it ends"
    if last is not None and onset > last:
        yield f"expected.onset is {onset}, after at_latest {last}; give the index where the loop begins"


def _meant(value: object, names: Sequence[str]) -> str:
    near = get_close_matches(value, names, 1, 0.6) if isinstance(value, str) else []
    return f" (did you mean {near[0]}?)" if near else ""


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
