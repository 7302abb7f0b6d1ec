"""Calls that a model wrote as text instead of making them.

Small models, long tool lists and mismatched templates all lead to it: the model means a call and prints one, in a
fence, between tags, or bare. Such a text is no answer for a customer. What is found here is only reported, with the
same care as a real call: what has no end is marked as cut, and nothing is repaired. Whether to act is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import cast

import orjson

from capataz.events.facts import JSON
from capataz.models.dialects.codec import dumps, unterminated, wire_name
from capataz.ports import RawCall

_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "params", "tool_input", "action_input", "kwargs")

# Where a call may be written: what opens it, what closes it.
_TAGS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(opens, re.IGNORECASE), re.compile(closes, re.IGNORECASE))
    for opens, closes in (
        (r"<tool_calls?>", r"</tool_calls?>"),
        (r"<function_calls?>", r"</function_calls?>"),
        (r"<tools?>", r"</tools?>"),
        (r"<\|tool_calls?_(?:section_)?begin\|>", r"<\|tool_calls?_(?:section_)?end\|>"),
        (r"<｜tool▁calls▁begin｜>", r"<｜tool▁calls▁end｜>"),
        (r"\[TOOL_CALLS?\]", r"\[/TOOL_CALLS?\]|\Z"),
        (r"<\|python_tag\|>", r"<\|eom_id\|>|<\|eot_id\|>|\Z"),
    )
)
_INVOKE = re.compile(
    r"<(?:invoke|function|tool)(?:\s+name)?\s*=\s*\"?([\w.:/-]+)\"?\s*>(.*?)(</(?:invoke|function|tool)>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_PARAMETER = re.compile(
    r"<parameter(?:\s+name)?\s*=\s*\"?([\w.-]+)\"?\s*>\n?(.*?)\n?</parameter>", re.IGNORECASE | re.DOTALL
)
_FENCE = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\n?(.*?)(```|\Z)", re.DOTALL)
_SEPARATED = re.compile(
    r"(?:function)?<｜tool▁sep｜>\s*([\w.:/-]+)\s*(?:```json)?\s*(.*?)(?:```)?\s*(?:<｜tool▁call▁end｜>|\Z)", re.DOTALL
)
_NAMED = re.compile(r"\"(?:" + "|".join(_NAMES) + r")\"\s*:\s*\"([^\"]*)(\"?)")
_MOST = 32


def calls_in_text(text: str, tool_names: Collection[str]) -> tuple[RawCall, ...]:
    """The calls written in a text, of tools that were offered; none where no tool was.

    `cut` marks those without an end: an open tag, JSON that stops. An open tag in which no name can be read yet gives
    a call without a name. Call ids are made up from the position.

    >>> calls_in_text('```json\\n{"name": "f", "arguments": {"a": 1}}\\n```', ["f"])
    (RawCall(id='text_0', name='f', arguments='{"a":1}', cut=False),)
    >>> calls_in_text('<tool_call>\\n{"name": "f", "argu', ["f"])[0].cut
    True
    """
    names = {**{wire_name(name): name for name in tool_names}, **{name: name for name in tool_names}}
    if not names or not any(mark in text for mark in ("{", "<", "[")):
        return ()
    found = list(_found(text, names))[:_MOST]
    return tuple(RawCall(f"text_{at}", call.name, call.arguments, call.cut) for at, call in enumerate(found))


def _found(text: str, names: dict[str, str]) -> Iterator[RawCall]:
    for scope in (_tagged, _invoked, _fenced, _bare):
        calls = list(scope(text, names))
        if calls:
            yield from calls
            return


def _tagged(text: str, names: dict[str, str]) -> Iterator[RawCall]:
    for opens, closes in _TAGS:
        at = 0
        while (start := opens.search(text, at)) is not None:
            again = opens.search(text, start.end())
            end = closes.search(text, start.end())
            if end is None or (again is not None and again.start() < end.start()):
                stop, ended = again.start() if again is not None else len(text), False
            else:
                stop, ended = end.start(), True
            at = max(stop, start.end())
            yield from _inside(text[start.end() : stop], ended, names)


def _inside(inner: str, ended: bool, names: dict[str, str]) -> Iterator[RawCall]:
    """What stands between two tags: JSON, or a form of its own."""
    calls = list(_invoked(inner, names)) or list(_separated(inner, ended, names))
    body = _FENCE.search(inner)
    calls = calls or list(_read(body[2] if body else inner, ended, names))
    if not calls and not ended and len(inner) < 4000 and not _NAMED.search(inner):
        calls = [RawCall("", "", inner.strip(), True)]
    yield from (RawCall("", call.name, call.arguments, call.cut or not ended) for call in calls)


def _separated(inner: str, ended: bool, names: dict[str, str]) -> Iterator[RawCall]:
    for match in _SEPARATED.finditer(inner):
        if match[1] in names:
            written = match[2].strip()
            yield RawCall("", names[match[1]], written, not ended or unterminated(written))


def _invoked(text: str, names: dict[str, str]) -> Iterator[RawCall]:
    for match in _INVOKE.finditer(text):
        if match[1] not in names:
            continue
        inner, cut = match[2].strip(), not match[3]
        if inner.startswith("{"):
            yield RawCall("", names[match[1]], inner, cut or unterminated(inner))
        else:
            values = {name: _value(value) for name, value in _PARAMETER.findall(inner)}
            yield RawCall("", names[match[1]], dumps(values).decode(), cut)


def _value(text: str) -> JSON:
    try:
        return cast("JSON", orjson.loads(text))
    except ValueError:
        return text


def _fenced(text: str, names: dict[str, str]) -> Iterator[RawCall]:
    for match in _FENCE.finditer(text):
        if match[1].lower() in ("", "json", "tool_call", "tool", "tool_code", "xml", "jsonc", "json5"):
            yield from _read(match[2], bool(match[3]), names)


def _bare(text: str, names: dict[str, str]) -> Iterator[RawCall]:
    """The whole text is a call and nothing else, or prose that ends in one."""
    start = min((at for at in (text.find("{"), text.find("[{")) if at >= 0), default=-1)
    if start >= 0:
        yield from _read(text[start:], True, names, bare=True)


def _read(text: str, ended: bool, names: dict[str, str], bare: bool = False) -> Iterator[RawCall]:
    """Calls in a stretch of JSON: one, a list, or one a line."""
    text = text.strip()
    try:
        values = [cast("JSON", orjson.loads(text))]
    except ValueError:
        values = _lines(text)
    if values:
        for value in values:
            for item in value if isinstance(value, list) else [value]:
                call = _call(item, names)
                if call is not None:
                    yield RawCall("", call.name, call.arguments, not ended)
    elif unterminated(text) or (not ended and not bare):
        name = _NAMED.search(text)
        if name is not None and name[1] in names and _argued(text[name.end() :]):
            yield RawCall("", names[name[1]], text, True)


def _argued(rest: str) -> bool:
    """Whether what follows a name is, or begins to be, its arguments: a mere object with a name is no call."""
    rest = rest.strip().removeprefix(",").strip()
    return any(f'"{key}"'.startswith(rest) or f'"{key}"' in rest for key in _ARGUMENTS)


def _lines(text: str) -> list[JSON]:
    values: list[JSON] = []
    for line in re.split(r"\n(?=\s*[{\[])", text):
        try:
            values.append(cast("JSON", orjson.loads(line.strip().rstrip(",;"))))
        except ValueError:
            return []
    return values


def _call(value: JSON, names: dict[str, str]) -> RawCall | None:
    """A call in one of the usual forms; None for any other JSON, and for names nobody offered."""
    if not isinstance(value, dict):
        return None
    for key in ("tool_call", "function_call", "function"):
        inner = value.get(key)
        if isinstance(inner, dict):
            return _call({**{name: part for name, part in value.items() if name != key}, **inner}, names)
    calls = value.get("tool_calls")
    if isinstance(calls, list) and len(calls) == 1:
        return _call(calls[0], names)
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    if not isinstance(name, str) or name.removeprefix("functions.") not in names:
        return None
    arguments = next((value[key] for key in _ARGUMENTS if key in value), None)
    if arguments is None and len(value) > 1:
        return None
    written = arguments if isinstance(arguments, str) else "{}" if arguments is None else dumps(arguments).decode()
    return RawCall("", names[name.removeprefix("functions.")], written)
