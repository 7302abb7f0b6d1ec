"""Both queues keep every promise of the port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from capataz.ports import Queue, Store
from capataz.stores.memory import MemoryStore
from capataz.stores.sqlite import SqliteStore
from capataz.testing.queue_conformance import QueueConformance


class TestSqliteQueue(QueueConformance):
    def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue]:
        store = SqliteStore(folder / "capataz.db")
        return store, store.queue(clock)


class TestMemoryQueue(QueueConformance):
    def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue]:
        store = MemoryStore()
        return store, store.queue(clock)
