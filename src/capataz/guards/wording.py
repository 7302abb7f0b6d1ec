"""Small words the guards share, so that a person and a model read the same figures everywhere."""

from __future__ import annotations

from capataz.guards.reading import Step

_LONGEST = 80


def named(step: Step) -> str:
    """The call as a person would write it, cut to a line.

    Only for words that leave the guard in a signal: nothing of it is kept.
    """
    shown = step.arguments[: _LONGEST * 2].decode(errors="replace")
    if len(shown) > _LONGEST:
        shown = shown[: _LONGEST - 1] + "…"
    return f"{step.tool}({'' if shown == '{}' else shown})"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `4th`.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st']
    """
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
