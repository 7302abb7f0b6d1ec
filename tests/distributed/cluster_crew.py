"""What the worker processes of these tests run. Every act leaves a row in an append-only table of the database."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

import psycopg

from capataz import Agent, App, Budget, Policy, ToolContext, tool
from capataz.engines.temporal import TemporalEngine
from capataz.events.facts import Fault
from capataz.ports import ModelRequest, Reply
from capataz.testing.scripted import ScriptedModel, calls, says

URL = os.environ.get("CREW_URL", "postgresql://localhost/none")
TEMPORAL = os.environ.get("CREW_TEMPORAL", "")
BEAT = float(os.environ.get("CREW_BEAT", "0.5"))


def make_table(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE effect (n bigserial, pid integer, key text, at timestamptz DEFAULT now())")
        connection.execute("CREATE RULE keep AS ON UPDATE TO effect DO INSTEAD NOTHING")
        connection.execute("CREATE RULE stay AS ON DELETE TO effect DO INSTEAD NOTHING")


def note(key: str) -> None:
    with psycopg.connect(URL, autocommit=True) as connection:
        connection.execute("INSERT INTO effect (pid, key) VALUES (%s, %s)", (os.getpid(), key))


@tool(kind="read")
async def look(step: int) -> str:
    await asyncio.sleep(0.05)
    return f"step {step}"


@tool(kind="write", target="step", repeatable=True)
async def act(step: int, context: ToolContext) -> str:
    await asyncio.to_thread(note, context.idempotency_key)
    await asyncio.sleep(0.05)
    return "done"


WRITTEN = 0.5
"""Seconds after which the log holds the reply that asked for a look: a look does not wait for that, as an act does. A
worker killed before would have died at the step before."""


@tool(kind="read")
def die() -> str:
    note("die")
    time.sleep(WRITTEN)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


class Steps:
    """Acts and looks, so many times; how far it is stands in the history."""

    name = "steps"

    def __init__(self, count: int) -> None:
        self.count = count

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        await asyncio.sleep(0.01)
        step = sum(message.role == "assistant" for message in request.history)
        if step >= self.count:
            return says("done")
        return calls(("act", {"step": step})) if step % 2 == 0 else calls(("look", {"step": step}))

    async def close(self) -> None:
        """Nothing is open."""


DOWN = Fault("transient", "server-error", "the provider is down", 503, wait=2.0)
short = Agent("short", Steps(4), tools=[act, look])
steady = Agent("steady", Steps(40), tools=[act, look], budget=Budget(turns=100))
endless = Agent("endless", Steps(2000), tools=[act, look], budget=Budget(turns=5000, calls=5000, seconds=None))
poisoned = Agent("poisoned", ScriptedModel(calls(("die", {}))), tools=[die], role="talking")
patient = Agent("patient", ScriptedModel(DOWN, says("hello")), role="talking", policy=Policy(long_wait=0.5))
engine = TemporalEngine(TEMPORAL, beat=BEAT) if TEMPORAL else None
app = App(URL, agents=[short, steady, endless, poisoned, patient], engine=engine)
