"""How a run begins, goes on and ends, and what it hears on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capataz.events.values import Ceilings, Evidence, Fork, HandedOver, OutcomeName, Role, Spend, ToolFacts, Versions


@dataclass(frozen=True, slots=True)
class RunStarted:
    run: str
    agent: str
    task: str
    role: Role = "acting"
    model: str = ""
    instructions: str = ""
    tools: tuple[ToolFacts, ...] = ()
    checks: tuple[str, ...] = ()  # names of the `done_when` checks: the required effects
    ceilings: Ceilings = Ceilings()
    task_type: str | None = None
    conversation: str | None = None
    root: str = ""
    """The run at the top of the lineage; the run itself where it has no parent."""
    parent: str | None = None
    versions: Versions = Versions()
    source: str = "capataz"
    """Which runtime produced the run; foreign records carry the name of their format."""
    overhead: int = 0
    """Bytes of instructions and tool declarations: what every model call sends beside the history."""
    standing: tuple[str, ...] = ()
    """Effects that other runs of the same root have made or may have made: the ledger refuses them here too."""
    fallbacks: tuple[str, ...] = ()  # models to hop to on a rate limit, in order
    supervised: bool = False  # another agent or a callable is asked before a person
    typed: bool = False  # the answer has to be of a given type
    window: int | None = None
    """Tokens the model can see at once; None when not known, and then only its own refusal says that it is full."""
    keep_last: int = 8  # messages at the end of the history that are never compressed
    fork: Fork | None = None
    """The run this one was split off from; None where it was begun by itself."""
    tenant: str = ""
    user: str = ""  # on whose behalf the run is made: their accounts pay for it
    handed: tuple[HandedOver, ...] | None = None
    """Hand-offs of the root so far, the one that began this run last."""
    depth: int = 0  # runs above this one


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A fresh worker took the run over and folded its log. Without this fact the run would wait for ever."""

    epoch: int
    reason: str = "recovered"
    versions: Versions | None = None
    """What the new worker runs with; an approval given under other tools or another policy does not count."""
    standing: tuple[str, ...] = ()
    """Effects that other runs of the conversation have made, or may have made, in the meantime."""
    tools: tuple[ToolFacts, ...] = ()
    """All tools of the new worker, where another version of the agent goes on; empty: those of before."""


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """Something was said to the model in the middle of a run: by the person, or by a foreign runtime."""

    role: Literal["user", "runtime"]
    text: str


@dataclass(frozen=True, slots=True)
class TickPassed:
    """Nothing happened, and that is a fact: guards of silence live on ticks. `beat` is the last sign of life."""

    beat: float
    waiting_for: Literal["model", "tool", "own"] = "own"


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A run started by this one has ended: its spend is ours, its outcome is data."""

    run: str
    agent: str
    outcome: OutcomeName
    spend: Spend
    turn: int
    position: int
    standing: tuple[str, ...] = ()
    """Effects the child made or may have made."""
    handed: tuple[HandedOver, ...] | None = None  # hand-offs of the root up to its end; None in logs that do not say


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Seals the log. `reason` is one of a small set of words; `detail` is for people."""

    outcome: Literal["completed", "answered", "partial", "aborted"]
    reason: str
    detail: str = ""
    answer: str = ""
    answer_turn: int | None = None
    """The turn the answer was said in; None when the runtime put it together."""
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    no_action: bool = False
