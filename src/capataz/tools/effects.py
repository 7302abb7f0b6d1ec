"""Asking a tool's read-back whether its effect is there: yes, no, or unknown with the reason.

Only a plain "yes" can complete a run, so everything that is not clearly yes or no is unknown: an exception, a
time-out, a status text that would have to be interpreted. This module never decides what an answer means.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Literal

from capataz.events.facts import JSON, Answer3, Call
from capataz.tools.define import Tool
from capataz.tools.usercode import Raised, Returned, Threads, run_user_code
from capataz.tools.wording import BadArguments, short_error

CONFIRM_SECONDS = 10.0


async def confirm(
    tool: Tool,
    call: Call,
    result: JSON,
    key: str,
    *,
    phase: Literal["before", "after"],
    threads: Threads,
    seconds: float = CONFIRM_SECONDS,
) -> tuple[Answer3, str]:
    """The answer and, in words, why. `result` is what the tool gave back (None before the act).

    Never raises, except for the caller's own cancellation. Comes back within `seconds`.
    """
    if tool.readback is None:
        return "unknown", f"{tool.name} has no confirm"
    try:
        arguments = tool.signature.bind(call.arguments)
    except BadArguments as bad:
        return "unknown", f"confirm was not asked: {bad}"
    given = tool.readback.select(arguments, {"result": result, "idempotency_key": key, "phase": phase})
    ending = await run_user_code(
        tool.readback.function, given, asynchronous=tool.readback.asynchronous, limit=seconds, threads=threads
    )
    match ending:
        case Returned(value):
            return read_answer(value, "confirm")
        case Raised(error):
            return "unknown", f"confirm failed: {short_error(error)}"
        case _:
            return "unknown", f"confirm gave no answer within {seconds:g} s"


def read_answer(value: Any, who: str) -> tuple[Answer3, str]:
    """What a value says as an answer: True or something found is yes, False or nothing found is no.

    Only shapes that can mean one thing count: bool, a count, "yes" and "no", rows or a record that was found, or one
    of these with the reason beside it. Everything else is unknown: "failed" is something, but it is no yes.
    """
    if (pair := _pair(value)) is not None:
        answer, _ = read_answer(pair[0], who)
        return answer, pair[1] or f"{who} answered {answer}"
    if value is None:
        return "unknown", f"{who} answered None: it does not know"
    if isinstance(value, str):
        return _read_word(value, who)
    if isinstance(value, bool):
        return ("yes", f"{who} answered yes") if value else ("no", f"{who} answered no")
    if isinstance(value, int | float) and value >= 0:
        return ("yes", f"{who} counted {value}") if value > 0 else ("no", f"{who} counted none")
    if (found := _found(value)) is not None:
        return ("yes", f"{who} found something") if found else ("no", f"{who} found nothing")
    what = type(value).__name__
    return "unknown", f"{who} answered with a {what}, which is neither yes nor no: let it return True, False or None"


def _read_word(value: str, who: str) -> tuple[Answer3, str]:
    word = value.strip().lower()
    if word == "yes":
        return "yes", f"{who} answered yes"
    if word in ("no", ""):
        return "no", f"{who} answered no"
    said = "that it does not know" if word == "unknown" else "with a text: let it return True, False or None"
    return "unknown", f"{who} answered {said}"


def _pair(value: Any) -> tuple[Any, str] | None:
    """An answer with its reason, rather than a row of a table."""
    if not isinstance(value, tuple):
        return None
    items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
    if len(items) != 2 or not isinstance(items[1], str):
        return None
    first, reason = items
    word = isinstance(first, str) and first.strip().lower() in ("yes", "no", "unknown", "true", "false")
    return (first, reason) if word or first is None or isinstance(first, bool | int | float) else None


def _found(value: Any) -> int | None:
    """How much was found: rows, or a record. None for what says something else, or could mean anything."""
    if isinstance(value, dict):
        fields: list[Any] = list(value.values())  # pyright: ignore[reportUnknownArgumentType]
        return None if any(item is False or item is None for item in fields) else len(fields)
    if isinstance(value, bytes | bytearray | memoryview) or not isinstance(value, Sized):
        return None
    return len(value)
