"""A run that has not ended says on its page what it waits for and for how long, and looks wrong when that is long."""

from __future__ import annotations

import asyncio
import time

from capataz import Agent, App, tool
from capataz.testing.scripted import FakeClock, ScriptedModel, calls, says
from capataz.web.views import LONG
from tests.seeing.conftest import Seen


def test_what_is_waited_for_and_since_when(seen: Seen) -> None:
    told: list[str] = []
    begun, answered = asyncio.Event(), asyncio.Event()

    @tool(kind="write", target="order", idempotent=True)
    async def pack(order: str) -> str:
        """Pack it."""
        begun.set()
        await answered.wait()
        return "ok"

    async def story(app: App) -> str:
        model = ScriptedModel(calls(("pack", {"order": "7"})), says("Packed."))
        going_on = asyncio.create_task(app.arun(Agent("clerk", model, [pack], role="talking"), "Pack 7"))
        await begun.wait()
        told.append(await asyncio.to_thread(seen.get, "/runs/last"))
        told.append(await asyncio.to_thread(seen.glance, "last"))
        answered.set()
        return (await going_on).run

    run = seen.record(story, clock=FakeClock(time.time() - LONG - 60))
    page, box = told
    assert "It has not ended: it waits for the tool pack, for 11 min" in box
    assert '<section class="why warn"' in page
    assert "it waits" not in seen.glance(run)
