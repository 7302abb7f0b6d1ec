"""What to do next: the loop of every run, on one screen.

`decide` looks at the state and says what it wants done. It reads no clock, draws nothing and touches nothing, so the
decisions of a live run can be had again from its log, one by one. The order of the questions is the design: what was
begun is brought to its end, then the world is asked whether it is done, then what was noticed is judged, and only
then may the model speak again. The model decides none of it: not when to stop, not what is done, not what an error
means.
"""

from __future__ import annotations

from capataz.kernel.calls import ask_again, settle_calls
from capataz.kernel.ceilings import over_ceiling
from capataz.kernel.claims import settle_claim
from capataz.kernel.closing import end, wind_down
from capataz.kernel.commands import AskSupervisor, Command, Sleep
from capataz.kernel.completion import checked_done, checks_due
from capataz.kernel.compressing import make_room
from capataz.kernel.failures import settle_failure
from capataz.kernel.judging import judge_signals
from capataz.kernel.room import next_call
from capataz.kernel.state import State


def decide(state: State) -> tuple[Command, ...]:
    """The commands that come next; none when the run is over or waits for someone else."""
    if state.over or not state.begun:
        return ()
    if state.escalated is not None:
        return (AskSupervisor(state.escalated),)
    if state.people.abort is not None:
        return (end(state, "aborted", "person", state.people.abort),)
    if state.waiting is not None:
        return (Sleep(*state.waiting),)
    if commands := settle_calls(state) or ask_again(state) or checks_due(state):
        return commands
    if state.judgement.ends or checked_done(state):
        return wind_down(state)
    if commands := judge_signals(state):
        return commands
    if state.asking.failure is not None:
        return settle_failure(state, state.asking.failure)
    claim = state.turn.claim
    if claim is not None and (commands := settle_claim(state, claim)):
        return commands
    return over_ceiling(state) or make_room(state) or (next_call(state),)
