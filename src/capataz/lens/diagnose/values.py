"""The values in a text that can be looked up elsewhere: numbers, dates, times, ids and addresses, each in one form.

`1,250.00` is `1250`, `May 3, 2024` is `2024-05-03`, an id is never torn apart. Pure, and fast enough for every
message of every run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

_TOKEN = re.compile(r"[A-Za-z0-9_#$€£@][\w@#.:/%+-]*(?:,\d{3})*(?:\.\d+)?", re.ASCII)
_NUMBER = re.compile(r"[$€£]?-?\d+(?:\.\d+)?%?")
_GROUPED = re.compile(r"(?<![\d.])(\d{1,3}(?:,\d{3})+)(?![\d])")
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = {name: number for number, month in enumerate(_MONTHS, 1) for name in (month, month[:3])}
_MONTH["sept"] = 9
_WRITTEN = re.compile(r"\b([A-Za-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?\b(?:,? (\d{4})\b)?")
_REVERSED = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)? (?:of )?([A-Za-z]{3,9})\b\.?(?:,? (\d{4})\b)?")
_ISO = re.compile(r"(?<!\d)(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)T?")
_CLOCK = re.compile(r"(?<![\d:])(\d{1,2}):(\d{2})(?::\d{2})?\s*([ap]\.?m\.?)?", re.I)
_BULLET = re.compile(r"^[ \t]*(?:\d{1,3}[.)]|[-*#]+)\s+", re.M)
_TELLING = re.compile(r"[0-9@]")
_DIGIT = re.compile(r"[0-9]")
_EDGE = ".,:;/+-%#$€£@"
_LONGEST = 200_000
"""Characters of one text that are read; more is left out."""


def values(text: str) -> Iterator[str]:
    """The values of a text, in order, each in its one form. Small whole numbers (below 13) are left out.

    >>> list(values("Order #W81: 2 items, $1,250.00 on May 3, 2024 at 3:05 pm"))
    ['2024-05-03', '15:05', 'w81', '1250']
    """
    text = text[:_LONGEST]
    if _TELLING.search(text) is None:
        return
    text = _BULLET.sub(" ", text)
    found: list[str] = []
    text = _WRITTEN.sub(lambda m: _named(found, m, m.group(1), m.group(2)), text)
    text = _REVERSED.sub(lambda m: _named(found, m, m.group(2), m.group(1)), text)
    text = _ISO.sub(lambda m: _dated(found, m.group(1), int(m.group(2)), m.group(3)) or m.group(), text)
    text = _CLOCK.sub(lambda m: _timed(found, m), text)
    yield from found
    text = _GROUPED.sub(lambda m: m.group(1).replace(",", ""), text)
    for token in _TOKEN.findall(text):
        value = plain(token)
        if value is not None:
            yield value


def plain(token: str) -> str | None:
    """One token in its one form; None where it is a word, or too small a number to tell anything."""
    bare = token.strip(_EDGE)
    if _DIGIT.search(bare) is None:
        return bare.lower() if "@" in bare and "." in bare else None
    if len(bare) <= 24 and _NUMBER.fullmatch(bare):
        number = float(bare)
        if number == int(number) and abs(number) < 13:
            return None
        return str(int(number)) if number == int(number) and abs(number) < 1e15 else f"{number:.10g}"
    return bare.lower()


def number(value: str) -> float | None:
    """The number a value is, if it is one."""
    return float(value) if _NUMBER.fullmatch(value) and len(value) < 16 else None


def pieces(value: str) -> Iterator[str]:
    """The parts of a composed value that are values themselves (`2024-05-03/15:05`, `a_17`)."""
    for part in re.split(r"[^0-9a-z@.]+", value):
        inner = plain(part)
        if inner is not None:
            yield inner


def _named(found: list[str], match: re.Match[str], month: str, day: str) -> str:
    """What stands in the text after a day and a word beside it: nothing if the word is a month."""
    number = _MONTH.get(month.lower())
    return match.group() if number is None else _dated(found, match.group(3), number, day) or match.group()


def _dated(found: list[str], year: str | None, month: int, day: str) -> str:
    """A space, once the date is taken; nothing where there is no such day."""
    try:
        stamp = date(int(year) if year else 2000, month, int(day))
    except ValueError:
        return ""
    found.append(stamp.isoformat() if year else stamp.isoformat()[5:])
    return " "


def _timed(found: list[str], match: re.Match[str]) -> str:
    hour, half = int(match.group(1)), (match.group(3) or "").lower().replace(".", "")
    if half == "pm" and hour < 12:
        hour += 12
    if half == "am" and hour == 12:
        hour = 0
    found.append(f"{hour:02d}:{match.group(2)}")
    return " "
