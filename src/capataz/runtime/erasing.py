"""Erasure and retention: what was said in runs that are over is taken out of their logs, and digests stay.

A log is otherwise never changed. What is left shows what was done, when, at what price and how it ended, and folds to
the same outcome; nobody can read, resume or fork the conversation any more.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from capataz.events.facts import Event
from capataz.mistakes import Misuse, StoreError
from capataz.ports import Store
from capataz.privacy.erase import erased

BATCH = 100


class Erasures(Protocol):
    """What a store that can erase offers, as `store.erasures()`."""

    async def erase(self, root: str, blank: Callable[[Event], Event]) -> int: ...

    async def due(self, before: float, limit: int) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased. Whoever keeps `key` can prove later that a text they hold is the one that stood there."""

    runs: int
    key: bytes


async def erase(store: Store, run: str) -> Erased:
    """Erase a root task with all its runs. Raises `NotFound`, and `StoreError` where one of them is not over."""
    key = secrets.token_bytes(32)
    return Erased(await erasures_of(store).erase(run, lambda event: erased(event, key)), key)


async def sweep(store: Store, before: float, on_erased: Callable[[str], None] | None = None) -> int:
    """Erase all root tasks that ended before this time (seconds since the epoch); how many runs that were.

    What cannot be erased since a part of it is not over is left, and found again the next time. The keys are thrown
    away. Harmless to break off and to repeat.
    """
    erasures, count, left = erasures_of(store), 0, set[str]()
    while runs := [run for run in await erasures.due(before, BATCH + len(left)) if run not in left]:
        for run in runs:
            try:
                count += (await erase(store, run)).runs
            except StoreError:
                left.add(run)
                continue
            if on_erased is not None:
                on_erased(run)
    return count


def erasures_of(store: Store) -> Erasures:
    """Raises `Misuse` for a store that cannot erase."""
    make: Any = getattr(store, "erasures", None)
    if make is None:
        raise Misuse(f"{type(store).__name__} cannot erase: use a SQLite file or PostgreSQL")
    return cast(Erasures, make())
