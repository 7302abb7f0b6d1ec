"""A run as it happens, one line for each thing worth a look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from capataz.cli.masking import shower
from capataz.cli.render import fact_text, join, styled
from capataz.events.facts import (
    EffectChecked,
    Event,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunStarted,
    TickPassed,
    ToolStarted,
    WaitEnded,
)
from capataz.lens.words import line

if TYPE_CHECKING:
    from rich.console import Console

_SILENT = (TickPassed, ToolStarted, WaitEnded)


class Seen:
    """Knows the id of the run from its first fact on, also where nobody looks on; passes the facts to who does."""

    def __init__(self, show: Callable[[str, Event], None] | None, run: str = "") -> None:
        self.run = run
        self._show = show

    def __call__(self, run: str, event: Event, /) -> None:
        self.run = self.run or run
        if self._show is not None:
            self._show(run, event)

    def recall(self, run: str, events: Sequence[Event], /) -> None:
        """What happened before was shown by another process."""


class Progress:
    """Prints facts as they come. The first run it sees is the run; any other is a sub-agent's, and is set in."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._run: str | None = None

    def watch(self, run: str, event: Event) -> None:
        """To be given to `arun(on_event=...)`."""
        if self._run is None:
            self._run = run
        text = self._text(shower().event(event))
        if text is not None:
            self._console.print(Text("" if run == self._run else "    ") + text, soft_wrap=True)

    def _text(self, event: Event) -> Text | None:
        fact = event.fact
        if isinstance(fact, _SILENT) or (isinstance(fact, EffectChecked) and fact.phase == "before"):
            return None
        if isinstance(fact, RunEnded | RunEscalated) and self._run is not None:
            return None  # the outcome is printed in full by whoever asked for the run
        said = line(fact)
        if isinstance(fact, RunStarted):
            return join(styled(said.head, bold=True), styled(said.text))
        if isinstance(fact, ModelCallStarted):
            again = f", try {fact.attempt + 1}" if fact.attempt else ""
            return styled(f"turn {fact.turn}{again}" if fact.purpose == "loop" else f"{fact.purpose}{again}", "quiet")
        if isinstance(fact, ModelReplied) and not fact.text.strip() and not fact.calls:
            return styled("  (it said nothing)", "quiet")
        return Text("  ") + fact_text(said, bold=bool(said.evidence))
