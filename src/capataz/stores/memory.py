"""A store that forgets everything with the process: for tests, examples and throw-away runs.

It keeps the same promises as the others except durability, and keeps bodies, not objects: what could not be stored
elsewhere is refused here too.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from capataz.events.codec import decode, encode
from capataz.events.facts import Event, RunStarted
from capataz.mistakes import Fenced, NotFound, StoreError
from capataz.money.accounts import Refusal
from capataz.ports import Lease, RunRow
from capataz.stores.fence import check_fence, check_positions, refuse_own
from capataz.stores.index import Progress, shown
from capataz.stores.sealing import OPEN
from capataz.stores.sql.account_tables import Hold, admit, book, settled
from capataz.stores.sql.accounts import SqlAccounts
from capataz.stores.sql.conversation_tables import erase
from capataz.stores.sql.conversations import Now, SqlConversations
from capataz.stores.sql.database import Database
from capataz.stores.sql.spans import SqlSpans
from capataz.stores.sqlite.queue import InMemory, SqlQueue

T = TypeVar("T")


@dataclass(slots=True)
class _Log:
    owner: str
    epoch: int
    started: RunStarted
    source: str = "capataz"
    progress: Progress = field(default_factory=Progress)
    bodies: list[tuple[int, float, bytes]] = field(default_factory=list[tuple[int, float, bytes]])


class MemoryStore:
    """A `Store` in memory. May be used from several event loops."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._jobs = InMemory(self._standing)

    def queue(self, clock: Callable[[], float] = time.time) -> SqlQueue:
        """The queue of this store. It forgets everything with the process too."""
        return SqlQueue(self._jobs, clock)

    def conversations(self, clock: Callable[[], float] = time.time) -> SqlConversations:
        """The conversations of this store. They are forgotten with the process too."""
        return SqlConversations(self._jobs, self._erase, OPEN, lambda _: clock())

    async def _erase(self, conversation: str, now: Now) -> list[str] | str:
        def work(connection: Database) -> list[str] | str:
            return erase(connection, now(connection), conversation, logs=False)

        runs = await self._jobs("erase a conversation from", work)
        with self._lock:
            own = {run for run, log in self._logs.items() if log.started.conversation == conversation}
            own |= set(runs) if isinstance(runs, list) else set()
            gone = {run for run, log in self._logs.items() if run in own or log.started.root in own}
            for run in gone if isinstance(runs, list) else ():
                del self._logs[run]
        return sorted({*runs, *gone}) if isinstance(runs, list) else runs

    def spans(self) -> SqlSpans:
        """Where spans of other runtimes are kept. They are forgotten with the process too."""
        return SqlSpans(self._jobs)

    async def rewrite(self, lease: Lease, events: Sequence[Event]) -> None:
        check_positions(0, events)
        refuse_own(lease.run, events)
        bodies = [(event.seq, event.at, encode(event)) for event in events]
        with self._lock:
            self._open()
            log = self._logs.get(lease.run)
            if log is not None and log.bodies and log.source == "capataz":
                raise Fenced(f"run {lease.run} is a log of our own: it is never told anew")
            if log is not None:
                check_fence(lease, 0, log.epoch, log.owner, 0)
                log.bodies, log.progress = [], Progress()
            self._append(lease, 0, events, bodies)

    def _standing(self) -> list[tuple[str, str]]:
        with self._lock:
            return [(run, log.progress.status) for run, log in self._logs.items() if log.progress.events]

    async def claim(self, run: str, owner: str) -> Lease:
        with self._lock:
            self._open()
            log = self._logs.setdefault(run, _Log(owner, 0, RunStarted(run, "", "")))
            log.owner, log.epoch = owner, log.epoch + 1
            return Lease(run, owner, log.epoch)

    def append(self, lease: Lease, first_seq: int, events: Sequence[Event]) -> Future[None]:
        check_positions(first_seq, events)
        bodies = [(event.seq, event.at, encode(event)) for event in events]
        return self._done(lease, first_seq, events, bodies, lambda _: None)

    def accounts(self) -> SqlAccounts:
        """The balances of this store. They are forgotten with the process too."""
        return SqlAccounts(self._jobs, self._reserve)

    def _reserve(self, lease: Lease, first_seq: int, events: Sequence[Event], hold: Hold) -> Future[Refusal | None]:
        check_positions(first_seq, events)
        bodies = [(event.seq, event.at, encode(event)) for event in events]
        return self._done(lease, first_seq, events, bodies, partial(admit, hold=hold))

    def _done(
        self,
        lease: Lease,
        first_seq: int,
        events: Sequence[Event],
        bodies: list[tuple[int, float, bytes]],
        then: Callable[[sqlite3.Connection], T],
    ) -> Future[T]:
        """Append, bring the balances forward, and do the rest."""

        def work(connection: sqlite3.Connection) -> T:
            book(connection, settled(connection, [(lease.run, event.fact) for event in events]))
            return then(connection)

        future: Future[T] = asyncio.get_running_loop().create_future()
        try:
            with self._lock:
                self._append(lease, first_seq, events, bodies)
            future.set_result(self._jobs.perform("account for a run in", work))
        except StoreError as error:
            future.set_exception(error)
        return future

    def _append(
        self, lease: Lease, first_seq: int, events: Sequence[Event], bodies: list[tuple[int, float, bytes]]
    ) -> None:
        self._open()
        log = self._logs.get(lease.run)
        if log is None:
            raise Fenced(f"run {lease.run} was never claimed in this store: claim it there first")
        check_fence(lease, first_seq, log.epoch, log.owner, log.progress.events)
        log.bodies.extend(bodies)
        for event in events:
            log.progress.fold(event)
            if isinstance(event.fact, RunStarted):
                log.started, log.source = shown(lease.run, event.fact), event.fact.source

    async def read(self, run: str, after: int = -1) -> list[Event]:
        with self._lock:
            self._open()
            log = self._logs.get(run)
            bodies = [] if log is None else log.bodies[max(after + 1, 0) :]
        if log is None or not log.progress.events:
            raise NotFound(f"there is no run {run} in this store")
        return [decode(*body) for body in bodies]

    async def runs(
        self,
        limit: int = 50,
        *,
        agent: str | None = None,
        outcome: str | None = None,
        root: str | None = None,
        before: float | None = None,
    ) -> list[RunRow]:
        with self._lock:
            self._open()
            found = [log.progress.row(run, log.started) for run, log in self._logs.items() if log.progress.events]
        found = [
            row
            for row in found
            if (agent is None or row.agent == agent)
            and (outcome is None or row.outcome == outcome)
            and (root is None or row.root == root)
            and (before is None or row.started_at < before)
        ]
        return sorted(reversed(found), key=lambda row: row.started_at, reverse=True)[:limit]

    async def close(self) -> None:
        self._closed = True
        self._jobs.close()

    def _open(self) -> None:
        if self._closed:
            raise StoreError("this store in memory is closed, and what it held is gone: make another one")
