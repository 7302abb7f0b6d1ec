"""What a scripted model does, turn by turn: the vocabulary in which tests and the demo write down misbehaviour.

A behaviour is a function from what the model could see (`Seen`) to one step: a turn, or some trouble on the wire.
Nothing here knows a wire format, opens a socket or keeps a state: the same behaviour serves every dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

TroubleKind = Literal["status", "hang", "stall", "trickle", "cut", "drop", "malformed", "stream-error"]
"""How a provider can fail.

status        an error status with the provider's own error body
hang          the request is accepted and never answered
stall         the stream begins, then falls silent for ever
trickle       the stream begins, then sends only signs of life, for ever
cut           the stream ends cleanly, without its end mark
drop          the connection is reset in the middle of the stream
malformed     the body, or a chunk of it, is not JSON
stream-error  status 200, then an error event inside the stream
"""


@dataclass(frozen=True, slots=True)
class Ask:
    """One call as the model writes it. A `str` as arguments is sent as it is, so that it may be no JSON at all."""

    tool: str
    arguments: Mapping[str, Any] | str
    id: str | None = None
    """The provider's id; made from turn and position when not given."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply. `stop` overrides the stop reason, in the neutral words: stop, calls, length, refusal."""

    text: str = ""
    calls: tuple[Ask, ...] = ()
    thinking: str = ""
    stop: Literal["stop", "calls", "length", "refusal"] | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault on the wire. `turn` is what the model was about to say: a stream breaks just before its last words."""

    kind: TroubleKind
    status: int = 500
    wait: float | None = None
    """Seconds promised in a Retry-After header."""
    reason: str = ""
    """The provider's own word for the error; a usual one for the status when empty."""
    turn: Turn = Turn("I am looking into this and will tell you what I")
    interval: float = 0.05
    """Seconds between two signs of life of a trickling stream."""


Step: TypeAlias = Turn | Trouble


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's result as the model read it. `error` is a flag of the dialect, or an `{"error": ...}` body."""

    tool: str
    arguments: Mapping[str, Any]
    text: str
    error: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """What the model could see when it was asked, whatever the dialect."""

    model: str
    task: str
    """The first thing a user said."""
    said: tuple[str, ...]
    """The text of each assistant turn so far."""
    results: tuple[Result, ...]
    """All tool results so far, in order."""
    tools: tuple[str, ...]
    """Names of the tools on offer; empty in a closing call."""
    last: str
    """Text of the last message: a result, or a note of the runtime."""
    asked: int
    """How often this model was asked about this task before: retries count, so faults can pass."""

    @property
    def turns(self) -> int:
        return len(self.said)

    def did(self, tool: str) -> tuple[Result, ...]:
        """The results of one tool."""
        return tuple(result for result in self.results if result.tool == tool)


Behaviour: TypeAlias = Callable[[Seen], Step]


@dataclass(frozen=True, slots=True)
class Script:
    """A behaviour written down: step n answers the n-th request, and `after` answers all that follow.

    >>> script = Script((status(500), use("refund", order_id="81", cents=1250), say("Refunded.")))
    """

    steps: tuple[Step, ...]
    after: Step = Turn("There is nothing left for me to do.")

    def __call__(self, seen: Seen) -> Step:
        return self.steps[seen.asked] if seen.asked < len(self.steps) else self.after


def say(text: str) -> Turn:
    """A turn of words only."""
    return Turn(text)


def use(tool: str, /, **arguments: Any) -> Turn:
    """A turn that asks for one call and says nothing."""
    return Turn(calls=(Ask(tool, arguments),))


def status(code: int, wait: float | None = None, reason: str = "") -> Trouble:
    """An error status, with a Retry-After of `wait` seconds where given."""
    return Trouble("status", status=code, wait=wait, reason=reason)
