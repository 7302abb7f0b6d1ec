"""Asking a tool's read-back whether its effect is there: yes, no, or unknown with the reason.

Only a plain "yes" can complete a run, so everything that is not clearly yes or no is unknown: an exception, a
time-out, a status text that would have to be interpreted. This module never decides what an answer means.
"""

from __future__ import annotations

from typing import Any, Literal

from capataz.events.facts import JSON, Answer3, Call
from capataz.tools.define import Tool
from capataz.tools.signature import BadArguments
from capataz.tools.usercode import Raised, Returned, Threads, Trap, run_user_code
from capataz.tools.wording import short_error

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

    None is unknown, and so is any text but "yes", "no" and "unknown": "failed" is something, but it is no yes.
    """
    if value is None:
        return "unknown", f"{who} answered None: it does not know"
    if isinstance(value, str):
        word = value.strip().lower()
        if word == "yes":
            return "yes", f"{who} answered yes"
        if word in ("no", ""):
            return "no", f"{who} answered no"
        said = "that it does not know" if word == "unknown" else "with a text: let it return True, False or None"
        return "unknown", f"{who} answered {said}"
    with Trap() as trap:
        return ("yes", f"{who} answered yes") if value else ("no", f"{who} answered no")
    why = f"a {type(value).__name__} that is neither true nor false ({short_error(trap.error)})"
    return "unknown", f"{who} answered with {why}"
