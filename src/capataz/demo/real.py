"""The shop task on a real model: the same clerk, the same checks, in a world that works or one that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from capataz.app import App
from capataz.demo.clerk import clerk
from capataz.demo.shop import Rows, Shop
from capataz.demo.worker import TASK
from capataz.events.facts import Event
from capataz.outcome import Outcome
from capataz.ports import Deadlines

World = Literal["works", "empty", "pending", "declines"]
"""The shop works; its catalogue is empty; its gateway says "pending" and pays nothing; its gateway declines."""

DEADLINES = Deadlines(connect=10.0, first_byte=300.0, silence=120.0, total=600.0)
"""Long ones: a small machine needs minutes to read a prompt."""


@dataclass(frozen=True, slots=True)
class RealRun:
    """How a real model's run ended, and what the shop's tables say."""

    outcome: Outcome
    rows: Rows


async def play_real(
    app: App,
    folder: Path,
    model: str,
    *,
    base_url: str | None,
    api_key: str | None = None,
    world: World = "works",
    watch: Callable[[str, Event], None] | None = None,
) -> RealRun:
    """Run the shop task on `model` ("openai:NAME" or "anthropic:NAME"), on a fresh shop in `folder`."""
    gateway = "works" if world == "empty" else world
    shop = Shop.open(folder / "real.db", gateway=gateway, catalogue=world != "empty")
    agent = clerk(shop, model, base_url=base_url, api_key=api_key, deadlines=DEADLINES)
    outcome = await app.arun(agent, TASK, task_type="demo", on_event=watch)
    return RealRun(outcome, shop.rows())
