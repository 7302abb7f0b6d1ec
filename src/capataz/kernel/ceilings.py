"""The hard ceilings. Reaching one is no error: it is recorded, and the run ends with what it has."""

from __future__ import annotations

from capataz.events.facts import CeilingReached
from capataz.kernel.commands import Command, Record
from capataz.kernel.room import output_room, seconds_left
from capataz.kernel.state import State


def over_ceiling(state: State) -> tuple[Command, ...]:
    """The ceiling that forbids another turn, as the fact to record; nothing when there is room."""
    fact = _reached(state)
    return () if fact is None else (Record(fact),)


def _reached(state: State) -> CeilingReached | None:
    limits, spend = state.ceilings, state.spend
    if limits.turns is not None and spend.turns >= limits.turns:
        return CeilingReached("turns", limits.turns, spend.turns)
    if limits.calls is not None and spend.calls >= limits.calls:
        return CeilingReached("calls", limits.calls, spend.calls)
    room = output_room(state)
    if limits.tokens is not None and room is not None and room < state.rules.policy.least_output:
        return CeilingReached("tokens", limits.tokens, spend.tokens)
    left = seconds_left(state)
    if limits.seconds is not None and left is not None and left <= 0:
        return CeilingReached("seconds", limits.seconds, spend.seconds)
    return None
