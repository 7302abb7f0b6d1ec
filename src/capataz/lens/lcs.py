"""The longest common subsequence of two lists of keys: what two runs have in common, in order.

One long integer for each row, a bit for each column (the recurrence of Hyyrö), so that runs of thousands of steps are
compared in a moment. What both begin and end with is matched first.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

MOST = 12_000
"""Steps on each side, after what both begin and end with, that are aligned; what lies behind is taken as different."""


def common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs of places that match, in order.

    >>> common("abcd", "axcd")
    [(0, 0), (2, 2), (3, 3)]
    """
    start, least = 0, min(len(a), len(b))
    while start < least and a[start] == b[start]:
        start += 1
    end = 0
    while end < least - start and a[-1 - end] == b[-1 - end]:
        end += 1
    inner = _middle(a[start : len(a) - end][:MOST], b[start : len(b) - end][:MOST])
    return [
        *((place, place) for place in range(start)),
        *((start + i, start + j) for i, j in inner),
        *((len(a) - place, len(b) - place) for place in range(end, 0, -1)),
    ]


def _middle(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    places: dict[Hashable, int] = {}
    for column, key in enumerate(b):
        places[key] = places.get(key, 0) | (1 << column)
    full = (1 << len(b)) - 1
    row, rows = full, list[int]()
    for key in a:
        match = row & places.get(key, 0)
        row = ((row + match) | (row - match)) & full
        rows.append(row)
    return _walked(rows, len(b))


def _walked(rows: list[int], columns: int) -> list[tuple[int, int]]:
    """Back from the last corner: a clear bit that is set in the row above is a match."""
    found: list[tuple[int, int]] = []
    row, column = len(rows), columns
    while row and column:
        bit = 1 << (column - 1)
        if rows[row - 1] & bit:
            column -= 1
        elif row > 1 and not rows[row - 2] & bit:
            row -= 1
        else:
            row, column = row - 1, column - 1
            found.append((row, column))
    return found[::-1]
