"""The embedded store: one SQLite file, no server, thousands of durable events a second.

One thread writes, one reads (so that a long log does not hold up an append), both start with the first use. Several
event loops and several processes may share a file: SQLite lets one of them write at a time, and the fence of every
append (sequence and epoch, looked at in the transaction that writes) keeps them from writing over one another.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from capataz.events.codec import encode
from capataz.events.facts import Event
from capataz.mistakes import Misuse, NotFound
from capataz.money.accounts import Refusal
from capataz.ports import Lease, RunRow
from capataz.stores.fence import check_positions, refuse_own
from capataz.stores.sealing import OPEN, Seal
from capataz.stores.sql import conversation_tables, log_tables
from capataz.stores.sql.account_tables import Hold, admit
from capataz.stores.sql.accounts import SqlAccounts
from capataz.stores.sql.conversations import Now, SqlConversations
from capataz.stores.sql.database import Database
from capataz.stores.sql.erasing import SqlErasures
from capataz.stores.sql.rekey import rekey
from capataz.stores.sql.spans import SqlSpans
from capataz.stores.sqlite import tables
from capataz.stores.sqlite.file import Synchronous, compact, empty_write_ahead, open_file
from capataz.stores.sqlite.queue import SqlQueue, Work, place_of_job
from capataz.stores.sqlite.thread import Hand

T = TypeVar("T")


class SqliteStore:
    """A `Store` in one file, which is made at the first write. Its folder has to exist.

    `synchronous="FULL"` (the default) means that what was acknowledged survives a power cut; "NORMAL" is quicker for
    one agent at a time and survives the end of the process, but not of the machine. `timeout` is the longest wait for
    the disk, `busy` the longest wait for another process that holds the file, both in seconds. `seal` encrypts what
    people and models say, where it has a key.

    Errors are `StoreError`s that say what failed, where, and how to mend it. A file system shared over a network is
    no place for the file.
    """

    def __init__(
        self,
        path: str | Path,
        synchronous: Synchronous = "FULL",
        *,
        timeout: float = 30.0,
        busy: float = 5.0,
        seal: Seal = OPEN,
    ) -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise Misuse(f"synchronous is FULL or NORMAL, not {synchronous!r}")
        self.path, self.seal = Path(path), seal
        self._busy = busy
        opened = partial(open_file, self.path, synchronous, busy)
        self._writer = Hand(self.path, opened, "BEGIN IMMEDIATE", 1000, timeout, busy)
        self._reader = Hand(self.path, opened, "BEGIN", 1, timeout, busy)

    def queue(self, clock: Callable[[], float] = time.time) -> SqlQueue:
        """The queue in the same file. `clock` has to be the same for all workers: leases end by it."""
        return SqlQueue(self._perform, clock, self.seal)

    def conversations(self, clock: Callable[[], float] = time.time) -> SqlConversations:
        """The conversations in the same file. `clock` has to be the same for all workers."""
        return SqlConversations(self._perform, self._erase, self.seal, lambda _: clock())

    async def _erase(self, conversation: str, now: Now) -> list[str] | str:
        def work(connection: Database) -> list[str] | str:
            return conversation_tables.erase(connection, now(connection), conversation, logs=True)

        runs = await self._thoroughly("erase a conversation from", work)
        await self._emptied()
        return runs

    async def _thoroughly(
        self, doing: str, work: Callable[[Database], T], reads: bool = False, alone: Sequence[str] = ()
    ) -> T:
        """What the work takes out is not left in the pages of the file."""

        def thorough(connection: sqlite3.Connection) -> T:
            connection.execute("PRAGMA secure_delete = 1")
            return work(connection)

        return await self._perform(doing, thorough, reads)

    async def rekey(self, seal: Seal) -> int:
        """Write everything that is kept anew under another seal, which has the old keys too; how many texts."""
        count = await rekey(self._thoroughly, seal, place_of_job)
        await asyncio.to_thread(compact, self.path, self._busy)
        return count

    def erasures(self) -> SqlErasures:
        """Takes what was said out of logs that are over."""
        return SqlErasures(self._thoroughly, self.seal, str, after=self._emptied)

    async def _emptied(self) -> None:
        await asyncio.to_thread(empty_write_ahead, self.path, self._busy)

    def spans(self) -> SqlSpans:
        """Where spans of other runtimes are kept, in the same file."""
        return SqlSpans(self._perform, self.seal)

    async def rewrite(self, lease: Lease, events: Sequence[Event]) -> None:
        check_positions(0, events)
        refuse_own(lease.run, events)
        events = tuple(events)
        bodies = self._bodies(lease.run, events)
        work = partial(tables.rewrite, lease=lease, events=events, bodies=bodies, seal=self.seal)
        await self._writer.submit(f"tell run {lease.run} anew in", work, sum(map(len, bodies)))

    async def claim(self, run: str, owner: str) -> Lease:
        return await self._writer.submit(f"claim run {run} in", partial(log_tables.claim, run=run, owner=owner))

    def accounts(self) -> SqlAccounts:
        """The balances in the same file."""
        return SqlAccounts(self._perform, self._reserve)

    def _reserve(self, lease: Lease, first_seq: int, events: Sequence[Event], hold: Hold) -> Future[Refusal | None]:
        check_positions(first_seq, events)
        events = tuple(events)
        bodies = self._bodies(lease.run, events)

        def work(connection: sqlite3.Connection) -> Refusal | None:
            tables.append(connection, lease, first_seq, events, bodies, self.seal)
            return admit(connection, hold)

        return self._writer.submit(f"append to run {lease.run} in", work, sum(map(len, bodies)))

    def append(self, lease: Lease, first_seq: int, events: Sequence[Event]) -> Future[None]:
        check_positions(first_seq, events)
        events = tuple(events)
        bodies = self._bodies(lease.run, events)
        work = partial(tables.append, lease=lease, first_seq=first_seq, events=events, bodies=bodies, seal=self.seal)
        return self._writer.submit(f"append to run {lease.run} in", work, sum(map(len, bodies)))

    def _bodies(self, run: str, events: Sequence[Event]) -> list[bytes]:
        return [self.seal.close(encode(event), log_tables.place_of_event(run, event.seq)) for event in events]

    async def read(self, run: str, after: int = -1) -> list[Event]:
        if not self.path.exists():
            raise NotFound(f"there is no run {run}: {self.path} does not exist")
        return await self._reader.submit(
            f"read run {run} in", partial(log_tables.read, run=run, after=after, seal=self.seal)
        )

    async def runs(
        self,
        limit: int = 50,
        *,
        agent: str | None = None,
        outcome: str | None = None,
        root: str | None = None,
        before: float | None = None,
    ) -> list[RunRow]:
        if not self.path.exists():
            return []
        work = partial(
            log_tables.rows, limit=limit, agent=agent, outcome=outcome, root=root, before=before, seal=self.seal
        )
        return await self._reader.submit("list the runs in", work)

    async def _perform(self, doing: str, work: Work[T], reads: bool = False, alone: Sequence[str] = ()) -> T:
        hand = self._reader if reads and self.path.exists() else self._writer
        return await hand.submit(doing, work)

    async def close(self) -> None:
        await self._writer.stop()
        await self._reader.stop()
