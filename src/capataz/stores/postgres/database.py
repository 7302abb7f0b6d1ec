"""PostgreSQL for the statements that all stores share: it performs them as they are written, under locks of its own.

A lock is one of the server's own (advisory), held to the end of the transaction and taken in one order by everybody.
Names share a few hundred of them, so that a transaction never holds more than the server has room for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar
from zlib import crc32

from capataz.stores.postgres.server import Connection
from capataz.stores.sql.database import Database, Found

T = TypeVar("T")
LOCKS = 256
_LOCK = (
    "SELECT pg_advisory_xact_lock(hashtext(current_schema() || '.shared'), number) FROM unnest(%s::integer[]) AS number"
)


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """A connection to PostgreSQL as the shared statements use it."""

    connection: Connection

    def execute(self, statement: str, given: Sequence[Any] = (), /) -> Found:
        return self.connection.execute(_own(statement), given, binary=True)

    def executemany(self, statement: str, given: Sequence[Sequence[Any]], /) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(_own(statement), given)


@lru_cache(256)
def _own(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


def lock(connection: Connection, names: Iterable[str]) -> None:
    """Wait until nobody else works on what is called so; hold it until the transaction ends."""
    numbers = sorted({crc32(name.encode()) % LOCKS for name in names})
    if numbers:
        connection.execute(_LOCK, (numbers,))


def perform(connection: Connection, work: Callable[[Database], T], alone: Sequence[str], reads: bool = False) -> T:
    """The work as one transaction, or as a part of the one there is. What only reads needs none, unless it is alone."""
    if reads and not alone:
        return work(PostgresDatabase(connection))
    with connection.transaction():
        lock(connection, alone)
        return work(PostgresDatabase(connection))


def moment(connection: Database) -> float:
    """The server's time, one for all its clients."""
    return float(connection.execute("SELECT moment()").fetchone()[0])
