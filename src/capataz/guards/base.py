"""What a guard is, and what it says.

A guard is a pure machine: it is fed the events of a run in order and now and then returns a `Signal`. It never
stops anything: the kernel judges signals under the policy, and the runtime obeys. Because a guard is pure, the one
that watches a live run is the same object that diagnoses yesterday's traces, and a list of events is its whole test.

A guard's memory must be bounded, whatever the length of the run, and a step costs O(1) amortised. `step` takes
ownership of the state it is given: it may change it in place and return it, and the caller must not use the old one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from capataz.events.facts import Event

Advice = Literal["nudge", "stop", "fail-turn", "escalate"]
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Signal:
    """What a guard noticed.

    `advice` is the strongest thing the guard would have done now: "nudge" never ends a run; "stop" asks the kernel
    to end it, which it does only if the same `identity` was nudged in an earlier turn (else it nudges first).
    `evidence` are sequence numbers of the events that prove it, oldest first.
    """

    guard: str
    kind: str
    identity: str
    evidence: tuple[int, ...]
    advice: Advice
    words: str
    """One sentence for a person: what happened, with numbers."""
    note: str
    """What the model is told, in the second person; says what to do instead."""
    urgent: bool = False
    """Set with "stop" where waiting for another turn makes no sense: a silence hears no nudge, and one reply that
    holds more than twice the threshold has already done in a single turn what a loop does in many."""
    setting: str = ""
    """The limit of the policy it was held against ("errors", "repeats.read"); empty where it is no count."""
    count: int = 0
    """How often it has happened by now, as that limit counts."""


class Guard(Protocol[S]):
    """A pure machine watching for one way of going wrong. See the module's text for what it may do.

    >>> class LargeRefunds:
    ...     name = "large-refunds"
    ...     def start(self): return 0
    ...     def step(self, total, event): return total, None
    """

    @property
    def name(self) -> str: ...
    def start(self) -> S: ...
    def step(self, state: S, event: Event, /) -> tuple[S, Signal | None]: ...
