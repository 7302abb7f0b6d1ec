"""`capataz diff A B`: two runs side by side, and the first place where they part."""

from __future__ import annotations

import asyncio

import click
from rich.text import Text

from capataz.cli.finding import find_run, open_existing
from capataz.cli.masking import reveal as reveal_option, shower as shown
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import console, print_json, styled
from capataz.events.facts import JSON, Event
from capataz.lens.diff import Diff, Row, diff as compare
from capataz.lens.masked import Shower
from capataz.lens.words import short

DIFFERENT = 1
"""Exit status where the runs part, as `diff` has it."""
_SIGNS = {"same": " ", "differs": "≠", "gone": "-", "new": "+"}


@click.command()
@click.argument("a")
@click.argument("b")
@store_option
@click.option("--all", "everything", is_flag=True, help="Also what is the same, not only what surrounds a difference.")
@reveal_option
@json_option
@click.pass_context
def diff(
    context: click.Context, a: str, b: str, store: str | None, everything: bool, reveal: bool, as_json: bool
) -> None:
    """Lay runs A and B side by side: aligned by role, tool and arguments, then compared value by value.

    Exit status 0 says that nothing was done differently, 1 that something was. Only other words of the model are no
    difference in that sense; where they begin is told.

    \b
      capataz diff 01K6Z 01K70
      capataz diff 01K6Z 01K70 --json
    """
    left, right = asyncio.run(_read(store, a, b))
    found = compare(left, right)
    shower = shown(reveal)
    if as_json:
        print_json(diff_json(found, shower))
    else:
        _print(found, shower, everything)
    context.exit(DIFFERENT if found.divergence is not None else 0)


async def _read(url: str | None, a: str, b: str) -> tuple[list[Event], list[Event]]:
    store = open_existing(url)
    try:
        return await find_run(store, a), await find_run(store, b)
    finally:
        await store.close()


def diff_json(found: Diff, shower: Shower) -> JSON:
    """The comparison for programs."""
    show = shower.text
    rows: list[JSON] = [
        {
            "sign": row.sign,
            "a": None if row.a is None else {"seq": row.a.seq, "turn": row.a.turn, "what": show(row.a.title)},
            "b": None if row.b is None else {"seq": row.b.seq, "turn": row.b.turn, "what": show(row.b.title)},
            "changes": [
                {"path": show(c.path), "a": None if c.a is None else show(c.a), "b": None if c.b is None else show(c.b)}
                for c in row.changes
            ],
        }
        for row in found.rows
    ]
    return {"divergence": found.divergence, "words": found.words, "rows": rows}


def _print(found: Diff, shower: Shower, everything: bool) -> None:
    out = console()
    near = {place + step for place, row in enumerate(found.rows) if row.sign != "same" for step in (-1, 0, 1)}
    skipped = 0
    for place, row in enumerate(found.rows):
        if not everything and place not in near:
            skipped += 1
            continue
        if skipped:
            out.print(styled(f"  … {skipped} the same", "quiet"))
            skipped = 0
        if place == found.divergence:
            out.print(styled("── first divergence ──", "warn", bold=True))
        for text in _lines(row, shower):
            out.print(text, soft_wrap=True)
    if skipped:
        out.print(styled(f"  … {skipped} the same", "quiet"))
    if found.divergence is None:
        words = "" if found.words is None else "; only the model's words differ"
        out.print(styled(f"nothing was done differently{words}", "good"))


def _lines(row: Row, shower: Shower) -> list[Text]:
    one = row.a or row.b
    assert one is not None
    tone = {"same": "quiet", "differs": "warn", "gone": "bad", "new": "good"}[row.sign]
    seqs = "/".join("-" if step is None else str(step.seq) for step in (row.a, row.b))
    lines = [styled(f"{_SIGNS[row.sign]} {seqs:>9}  {short(shower.text(one.title), 100)}", tone)]  # type: ignore[arg-type]
    for change in row.changes:
        where = f"{shower.text(change.path)}: " if change.path else ""
        for sign, side, colour in (("-", change.a, "bad"), ("+", change.b, "good")):
            if side is not None:
                lines.append(styled(f"{'':13}{sign} {where}{short(shower.text(side), 200)}", colour))  # type: ignore[arg-type]
    return lines
