"""Ending a run from outside: a person cancels it, or it has taken down too many workers.

The end is as honest as any other: what was under way is in doubt, and nothing is called done for having been stopped.
"""

from __future__ import annotations

from capataz.events.facts import ToolFinished
from capataz.kernel.closing import end
from capataz.kernel.commands import Record
from capataz.kernel.state import State


def break_off(state: State, reason: str, detail: str) -> tuple[Record, ...]:
    """What to record next so that the run is over; nothing when it is. Asked again until then.

    An act that was begun and has not come back may have taken effect: it becomes in doubt before the end is written.
    """
    if state.ended is not None:
        return ()
    words = {"error": f"broken off ({reason}); outcome unknown: it may have taken effect"}
    under_way = [view.call for view in state.turn.unsettled if view.stage == "started" and view.call.acting]
    if under_way:
        return tuple(Record(ToolFinished(call, dict(words), error=True, in_doubt=True)) for call in under_way)
    return (end(state, "aborted", reason, detail),)


def step_of(state: State) -> str:
    """Where a run is, for counting crashes at one place: it differs after every reply, result and person's answer.

    What a resumed run writes on its way back to the same place (that it was resumed, that a call was made again) does
    not change it.
    """
    done = sum(view.stage == "done" for view in state.turn.calls.values())
    return f"{state.turn.number}.{done}.{state.people.answered_seq}"
