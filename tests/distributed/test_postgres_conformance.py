"""The PostgreSQL store and its queue keep every promise that the embedded ones keep."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from capataz.memory.conversation import Conversations
from capataz.ports import Job, Queue, RecordStore, Store
from capataz.stores.postgres import PostgresStore
from capataz.testing.account_conformance import AccountConformance, AccountStore
from capataz.testing.conformance import StoreConformance
from capataz.testing.conversation_conformance import ConversationConformance
from capataz.testing.queue_conformance import QueueConformance
from capataz.testing.record_conformance import RecordConformance
from capataz.testing.servers import PostgresServer

_numbers = itertools.count()


@pytest.fixture
def place(postgres: PostgresServer) -> tuple[str, str]:
    """A schema that is not there yet: quicker than a database of one's own."""
    return postgres.url(), f"suite_{next(_numbers)}"


class TestPostgresStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _there(self, place: tuple[str, str]) -> None:
        self.url, self.schema = place

    def make_store(self, folder: Path) -> Store:
        return PostgresStore(self.url, schema=self.schema)


class TestPostgresRecords(RecordConformance):
    @pytest.fixture(autouse=True)
    def _there(self, place: tuple[str, str]) -> None:
        self.url, self.schema = place

    def make_store(self, folder: Path) -> RecordStore:
        return PostgresStore(self.url, schema=self.schema)


class TestPostgresAccounts(AccountConformance):
    @pytest.fixture(autouse=True)
    def _there(self, place: tuple[str, str]) -> None:
        self.url, self.schema = place

    def make_store(self, folder: Path) -> AccountStore:
        return PostgresStore(self.url, schema=self.schema)


class TestPostgresConversations(ConversationConformance):
    server_time = True

    @pytest.fixture(autouse=True)
    def _there(self, place: tuple[str, str]) -> None:
        self.url, self.schema = place

    def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue, Conversations]:
        store = PostgresStore(self.url, schema=self.schema)
        return store, store.queue(), store.conversations()


class TestPostgresQueue(QueueConformance):
    server_time = True

    engine = ""

    @pytest.fixture(autouse=True)
    def _there(self, place: tuple[str, str]) -> None:
        self.url, self.schema = place

    def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue]:
        store = PostgresStore(self.url, schema=self.schema)
        return store, store.queue(self.engine)


class TestPostgresQueueOfAnotherEngine(TestPostgresQueue):
    engine = "elsewhere"

    async def test_the_one_that_was_sent_is_taken_as_it_was_given(self, tmp_path: Path) -> None:
        store = PostgresStore(self.url, schema=self.schema)
        queue, job = store.queue(self.engine), Job("r", "a", "größe", "refund", "c7", "acme", -3, 5.0, "key-1", "ana")
        await queue.enqueue(job)
        for token in (1, 2):
            claim = await queue.take("r", "w", 60.0)
            assert claim is not None
            assert (claim.job, claim.worker, claim.token) == (job, "w", token)
        row = await queue.look("r")
        assert row is not None
        assert row.crashes.total == 1
        await store.close()
