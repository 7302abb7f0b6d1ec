"""What becomes of a signal: the one place where a notice turns into an action.

A guard only notices. Here its advice is weighed against what the model has already been told: a loop is nudged
first and ended only when the same loop is seen in a turn the model made after it could read the nudge. The function
is pure, so a recorded run is judged exactly as a live one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from capataz.events.facts import VerdictGiven
from capataz.guards.base import Signal

Mode = Literal["enforce", "observe", "off"]
Action = Literal["nudge", "fail-turn", "stop", "escalate", "observe"]


def judge(signal: Signal, heard: Mapping[str, int], turn: int, mode: Mode = "enforce") -> VerdictGiven:
    """The verdict on one signal, in `turn`. `heard` maps an identity to the last turn in which it was nudged.

    A nudge that was already given in this very turn is not given twice: the signal is only recorded. In observe
    mode (and off, where nobody should ask) everything is only recorded and the model is told nothing.

    >>> signal = Signal("repeats", "identical", "identical:x", (1, 2), "stop", "The same call 4 times.", "Stop it.")
    >>> judge(signal, {}, 3).action, judge(signal, {"identical:x": 2}, 3).action
    ('nudge', 'stop')
    """
    action: Action = "observe" if mode != "enforce" else _action(signal, heard, turn)
    return VerdictGiven(
        action=action,
        guard=signal.guard,
        kind=signal.kind,
        identity=signal.identity,
        evidence=signal.evidence,
        turn=turn,
        words=signal.words,
        note="" if action == "observe" else signal.note,
    )


def stronger(one: Signal, other: Signal) -> Signal:
    """Of two signals on one loop, in the order they were noticed, the one that is to be judged.

    >>> first = Signal("repeating", "identical", "i", (1,), "nudge", "", "")
    >>> stronger(first, Signal("repeating", "identical", "i", (1, 2), "stop", "", "")).advice
    'stop'
    """
    if one.urgent:
        return one  # that was the moment to end it
    return one if one.advice != "nudge" and other.advice == "nudge" else other


def _action(signal: Signal, heard: Mapping[str, int], turn: int) -> Action:
    if signal.advice in ("fail-turn", "escalate"):
        return signal.advice
    told = heard.get(signal.identity)
    if signal.advice == "stop" and (signal.urgent or (told is not None and told < turn)):
        return "stop"
    return "observe" if told == turn else "nudge"
