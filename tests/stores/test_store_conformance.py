"""Both stores keep every promise of the port."""

from __future__ import annotations

from pathlib import Path

from capataz.ports import Store
from capataz.stores.memory import MemoryStore
from capataz.stores.sqlite import SqliteStore
from capataz.testing.conformance import StoreConformance


class TestSqliteStore(StoreConformance):
    def make_store(self, folder: Path) -> Store:
        return SqliteStore(folder / "capataz.db")


class TestSqliteStoreWithoutSync(StoreConformance):
    def make_store(self, folder: Path) -> Store:
        return SqliteStore(folder / "capataz.db", "NORMAL")


class TestMemoryStore(StoreConformance):
    durable = False

    def make_store(self, folder: Path) -> Store:
        return MemoryStore()
