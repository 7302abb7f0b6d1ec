"""What an exception says, with everything that hangs on it.

Secrets leave through exceptions more than through anything else: a failed request's URL, a connection string, the
cause of a cause, a note. This gathers the whole text so that it can be masked in one piece. It must never look into
the objects an exception carries (requests, responses, clients): only what it says of itself.
"""

from __future__ import annotations

from collections.abc import Iterator

MOST = 50
"""Exceptions of one chain or group that are told."""


def told(error: BaseException) -> str:
    """One line per exception, the outermost first; what a note says goes below its exception. Not masked.

    >>> told(ValueError("no such order"))
    'ValueError: no such order'
    """
    return "\n".join(_lines(error, "", set()))


def _lines(error: BaseException, how: str, seen: set[int]) -> Iterator[str]:
    if id(error) in seen or len(seen) >= MOST:
        return
    seen.add(id(error))
    says = _says(error)
    yield f"{how}{type(error).__name__}: {says}" if says else f"{how}{type(error).__name__}"
    for note in _notes(error):
        yield f"  note: {note}"
    if isinstance(error, BaseExceptionGroup):
        inside: tuple[BaseException, ...] = error.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        for inner in inside:
            yield from _lines(inner, "  one of them: ", seen)
    if error.__cause__ is not None:
        yield from _lines(error.__cause__, "caused by: ", seen)
    elif error.__context__ is not None and not error.__suppress_context__:
        yield from _lines(error.__context__, "while handling: ", seen)


def _says(error: BaseException) -> str:
    try:
        return str(error)
    except (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError):
        return "(cannot say what it is)"


def _notes(error: BaseException) -> list[str]:
    notes: list[object] = list(getattr(error, "__notes__", None) or ())
    return [note for note in notes if isinstance(note, str)]
