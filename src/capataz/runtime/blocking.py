"""The thin front for code that is not asynchronous.

A loop that is done with its work must not be held up by what users' code has left in it: `asyncio.run` would wait for
a task that swallows its cancellation, and for a thread that does not come back, for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from capataz.mistakes import Misuse

T = TypeVar("T")
_CLEARED = 2.0
"""Seconds in which what is left in a loop may end by itself."""


def blocking(
    work: Coroutine[Any, Any, T], instead: str, *, after: Callable[[], Coroutine[Any, Any, None]] | None = None
) -> T:
    """Do the work in an event loop of its own, and `after` in the same one, however the work ended.

    Raises `Misuse` naming `instead` where a loop is running already.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_loop(work if after is None else _then(work, after))
    work.close()
    raise Misuse(f"an event loop is already running here: use `{instead}`")


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, which leaves behind what will not end when the work has."""
    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        runner.run(_cleared())
        asyncio.set_event_loop(None)
        runner.get_loop().close()  # not the runner: it waits for all that is left


async def _cleared() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    left.add(asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens()))
    await asyncio.wait(left, timeout=_CLEARED)


async def _then(work: Coroutine[Any, Any, T], after: Callable[[], Coroutine[Any, Any, None]]) -> T:
    try:
        return await work
    finally:
        await after()
