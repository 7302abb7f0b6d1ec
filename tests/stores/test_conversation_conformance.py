"""The conversations of both stores keep every promise of the port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from capataz.memory.conversation import Conversations
from capataz.ports import Queue, Store
from capataz.stores.memory import MemoryStore
from capataz.stores.sqlite import SqliteStore
from capataz.testing.conversation_conformance import ConversationConformance


class TestSqliteConversations(ConversationConformance):
    def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue, Conversations]:
        store = SqliteStore(folder / "capataz.db")
        return store, store.queue(clock), store.conversations(clock)


class TestMemoryConversations(ConversationConformance):
    durable = False

    def make(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Queue, Conversations]:
        store = MemoryStore()
        return store, store.queue(clock), store.conversations(clock)
