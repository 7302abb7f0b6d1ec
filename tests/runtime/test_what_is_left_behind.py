"""A run that is over comes back, whatever a tool has left in its event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import pytest

from capataz import Agent, App, tool
from capataz.runtime.blocking import run_loop
from capataz.testing.scripted import ScriptedModel, calls

DEAF = 60.0
"""Seconds for which a tool does not let go: far longer than any test may take."""


async def _deaf() -> None:
    until = time.monotonic() + DEAF
    while time.monotonic() < until:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(DEAF)


@tool(kind="read", timeout=0.2)
async def swallow() -> str:
    """Swallow every cancellation."""
    await _deaf()
    return ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_tool_that_swallows_its_cancellation_does_not_keep_the_caller() -> None:
    agent = Agent("desk", model=ScriptedModel(calls(("swallow", {})), "It did not come back."), tools=[swallow])
    begun = time.monotonic()
    outcome = agent.run("Look.", app=App("memory:"))
    assert time.monotonic() - begun < DEAF / 4
    assert outcome.answer == "It did not come back."


def test_a_thread_that_does_not_come_back_does_not_keep_the_caller() -> None:
    free = threading.Event()

    async def work() -> str:
        try:
            await asyncio.wait_for(asyncio.to_thread(free.wait, DEAF), 0.1)
        except TimeoutError:
            return "given up"
        return "done"

    begun = time.monotonic()
    try:
        assert run_loop(work()) == "given up"
        assert time.monotonic() - begun < DEAF / 4
    finally:
        free.set()


def test_what_can_end_is_ended_in_order_and_an_error_comes_through() -> None:
    ended: list[str] = []

    async def tidy() -> None:
        try:
            await asyncio.sleep(DEAF)
        finally:
            ended.append("tidied")

    async def work() -> None:
        task = asyncio.create_task(tidy())
        await asyncio.sleep(0)
        assert not task.done()
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        run_loop(work())
    assert ended == ["tidied"]
