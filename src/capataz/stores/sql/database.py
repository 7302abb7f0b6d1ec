"""What the statements that several stores share need of a database: SQLite's own connection has it.

The statements mark a value with `?`, mean the same in SQLite and PostgreSQL, and say nothing of locks: whoever performs
them sees to it that nobody else works on the same at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Found(Protocol):
    """What a statement brings: its rows, or how many it has changed."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection in the middle of a transaction."""

    def execute(self, statement: str, given: Sequence[Any] = (), /) -> Found: ...

    def executemany(self, statement: str, given: Sequence[Sequence[Any]], /) -> object: ...


class Perform(Protocol):
    """Does a piece of work as one transaction. `reads` says that it changes nothing; `alone` names what nobody else may
    work on meanwhile, in a database that lets several write at a time."""

    def __call__(
        self, doing: str, work: Callable[[Database], T], reads: bool = False, alone: Sequence[str] = ()
    ) -> Awaitable[T]: ...


@contextmanager
def as_whole(connection: Database) -> Generator[None]:
    """What is refused half-way has changed nothing: others may be in the same transaction."""
    connection.execute("SAVEPOINT whole")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK TO whole")
        raise
    finally:
        connection.execute("RELEASE whole")
