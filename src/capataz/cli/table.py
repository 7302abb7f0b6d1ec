"""A table with one line for each thing, in whatever room there is. It must never cut what has to be copied: half an id
is of no use. Only columns named elastic are cut; where that is not enough, columns are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from capataz.cli.render import console

_GAP = 3
_LEAST = 20
"""Columns of the terminal that an elastic one has at least."""
Line = Mapping[str, Text]


def print_table(
    lines: Sequence[Line], *, elastic: Sequence[str], dispensable: Sequence[str], right: Sequence[str] = ()
) -> None:
    """At least one line, all with the same names in the order of the columns. `dispensable` are left out, first to
    last, as far as there is no room; those that say nothing in any line go before the others."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    out = console()
    names = _fitting(lines, elastic, dispensable, out.width)
    rooms = _rooms(names, lines, elastic, out.width)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True, max_width=rooms.get(name))
    for line in lines:
        table.add_row(*(line[name] for name in names))
    out.print(table)


def _fitting(lines: Sequence[Line], elastic: Sequence[str], dispensable: Sequence[str], width: int) -> list[str]:
    """The columns there is room for."""
    names = list(lines[0])
    for name in sorted(dispensable, key=lambda name: any(line[name].plain not in ("", "0") for line in lines)):
        least = sum(min(_LEAST, _wide(each, lines)) for each in names if each in elastic)
        if _fixed(names, lines, elastic) + least <= width:
            break
        names.remove(name)
    return names


def _rooms(names: Sequence[str], lines: Sequence[Line], elastic: Sequence[str], width: int) -> dict[str, int]:
    """How wide each elastic column may be: what the narrow ones leave is for the wide ones."""
    left, rooms = width - _fixed(names, lines, elastic), dict[str, int]()
    found = sorted((name for name in names if name in elastic), key=lambda name: _wide(name, lines))
    for place, name in enumerate(found):
        rooms[name] = max(len(name), min(_wide(name, lines), left // (len(found) - place)))
        left -= rooms[name]
    return rooms


def _fixed(names: Sequence[str], lines: Sequence[Line], elastic: Sequence[str]) -> int:
    """Columns the terminal needs for these, but for what stands in the elastic ones."""
    return sum(_GAP + (0 if name in elastic else _wide(name, lines)) for name in names)


def _wide(name: str, lines: Sequence[Line]) -> int:
    return max(len(name), *(line[name].cell_len for line in lines))
