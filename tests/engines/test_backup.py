"""A copy made while workers write is a store like any other: its runs go on from where the copy stands."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from capataz import Agent, App, Completed, Partial, tool
from capataz.runtime.handle import queue_of
from capataz.runtime.shift import Terms
from capataz.testing.scripted import ScriptedModel, calls
from tests.engines.conftest import QUICK, Yard, until


class Planner(ScriptedModel):
    def __init__(self) -> None:
        super().__init__(
            lambda request: (
                "All paid." if len(request.history) > 9 else calls(("pay", {"order": str(len(request.history))}))
            )
        )


async def test_a_backup_taken_in_the_middle_can_be_driven_to_the_end(yard: Yard, tmp_path: Path) -> None:
    paid: list[str] = []

    @tool(kind="write", target="order", confirm=lambda order, **_: order in paid)
    async def pay(order: str) -> str:
        await asyncio.sleep(0.03)
        paid.append(order)
        return "ok"

    agent = Agent("clerk", Planner(), tools=[pay])
    handle = await agent.asubmit("pay all", app=yard.app)
    shift = yard.app.worker(agent, terms=Terms(pace=QUICK))
    working = asyncio.create_task(shift.work())
    await until(lambda: len(paid) == 2)
    copy = tmp_path / "copy.db"
    source, target = (sqlite3.connect(path, timeout=5) for path in (tmp_path / "capataz.db", copy))
    source.backup(target)
    source.close()
    target.close()
    assert isinstance(await handle.await_(timeout=10), Completed)
    shift.stop()
    await working

    async with App(f"sqlite:///{copy}") as restored:
        worker = restored.worker(agent, terms=Terms(pace=QUICK))
        going_on = asyncio.create_task(worker.work())  # the lease in the copy has to run out first
        outcome = await agent.handle(handle.run, app=restored).await_(timeout=10)
        worker.stop()
        await going_on
        assert isinstance(outcome, Completed | Partial), "what the copy does not know of may be done again"
        row = await queue_of(restored.store).look(handle.run)
        assert row is not None
        assert row.crashes.total == 1
    assert paid.count("1") == 1, "what the copy knows is not repeated"
