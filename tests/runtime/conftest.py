"""A little world for runs: a store in memory, time that a test moves, and acts that are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from capataz import App
from capataz.events.facts import Event, Fact
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, FakeClock
from capataz.tools.define import Tool, tool


@dataclass
class World:
    """What tools act on. `done` counts every act that really took place."""

    app: App
    clock: FakeClock
    done: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    broken: bool = False
    lying: bool = False

    @property
    def refund(self) -> Tool[..., Any]:
        def is_refunded(order: str, **_: Any) -> bool:
            return ("refund", order) in self.done

        @tool(kind="write", target="order", confirm=is_refunded)
        def refund(order: str, cents: int = 100) -> str:
            """Pay the money of an order back."""
            if self.broken:
                raise RuntimeError("the gateway is down")
            if not self.lying:
                self.done.append(("refund", order))
            return "ok"

        return refund

    @property
    def look(self) -> Tool[..., Any]:
        @tool(kind="read")
        def look(order: str) -> dict[str, Any]:
            """Look an order up."""
            self.done.append(("look", order))
            return {"order": order, "state": "paid", "n": len(self.done)}

        return look

    async def facts(self, run: str) -> list[Fact]:
        return [event.fact for event in await self.app.store.read(run)]

    async def events(self, run: str) -> list[Event]:
        return await self.app.store.read(run)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = FakeClock()
    app = App(MemoryStore(), clock=clock, chance=FakeChance())
    yield World(app, clock)
    await app.close()
