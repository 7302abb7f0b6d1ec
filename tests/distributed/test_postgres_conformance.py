"""The PostgreSQL store and its queue keep every promise that the embedded ones keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capataz.ports import Queue, Store
from capataz.stores.postgres import PostgresStore
from capataz.testing.conformance import StoreConformance
from capataz.testing.queue_conformance import QueueConformance


class TestPostgresStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _there(self, database: str) -> None:
        self.url = database

    def make_store(self, folder: Path) -> Store:
        return PostgresStore(self.url)


class TestPostgresQueue(QueueConformance):
    server_time = True

    @pytest.fixture(autouse=True)
    def _there(self, database: str) -> None:
        self.url = database

    def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue]:
        store = PostgresStore(self.url)
        return store, store.queue()


class TestPostgresQueueOfAnotherEngine(TestPostgresQueue):
    def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue]:
        store = PostgresStore(self.url, schema="other")
        return store, store.queue("elsewhere")
