"""What the model sees less of from now on, and what is remembered between runs."""

from __future__ import annotations

from dataclasses import dataclass

from capataz.events.values import Said


@dataclass(frozen=True, slots=True)
class HistoryCompressed:
    """Everything before position `upto` of the transcript is now held by `summary`, written from the one before."""

    upto: int
    summary: str
    turn: int


@dataclass(frozen=True, slots=True)
class CompressionFailed:
    """The old summary stays and the run goes on."""

    upto: int
    reason: str
    turn: int


@dataclass(frozen=True, slots=True)
class ResultsShortened:
    """Results of tools before position `upto` of the transcript are shown as marked stubs from now on."""

    upto: int
    turn: int


@dataclass(frozen=True, slots=True)
class ConversationRecalled:
    """What is remembered of a thread: a summary of what was said before `upto`, what was said since, no plumbing."""

    summary: str
    said: tuple[Said, ...]
    upto: int = 0
