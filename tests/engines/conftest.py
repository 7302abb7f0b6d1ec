"""A yard with a queue: an App on a file, quick beats, and workers that drive what was submitted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from capataz import Agent, App
from capataz.events.facts import Fact
from capataz.ports import JobRow, Queue
from capataz.runtime.handle import queue_of
from capataz.runtime.shift import Terms
from capataz.runtime.watchdog import Pace, Unfit

QUICK = Pace(beat=0.1, stall=1.0, grace=0.2, poll=0.02, drain=2.0)


@dataclass
class Yard:
    app: App
    pace: Pace = QUICK

    @property
    def queue(self) -> Queue:
        return queue_of(self.app.store)

    async def work(self, *agents: Agent, slots: int = 10, crashes: int = 3) -> Unfit | None:
        """One worker, until nothing is left to do."""
        shift = self.app.worker(*agents, terms=Terms(slots, crashes=crashes, pace=self.pace))
        return await shift.work(until_idle=True)

    async def facts(self, run: str) -> list[Fact]:
        return [event.fact for event in await self.app.store.read(run)]

    async def row(self, run: str) -> JobRow:
        row = await self.queue.look(run)
        assert row is not None
        return row


async def until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for happens elsewhere
            await asyncio.sleep(0.01)


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with App(f"sqlite:///{tmp_path / 'capataz.db'}") as app:
        yield Yard(app)
