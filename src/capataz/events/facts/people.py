"""What is put before a person or a supervisor, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from capataz.events.values import JSON, Evidence


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A risky act waits for a person. `digest` binds the answer to exactly this call under these versions."""

    turn: int
    position: int
    digest: str
    shown: str
    """What will run if it is approved, in words."""
    reason: str


@dataclass(frozen=True, slots=True)
class RunEscalated:
    """The run is suspended: someone else has to decide. The log stays open."""

    reason: str
    detail: str
    to: Literal["human", "supervisor"] = "human"
    answer: str = ""
    missing: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class EscalationAnswered:
    """Somebody decided. The run goes on from where it was, after a restart too.

    retry: try again what failed. approve, reject: the call that was asked about. correct: that call with other
    arguments, approved as corrected. answer: words for the model. happened, not-happened: how the act in doubt ended.
    abort: the run ends here.
    """

    action: Literal["retry", "approve", "reject", "correct", "answer", "happened", "not-happened", "abort"]
    by: str
    text: str = ""
    digest: str = ""
    """Of the call that an approval is for."""
    arguments: Mapping[str, JSON] | None = None


@dataclass(frozen=True, slots=True)
class RunLabelled:
    """Somebody outside says how a recorded run really went: a test, a reward, a person."""

    success: bool | None
    by: str = ""
    detail: str = ""
