"""Driving a run: ask the kernel what comes next, do it, write down what came of it, until the kernel wants nothing.

This is all there is to the loop. It must never decide anything itself.
"""

from __future__ import annotations

from capataz.kernel.commands import Command, Sleep
from capataz.kernel.decide import decide
from capataz.runtime.heartbeat import Pulse
from capataz.runtime.journal import Journal
from capataz.runtime.perform import Performer


async def drive(
    journal: Journal, performer: Performer, park_after: float | None = None, pulse: Pulse | None = None
) -> float | None:
    """Run until the kernel has nothing more to do; everything recorded is then durable.

    With `park_after`, a wait longer than so many seconds is not sat out: the time it ends is returned instead (seconds
    since the epoch), and whoever drives the run again from its log then, goes on from there. The same where `pulse`
    says that the worker is stopping: then it may go on at once, elsewhere.
    """
    while commands := decide(journal.state):
        if park_after is not None and pulse is not None and pulse.stopping:
            await journal.durable()
            return journal.state.now
        if park_after is not None and (until := _wait(commands)) is not None and until - journal.state.now > park_after:
            await journal.durable()
            return until
        await performer.perform(commands)
        journal.flush()
    await journal.durable()
    return None


def _wait(commands: tuple[Command, ...]) -> float | None:
    first = commands[0]
    return first.until if isinstance(first, Sleep) else None
