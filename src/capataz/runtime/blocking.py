"""The thin front for code that is not asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from capataz.mistakes import Misuse

T = TypeVar("T")


def blocking(
    work: Coroutine[Any, Any, T], instead: str, *, after: Callable[[], Coroutine[Any, Any, None]] | None = None
) -> T:
    """Do the work in an event loop of its own, and `after` in the same one, however the work ended.

    Raises `Misuse` naming `instead` where a loop is running already.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work if after is None else _then(work, after))
    work.close()
    raise Misuse(f"an event loop is already running here: use `{instead}`")


async def _then(work: Coroutine[Any, Any, T], after: Callable[[], Coroutine[Any, Any, None]]) -> T:
    try:
        return await work
    finally:
        await after()
