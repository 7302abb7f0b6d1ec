"""Going on from the middle of a recorded run, under another id, with one edit."""

from __future__ import annotations

from capataz.lens.fork import Edit, forked
from capataz.outcome import Outcome
from capataz.runtime.launch import resume
from capataz.runtime.yard import Spec, Yard


async def begin_fork(yard: Yard, source: str, step: int, edit: Edit, *, allow_acts: bool = False) -> str:
    """Write the beginning of the fork; its id. Nothing is run yet. `Misuse` for a step that cannot be forked at."""
    run = yard.around.chance.identity()
    events = await yard.store.read(source)
    prefix = forked(events, step, edit, run, yard.around.clock.now(), dry=not allow_acts)
    lease = await yard.store.claim(run, yard.owner)
    await yard.store.append(lease, 0, prefix)
    return run


async def fork(spec: Spec, yard: Yard, source: str, step: int, edit: Edit, *, allow_acts: bool = False) -> Outcome:
    """Fork a run and drive the fork to its outcome. `spec` is the agent as it is; the edit is in the fork's log."""
    run = await begin_fork(yard, source, step, edit, allow_acts=allow_acts)
    return await resume(spec, run, yard, "forked")
