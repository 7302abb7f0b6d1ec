"""Words for the model: what was wrong with its arguments, what an exception said.

Short, in the second person's terms (which argument, what was wrong, what is expected), without stack traces, places
in our code, links or the values themselves, which the model wrote and a log may not be allowed to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from capataz.events.facts import JSON
from capataz.faults.words import masked
from capataz.tools.usercode import Trap

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

LONGEST_ERROR = 500
MOST_PROBLEMS = 5


class BadArguments(Exception):
    """The arguments do not fit. The text is for the model. Never leaves this package."""

    def __init__(self, words: str, *, unreadable: bool = False) -> None:
        super().__init__(words)
        self.unreadable = unreadable


def short_error(error: BaseException | None) -> str:
    """`ValueError: message` for any exception, however badly it behaves; a group is told by its leaves."""
    if error is None:
        return "unknown error"
    words = "; ".join(dict.fromkeys(_one_line(leaf) for leaf in _leaves(error)))
    return masked(words if len(words) <= LONGEST_ERROR else f"{words[: LONGEST_ERROR - 1]}…")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _one_line(error: BaseException) -> str:
    name = type(error).__name__
    text = ""
    with Trap():
        text = str(error)
    text = text.partition("Traceback (most recent call last)")[0]
    lines = (line.strip() for line in text.splitlines())
    kept = " ".join(line for line in lines if line and not line.startswith("For further information visit"))
    return f"{name}: {kept}" if kept else name


def argument_problems(error: BaseException | None, names: Sequence[str], text: str | bytes) -> BadArguments:
    """What validation found wrong, as one sentence for each problem."""
    from pydantic import ValidationError
    from pydantic_core import from_json

    if not isinstance(error, ValidationError):
        return BadArguments(f"the arguments could not be checked ({short_error(error)})")
    details = error.errors(include_url=False)
    if details[0]["type"] == "json_invalid":
        reason = str(details[0]["msg"]).removeprefix("Invalid JSON: ")
        return BadArguments(f"the arguments are not valid JSON ({reason})", unreadable=True)
    if not details[0]["loc"] and details[0]["type"] == "model_type":
        return BadArguments(f"the arguments must be a JSON object with {_listed(names)}", unreadable=True)
    received: JSON = from_json(text)
    words = list(dict.fromkeys(_problem(detail, names, received) for detail in details))
    more = f"; and {len(words) - MOST_PROBLEMS} more" if len(words) > MOST_PROBLEMS else ""
    return BadArguments("; ".join(words[:MOST_PROBLEMS]) + more)


def _problem(detail: ErrorDetails, names: Sequence[str], received: JSON) -> str:
    place = _place(detail["loc"], received)
    match detail["type"]:
        case "missing":
            return f"{place} is missing"
        case "extra_forbidden" if len(detail["loc"]) == 1:
            return f"there is no argument {place}; this tool takes {_listed(names)}"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"{place} is not allowed there"
        case _:
            words = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
            expected = words.removeprefix("Input should be ")
            if expected == words:
                return f"{place}: {words[:200]}"
            received_instead = "" if "," in expected else f", not {_what(detail['input'])}"
            return f"{place} should be {expected[:200]}{received_instead}"


def _place(loc: tuple[int | str, ...], received: JSON) -> str:
    """`items[0].price`. What pydantic calls the branches of a union are no places: only what was received counts."""
    place = ""
    for part in loc:
        if isinstance(part, int):
            place += f"[{part}]"
            received = received[part] if isinstance(received, list) and part < len(received) else None
        elif isinstance(received, dict) and (part in received or part == loc[-1]):
            place += f".{part}"
            received = received.get(part)
    return place.removeprefix(".") or "the arguments"


def _what(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "text" if value else "empty text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "no arguments"
