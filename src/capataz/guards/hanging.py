"""Silence: a turn that gives no sign of life. Lives on ticks, since in silence nothing else happens.

Waiting for the model and waiting for a tool are different things with different limits, and a tool may have its own.
In a recorded run there are no ticks; there a gap between two events is noticed when it is over, and only told.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capataz.events.facts import (
    Call,
    Event,
    MessageReceived,
    ModelCallStarted,
    ModelReplied,
    RunResumed,
    RunStarted,
    TickPassed,
    ToolFinished,
    ToolStarted,
    WaitEnded,
    WaitStarted,
)
from capataz.guards.base import Signal
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.reading import Step
from capataz.guards.shared import Shared


@dataclass(slots=True)
class Pulse:
    last: Event | None = None
    """The latest sign of life."""
    ticks: bool = False
    dead: float = -1.0
    """The beat at which a silence was already called."""
    calls: tuple[Call, ...] = ()
    """Asked for in the latest reply."""
    ended: set[int] = field(default_factory=set[int])
    """Positions of those that have ended."""

    def running(self) -> tuple[str, ...]:
        return tuple(call.tool for call in self.calls if call.position not in self.ended)


class Hanging(Shared[Pulse]):
    """No sign of life for longer than model, tool or the runtime itself may be silent."""

    name = "hanging"
    prompt = True
    facts = frozenset(
        (
            RunStarted, RunResumed, MessageReceived, ModelCallStarted, ModelReplied, ToolStarted, ToolFinished,
            TickPassed, WaitStarted, WaitEnded,
        )
    )  # fmt: skip

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self.thresholds = thresholds
        own = (limits.silence for limits in thresholds.tools.values() if limits.silence)
        self._shortest = min(thresholds.model_silence, thresholds.tool_silence, *own)

    def begin(self) -> Pulse:
        return Pulse()

    def see(self, state: Pulse, event: Event, step: Step | None) -> Signal | None:
        fact = event.fact
        if type(fact) is TickPassed:
            return self._tick(state, event, fact)
        before, state.last = state.last, event
        if type(fact) is ModelReplied:
            state.calls = fact.calls
            if state.ended:
                state.ended.clear()
        elif type(fact) is ToolFinished:
            state.ended.add(fact.call.position)
        else:
            return None
        if before is None or event.at - before.at <= self._shortest or state.ticks:
            return None
        if type(fact) is ToolFinished:
            return self._gap(before, event, fact.call.tool, self._tool_limit((fact.call.tool,)))
        return self._gap(before, event, "the model", self.thresholds.model_silence)

    def _tool_limit(self, tools: tuple[str, ...]) -> float:
        return max(
            (self.thresholds.tool(tool).silence or self.thresholds.tool_silence for tool in tools),
            default=self.thresholds.tool_silence,
        )

    def _tick(self, state: Pulse, event: Event, fact: TickPassed) -> Signal | None:
        state.ticks = True
        silence = event.at - fact.beat
        if fact.waiting_for == "tool":
            tools = state.running()
            who, limit = ", ".join(tools) or "a tool", self._tool_limit(tools)
        elif fact.waiting_for == "model":
            who, limit = "the model", self.thresholds.model_silence
        else:
            who, limit = "the runtime", self.thresholds.own_silence
        if silence <= limit or state.dead == fact.beat:
            return None
        state.dead = fact.beat
        last = 0 if state.last is None else state.last.seq
        return Signal(
            self.name,
            "hung",
            f"hung:{last}",
            (last, event.seq),
            "stop",
            f"No sign of life from {who} for {silence:,.0f} seconds; {limit:,.0f} are allowed.",
            "",
            urgent=True,
        )

    def _gap(self, before: Event, event: Event, who: str, limit: float) -> Signal | None:
        gap = event.at - before.at
        if gap <= limit:
            return None
        return Signal(
            self.name,
            "hung",
            f"hung:{before.seq}",
            (before.seq, event.seq),
            "nudge",
            f"{who} was silent for {gap:,.0f} seconds before it answered; {limit:,.0f} are allowed.",
            f"The last step took {gap:,.0f} seconds. Prefer one that ends sooner.",
        )
