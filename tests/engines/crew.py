"""What the worker processes of these tests run: agents whose tools leave a line for everything they do."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from capataz import Agent, App, Budget, ToolContext, tool
from capataz.ports import ModelRequest, Reply
from capataz.testing.scripted import ScriptedModel, calls, says

FOLDER = Path(os.environ.get("CREW", "."))
EFFECTS = FOLDER / "effects.log"


def note(words: str) -> None:
    """One line at the end of the file, in one write: time, process, words."""
    descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{time.time():.3f} {os.getpid()} {words}\n".encode())
    os.close(descriptor)


WRITTEN = 0.5
"""Seconds after which the log holds the reply that asked for a look: a look does not wait for that, as an act does. A
worker killed before would have died at the step before."""


@tool(kind="read", idempotent=True)
def index_batch(n: int) -> str:
    """Takes too much memory, every time."""
    note(f"index {n}")
    time.sleep(WRITTEN)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(kind="read")
async def look(step: int) -> str:
    await asyncio.sleep(0.02)
    note(f"look {step}")
    return f"step {step}"


@tool(kind="write", target="step", repeatable=True)
async def act(step: int, context: ToolContext) -> str:
    note(f"act {context.idempotency_key}")
    await asyncio.sleep(0.02)
    return "done"


@tool(kind="read")
async def block() -> str:
    note("block")
    time.sleep(30)  # noqa: ASYNC251 - this is the trouble
    return "never"


@tool(kind="read", timeout=0.2)
def hold() -> str:
    """A thread that does not come back."""
    note("hold")
    time.sleep(60)
    return "never"


@tool(kind="read", timeout=0.2)
async def hold_apart() -> str:
    """A thread of its own making that does not come back."""
    note("hold apart")
    await asyncio.to_thread(time.sleep, 60)
    return "never"


class Steps:
    """Acts and looks, so many times; how far it is stands in the history."""

    name = "steps"

    def __init__(self, count: int) -> None:
        self.count = count

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        await asyncio.sleep(0.005)
        step = sum(message.role == "assistant" for message in request.history)
        if step >= self.count:
            return says("done")
        return calls(("act", {"step": step})) if step % 2 == 0 else calls(("look", {"step": step}))

    async def close(self) -> None:
        """Nothing is open."""


steady = Agent("steady", Steps(24), tools=[act, look], budget=Budget(turns=60))
long = Agent("long", Steps(90), tools=[act, look], budget=Budget(turns=120, calls=120))
poisoned = Agent("poisoned", ScriptedModel(calls(("index_batch", {"n": 6624}))), tools=[index_batch], role="talking")
blocker = Agent("blocker", ScriptedModel(calls(("block", {})), says("done")), tools=[block], role="talking")
holder = Agent("holder", ScriptedModel(calls(*[("hold", {})] * 20), says("done")), tools=[hold], role="talking")
apart = Agent("apart", ScriptedModel(calls(("hold_apart", {})), says("done")), tools=[hold_apart], role="talking")
app = App(f"sqlite:///{FOLDER / 'capataz.db'}", agents=[steady, long, poisoned, blocker, holder, apart])
