"""How the demo looks: each scene in a few lines, both ways beside each other, and the sums at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from capataz.cli.render import styled
from capataz.demo.clerk import TURNS
from capataz.demo.stage import Played, Side
from capataz.lens.words import Tone, counted, duration, short, tone_of

if TYPE_CHECKING:
    from rich.console import Console


def print_opening(out: Console, count: int) -> None:
    """What is going to be seen."""
    out.print(styled("A shop, an unreliable worker, and two ways to let it work", bold=True))
    out.print(
        styled(
            f"The task, {count} times: refund order 81 (12.50) once, and write to the customer. The model is a local "
            "server that goes wrong in one known way each time. The naive loop and the foreman get the same task, the "
            f"same tools and the same ceiling of {TURNS} turns. What was done is read from the shop's own tables.",
            "quiet",
        )
    )


def print_scene(out: Console, one: Played) -> None:
    """One scene: what the worker did, how both ways ended, and what the foreman did."""
    from rich.table import Table

    out.print()
    out.print(styled("■ ", "quiet") + styled(one.scene.title, bold=True) + styled(f"  {one.scene.does}", "quiet"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=9)
    grid.add_column(ratio=1)
    grid.add_row(styled("  naive", "quiet"), _side(one.naive, "plain"))
    grid.add_row(styled("  capataz", bold=True), _side(one.foreman, tone_of(one.outcome)))
    for deed in one.deeds:
        grid.add_row("", styled(f"· {short(deed, 220)}", "quiet"))
    out.print(grid)


def _side(side: Side, tone: Tone) -> Text:
    counts = (counted(side.turns, "turn"), counted(side.calls, "call"), counted(side.tokens, "token"))
    spent = " · ".join((*counts, duration(side.seconds)))
    denied = Text() if side.honest else styled("  ✗ the shop says otherwise", "bad")
    lines = [styled(side.ended, tone, bold=True) + denied, styled(f"{_rows(side)} · {spent}")]
    if side.said and not side.honest:
        lines.append(styled(f"it said: “{short(side.said, 120)}”", "quiet"))
    return Text("\n").join(lines)


def _rows(side: Side) -> str:
    rows = side.rows
    paid = f" ({rows.refunded_cents / 100:.2f})" if rows.refunds else ""
    return f"{counted(rows.refunds, 'refund')}{paid}, {counted(rows.messages, 'message')}"


def print_closing(out: Console, played: Sequence[Played], seconds: float, store: str, html: Path) -> None:
    """The sums, where the page is, and how to go on."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("naive loop", justify="right")
    table.add_column("foreman", justify="right")
    ways = _sums([one.naive for one in played]), _sums([one.foreman for one in played])
    for title, naive in ways[0].items():
        table.add_row(title, f"{naive:,}", f"{ways[1][title]:,}")
    out.print()
    out.print(table)
    out.print(styled(f"{len(played)} scenes, twice each, in {duration(seconds)}.", "quiet"))
    for head, what in (
        ("Page of one run:", str(html.resolve())),
        ("All runs:", f"capataz runs --store {store}"),
        ("On a real model:", "capataz demo --model openai:NAME --base-url http://127.0.0.1:8080/v1"),
    ):
        out.print(Text(f"{head:<19}") + styled(what), soft_wrap=True)


def _sums(sides: Sequence[Side]) -> dict[str, int]:
    return {
        "reported what the shop denies": sum(not side.honest for side in sides),
        "scenes paid more than once": sum(side.rows.refunds > 1 for side in sides),
        "refunds paid": sum(side.rows.refunds for side in sides),
        "messages sent": sum(side.rows.messages for side in sides),
        "turns": sum(side.turns for side in sides),
        "tokens": sum(side.tokens for side in sides),
    }
