"""What the workers of the restore's test run. Effects are lines of a file, since no restore ever takes those back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from capataz import Agent, App, Budget, tool
from capataz.ports import ModelRequest, Reply
from capataz.testing.scripted import calls, says

EFFECTS = Path(os.environ.get("CREW_EFFECTS", "effects.log"))
STEPS = 10


def effects() -> list[str]:
    return EFFECTS.read_text().splitlines() if EFFECTS.exists() else []


async def effect(words: str) -> str:
    """One line, in one write."""
    await asyncio.sleep(0.05)
    descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{words}\n".encode())
    os.close(descriptor)
    return "done"


def paid(order: str) -> bool:
    return f"paid {order}" in effects()


@tool(kind="write", target="order", confirm=paid)
async def pay(order: str) -> str:
    """Can be read back, by what it was for."""
    return await effect(f"paid {order}")


@tool(kind="message", target="order")
async def write(order: str) -> str:
    """Nobody can tell afterwards."""
    return await effect(f"wrote {order}")


class Steps:
    """One act after another, for the case that the task names."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        case = next(message.text for message in request.history if message.role == "user").split()[-1]
        step = sum(message.role == "assistant" for message in request.history)
        return says("done") if step >= STEPS else calls((self.name, {"order": f"{case}-{step}"}))

    async def close(self) -> None:
        """Nothing is open."""


payer = Agent("payer", Steps("pay"), tools=[pay], budget=Budget(turns=40, calls=40))
writer = Agent("writer", Steps("write"), tools=[write], budget=Budget(turns=40, calls=40))
app = App(os.environ.get("CREW_URL", "memory:"), agents=[payer, writer])
