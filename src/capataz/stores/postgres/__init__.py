"""The store for more than one machine: PostgreSQL, version 13 or newer.

One thread writes, many appends to a commit; a few read and work with the queue, so that a long log holds up neither an
append nor a beat. All start with the first use. The fence of every append (sequence and epoch, looked at in the
transaction that writes, with the run's row locked) keeps any number of processes from writing over one another.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from capataz.events.codec import encode
from capataz.events.facts import Event
from capataz.ports import Lease, RunRow
from capataz.stores.fence import check_positions, refuse_own
from capataz.stores.postgres import tables
from capataz.stores.postgres.database import PostgresDatabase, moment, perform
from capataz.stores.postgres.queue import PostgresSentQueue, place_of_job
from capataz.stores.postgres.server import Connection, place
from capataz.stores.postgres.thread import Hands, Once, Patience
from capataz.stores.sealing import OPEN, Seal
from capataz.stores.sql import conversation_tables, log_tables
from capataz.stores.sql.account_tables import Hold
from capataz.stores.sql.accounts import SqlAccounts
from capataz.stores.sql.conversations import Now, SqlConversations
from capataz.stores.sql.database import Database
from capataz.stores.sql.erasing import SqlErasures
from capataz.stores.sql.rekey import rekey
from capataz.stores.sql.spans import SqlSpans

T = TypeVar("T")


class PostgresStore:
    """A `Store` in one schema of a PostgreSQL database. The schema and its tables are made at the first use.

    `url` is `postgresql://user:password@host:5432/database`, or anything else libpq understands; what it leaves out
    comes from the usual environment variables and the password file. `timeout` is the longest wait for any answer, and
    `away` how long the server may be gone (a restart, a fail-over) before that is an error, both in seconds;
    `readers` are the connections beside the one that writes. `seal` encrypts what people and models say, where it has
    a key.

    Errors are `StoreError`s that say what failed, where, and how to mend it, and never a password. Behind a connection
    pooler, use one that pools sessions, not transactions.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = "capataz",
        timeout: float = 30.0,
        away: float = 15.0,
        readers: int = 4,
        seal: Seal = OPEN,
    ) -> None:
        self._place = place(url, schema)
        self.seal = seal
        patience = Patience(timeout, min(away, timeout / 2))
        self._writer = Hands(self._place, 1, 1000, patience)
        self._readers = Hands(self._place, readers, 1, patience)

    def __repr__(self) -> str:
        return f"PostgresStore({self._place.shown})"

    def queue(self, engine: str = "") -> PostgresSentQueue:
        """The queue in the same database; its time is the server's. Jobs of another `engine` are not seen by it."""
        return PostgresSentQueue(self._perform, engine, self.seal)

    def spans(self) -> SqlSpans:
        """Where spans of other runtimes are kept, in the same database."""
        return SqlSpans(self._shared, self.seal)

    async def rewrite(self, lease: Lease, events: Sequence[Event]) -> None:
        check_positions(0, events)
        refuse_own(lease.run, events)
        told = self._written(lease, 0, events)
        work = partial(tables.rewrite, told=told)
        await self._writer.submit(f"tell run {lease.run} anew in", work, told.size)

    def conversations(self, clock: object = None) -> SqlConversations:
        """The conversations in the same database; their time is the server's, whatever `clock` says."""
        return SqlConversations(self._shared, self._erase, self.seal, moment)

    async def _erase(self, conversation: str, now: Now) -> list[str] | str:
        def work(connection: Database) -> list[str] | str:
            return conversation_tables.erase(connection, now(connection), conversation, logs=True)

        alone = (f"conversation {conversation}",)
        return await self._readers.submit("erase a conversation from", Once(partial(perform, work=work, alone=alone)))

    def accounts(self) -> SqlAccounts:
        """The balances in the same database."""
        return SqlAccounts(self._shared, self._reserve)

    def _reserve(self, lease: Lease, first_seq: int, events: Sequence[Event], hold: Hold | None) -> Future[Any]:
        check_positions(first_seq, events)
        work = self._written(lease, first_seq, events, hold)
        return self._writer.submit(f"append to run {lease.run} in", work, work.size)

    async def rekey(self, seal: Seal) -> int:
        """Write everything that is kept anew under another seal, which has the old keys too; how many texts.

        The old bytes leave the disk with the server's next VACUUM, and its write-ahead log and backups in their time.
        """
        return await rekey(self._shared, seal, place_of_job)

    def erasures(self) -> SqlErasures:
        """Takes what was said out of logs that are over. The old bytes leave the disk as after `rekey`."""
        return SqlErasures(self._shared, self.seal, str.encode, locking=" FOR UPDATE")

    async def claim(self, run: str, owner: str) -> Lease:
        def work(connection: Connection) -> Lease:
            return log_tables.claim(PostgresDatabase(connection), run, owner)

        return await self._writer.submit(f"claim run {run} in", work)

    def append(self, lease: Lease, first_seq: int, events: Sequence[Event]) -> Future[None]:
        return self._reserve(lease, first_seq, events, None)

    def _written(
        self, lease: Lease, first_seq: int, events: Sequence[Event], hold: Hold | None = None
    ) -> tables.Append:
        events = tuple(events)
        bodies = [self.seal.close(encode(event), log_tables.place_of_event(lease.run, event.seq)) for event in events]
        return tables.Append(lease, first_seq, events, bodies, self.seal, hold)

    async def read(self, run: str, after: int = -1) -> list[Event]:
        work = partial(log_tables.read, run=run, after=after, seal=self.seal)
        return await self._shared(f"read run {run} in", work, reads=True)

    async def runs(
        self,
        limit: int = 50,
        *,
        agent: str | None = None,
        outcome: str | None = None,
        root: str | None = None,
        before: float | None = None,
    ) -> list[RunRow]:
        asked = partial(log_tables.rows, limit=limit, agent=agent, outcome=outcome, root=root, before=before)
        return await self._shared("list the runs in", partial(asked, seal=self.seal), reads=True)

    async def _perform(self, doing: str, work: Callable[[Connection], T]) -> T:
        return await self._readers.submit(doing, work)

    async def _shared(
        self, doing: str, work: Callable[[Database], T], reads: bool = False, alone: Sequence[str] = ()
    ) -> T:
        return await self._readers.submit(doing, partial(perform, work=work, alone=alone, reads=reads))

    async def close(self) -> None:
        await self._writer.stop()
        await self._readers.stop()
