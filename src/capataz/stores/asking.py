"""What the threads of a store and the event loops that ask them hand to one another.

A thread owns a connection; any number of loops queue requests for it and await the answers. Answers go back one
wake-up for each loop, however many there are. Nothing here knows a database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from capataz.mistakes import StoreError

C = TypeVar("C")
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Request(Generic[C, T]):
    """Something to do with the connection, and the future that waits for it."""

    perform: Callable[[C], T]
    doing: str
    size: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[T]
    timer: asyncio.TimerHandle | None = None
    abandoned: bool = False
    """Nobody waits any more because time is up: if it was not begun yet, it never will be."""

    def answer(self, value: T | StoreError) -> None:
        """In the loop's own thread."""
        if self.timer is not None:
            self.timer.cancel()
        if self.future.done():
            return
        if isinstance(value, StoreError):
            self.future.set_exception(value)
        else:
            self.future.set_result(value)


Answer: TypeAlias = "tuple[Request[Any, Any], Any]"


def deliver(answers: Sequence[Answer]) -> None:
    """Hand the answers to the loops that wait for them, each loop woken once."""
    loops: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        loops.setdefault(answer[0].loop, []).append(answer)
    for loop, own in loops.items():
        try:
            loop.call_soon_threadsafe(_answer_all, own)
        except RuntimeError:  # the loop was closed: nobody is left to be told
            continue


def _answer_all(answers: Sequence[Answer]) -> None:
    for request, value in answers:
        request.answer(value)
