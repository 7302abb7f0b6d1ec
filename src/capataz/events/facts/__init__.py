"""The facts a run is made of, and the only thing that is ever stored.

Everything known about a run is a fold over these values, so they say what *happened*, in the past tense, once.
A start and its end are two facts; nothing is edited afterwards; the prompt is never stored, since it is a fold.
Nothing here may read a clock, draw a number or touch the world: time and position arrive with the envelope, `Event`.

A module for each subject, and this package is the one door to them all: import facts, and the values they hold, from
here. A new fact goes into the module of its subject, and into `Fact`, which is all the codec needs to know of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from capataz.events.facts.judgements import (
    AnswerRead as AnswerRead,
    CeilingReached as CeilingReached,
    CheckEvaluated as CheckEvaluated,
    VerdictGiven as VerdictGiven,
)
from capataz.events.facts.memories import (
    CompressionFailed as CompressionFailed,
    ConversationRecalled as ConversationRecalled,
    HistoryCompressed as HistoryCompressed,
    ResultsShortened as ResultsShortened,
)
from capataz.events.facts.models import (
    CapabilityLearned as CapabilityLearned,
    ModelCallFailed as ModelCallFailed,
    ModelCallStarted as ModelCallStarted,
    ModelReplied as ModelReplied,
    ModelSwitched as ModelSwitched,
    OutputCapped as OutputCapped,
)
from capataz.events.facts.people import (
    ApprovalAsked as ApprovalAsked,
    EscalationAnswered as EscalationAnswered,
    RunEscalated as RunEscalated,
    RunLabelled as RunLabelled,
)
from capataz.events.facts.runs import (
    ChildEnded as ChildEnded,
    MessageReceived as MessageReceived,
    RunEnded as RunEnded,
    RunResumed as RunResumed,
    RunStarted as RunStarted,
    TickPassed as TickPassed,
)
from capataz.events.facts.tools import (
    EffectChecked as EffectChecked,
    ToolAnsweredLate as ToolAnsweredLate,
    ToolFailed as ToolFailed,
    ToolFinished as ToolFinished,
    ToolRefused as ToolRefused,
    ToolStarted as ToolStarted,
)
from capataz.events.facts.waits import (
    BreakerClosed as BreakerClosed,
    BreakerOpened as BreakerOpened,
    WaitEnded as WaitEnded,
    WaitStarted as WaitStarted,
)
from capataz.events.values import (
    ACTING as ACTING,
    JSON as JSON,
    Answer3 as Answer3,
    Call as Call,
    Ceilings as Ceilings,
    Evidence as Evidence,
    Fault as Fault,
    Fork as Fork,
    HandedOver as HandedOver,
    Kind as Kind,
    Opaque as Opaque,
    OutcomeName as OutcomeName,
    Purpose as Purpose,
    Role as Role,
    Row as Row,
    Said as Said,
    Spend as Spend,
    ToolFacts as ToolFacts,
    Usage as Usage,
    Versions as Versions,
)

Fact: TypeAlias = (
    RunStarted
    | RunResumed
    | MessageReceived
    | TickPassed
    | ModelCallStarted
    | ModelReplied
    | ModelCallFailed
    | ModelSwitched
    | OutputCapped
    | WaitStarted
    | WaitEnded
    | BreakerOpened
    | BreakerClosed
    | CapabilityLearned
    | ToolRefused
    | ToolStarted
    | ToolFinished
    | ToolAnsweredLate
    | ToolFailed
    | EffectChecked
    | ChildEnded
    | CheckEvaluated
    | VerdictGiven
    | CeilingReached
    | HistoryCompressed
    | CompressionFailed
    | ResultsShortened
    | ConversationRecalled
    | ApprovalAsked
    | EscalationAnswered
    | AnswerRead
    | RunEscalated
    | RunEnded
    | RunLabelled
)


@dataclass(frozen=True, slots=True)
class Event:
    """A fact with its position in the log of its run and the time it was recorded (seconds since the epoch)."""

    seq: int
    at: float
    fact: Fact
