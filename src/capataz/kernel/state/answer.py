"""What the person will be given at the end: the last useful words, and what there is where nothing was said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from capataz.events.facts import AnswerRead, ModelReplied, ToolFinished


@dataclass(slots=True)
class Answer:
    text: str = ""
    turn: int | None = None
    """The turn it was said in."""
    closing: Literal["none", "asked", "over"] = "none"
    """How far the one closing call has come."""
    results: list[str] = field(default_factory=list[str])
    """The last few results of tools, each with the tool's name."""
    read: AnswerRead | None = None
    """The newest validation of a typed answer."""
    misread: int = 0
    """How often an answer was not of the type asked for."""

    def hear(self, reply: ModelReplied) -> None:
        """What was said is the answer so far, unless the model only wrote a call as text."""
        if reply.text.strip() and not reply.written:
            self.text, self.turn = reply.text.strip(), reply.turn

    def keep(self, finished: ToolFinished, text: str) -> None:
        self.results = [*self.results[-2:], f"{finished.call.tool}: {text[:400]}"]

    def validate(self, read: AnswerRead) -> None:
        self.read = read
        self.misread += 1 if read.problem else 0
