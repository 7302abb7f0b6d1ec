"""Driving a run: ask the kernel what comes next, do it, write down what came of it, until the kernel wants nothing.

This is all there is to the loop. It must never decide anything itself.
"""

from __future__ import annotations

from capataz.kernel.decide import decide
from capataz.runtime.journal import Journal
from capataz.runtime.perform import Performer


async def drive(journal: Journal, performer: Performer) -> None:
    """Run until the kernel has nothing more to do; everything recorded is then durable."""
    while commands := decide(journal.state):
        await performer.perform(commands)
        journal.flush()
    await journal.durable()
