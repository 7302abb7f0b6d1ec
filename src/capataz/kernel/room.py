"""How much room is left: what the next model call may use, with the closing call's share held back from the start."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeVar

from capataz.events.facts import Ceilings
from capataz.kernel.commands import CallModel
from capataz.kernel.state import State

Number = TypeVar("Number", int, float, Decimal)


def seconds_left(state: State, *, closing: bool = False) -> float | None:
    """Seconds the next step may take; the closing call's share counts only for the closing call."""
    limit = state.ceilings.seconds
    if limit is None:
        return None
    held = 0.0 if closing else min(state.rules.policy.closing_seconds, limit / 4)
    return max(0.0, limit - held - state.elapsed)


def output_room(state: State, *, closing: bool = False) -> int | None:
    """Tokens the next reply may have. The prompt is bounded by the last reported usage plus the bytes added since."""
    limit = state.ceilings.tokens
    if limit is None:
        return None
    left = limit - state.spend.tokens - state.prompt.bound
    if closing:
        return left
    return (left - state.prompt.bound - state.rules.policy.closing_tokens - 128) // 2


def money_left(state: State, *, closing: bool = False) -> Decimal | None:
    """Dollars the next call may cost; a tenth of the limit is held back for the closing call."""
    limit = state.ceilings.money
    if limit is None:
        return None
    held = Decimal(0) if closing else limit / 10
    return max(Decimal(0), limit - held - (state.spend.money or Decimal(0)))


def next_call(state: State) -> CallModel:
    """The next turn of the loop, or the next try at a turn that failed."""
    return CallModel(
        turn=state.turn.number + 1,
        attempt=state.asking.attempt,
        purpose="loop",
        prompt_bound=state.prompt.bound,
        max_output=lesser(output_room(state), state.asking.cap),
        seconds=seconds_left(state),
        money=money_left(state),
        model=state.asking.model,
    )


def closing_call(state: State) -> CallModel | None:
    """The one call without tools that asks for what is known so far; None when it cannot be made."""
    room, seconds = output_room(state, closing=True), seconds_left(state, closing=True)
    policy = state.rules.policy
    if room is not None and room < policy.least_output:
        return None
    if seconds is not None and seconds <= 0:
        return None
    return CallModel(
        turn=state.turn.number + 1,
        attempt=0,
        purpose="closing",
        prompt_bound=state.prompt.bound,
        max_output=policy.closing_tokens if room is None else min(room, policy.closing_tokens),
        seconds=policy.closing_seconds if seconds is None else min(seconds, policy.closing_seconds),
        money=money_left(state, closing=True),
        model=state.asking.model,
    )


def within(state: State, own: Ceilings) -> Ceilings:
    """A child's ceilings: its own, and never more than what is left of its parent's after the closing call's share."""
    limits, spend = state.ceilings, state.spend
    tokens = None
    if limits.tokens is not None:
        tokens = max(0, limits.tokens - spend.tokens - state.prompt.bound - state.rules.policy.closing_tokens)
    return Ceilings(
        turns=lesser(own.turns, None if limits.turns is None else max(0, limits.turns - spend.turns)),
        calls=lesser(own.calls, None if limits.calls is None else max(0, limits.calls - spend.calls)),
        tokens=lesser(own.tokens, tokens),
        money=lesser(own.money, money_left(state)),
        seconds=lesser(own.seconds, seconds_left(state)),
    )


def lesser(a: Number | None, b: Number | None) -> Number | None:
    """The stricter of two limits; None is no limit."""
    return b if a is None else a if b is None else min(a, b)
