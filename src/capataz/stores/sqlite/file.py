"""Opening a SQLite file as a log, and saying in plain words what is wrong with one.

A file is only ever opened as what it is: one that belongs to another program, or to a newer version of this one, is
refused before anything is written to it.
"""

from __future__ import annotations

import re
import sqlite3
import time
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias

from capataz.mistakes import StoreError

Synchronous: TypeAlias = Literal["FULL", "NORMAL"]

APPLICATION = 0x43617061
"""`Capa` in the file's header: this file is ours."""
WAL_KEPT = 64 * 1024 * 1024
"""Bytes the write-ahead file is cut back to after a burst."""

_MEND = {
    sqlite3.SQLITE_READONLY: "make the file and its folder writable for this user",
    sqlite3.SQLITE_PERM: "make the file and its folder writable for this user",
    sqlite3.SQLITE_CANTOPEN: "make sure that its folder exists and is writable for this user",
    sqlite3.SQLITE_FULL: "free some space; nothing written before is lost and the store goes on by itself",
    sqlite3.SQLITE_IOERR: "look at the disk and its quota; nothing written before is lost",
    sqlite3.SQLITE_BUSY: "end the other program that holds the file locked, or use a file of its own",
    sqlite3.SQLITE_LOCKED: "end the other program that holds the file locked, or use a file of its own",
    sqlite3.SQLITE_CORRUPT: "copy the file with its -wal beside it, then restore a backup or use sqlite3's .recover",
    sqlite3.SQLITE_NOTADB: "give the path of a Capataz log, or of a file that does not exist yet",
}


def explain(error: sqlite3.Error, path: Path, doing: str) -> StoreError:
    """What failed, where, and how to mend it."""
    mend = _MEND.get(code(error), "see SQLite's message")
    return StoreError(f"could not {doing} {path}: {error}; {mend}")


def code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 where the error does not come from SQLite itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    return code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def open_file(path: Path, synchronous: Synchronous, busy: float) -> sqlite3.Connection:
    """A connection of the calling thread's own, to a file that is (or now becomes) a log of today's schema.

    `busy` is how long, in seconds, another process may hold the file before an error. Raises `StoreError`, and
    `sqlite3.Error` for what `explain` has the words for.
    """
    connection = sqlite3.connect(path, timeout=busy, isolation_level=None)
    try:
        _refuse_foreign(connection, path)
        _write_ahead(connection, busy)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute(f"PRAGMA journal_size_limit={WAL_KEPT}")
        _upgrade(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def empty_write_ahead(path: Path, busy: float) -> None:
    """Take what was erased out of the write-ahead file too, if nobody is reading it just now; else it goes later."""
    connection = sqlite3.connect(path, timeout=busy, isolation_level=None)
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
    finally:
        connection.close()


def compact(path: Path, busy: float) -> None:
    """Write the file anew without its free pages; empty the write-ahead file. Needs as much free space as the file."""
    connection = sqlite3.connect(path, timeout=busy, isolation_level=None)
    try:
        connection.execute("VACUUM")
    finally:
        connection.close()
    empty_write_ahead(path, busy)


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    # In this order: another process may make the file ours between the two looks.
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    application = _number(connection, "application_id")
    if application != APPLICATION and not (application == 0 and empty):
        raise StoreError(f"{path} is a database of another program: give Capataz a file of its own")


def _write_ahead(connection: sqlite3.Connection, busy: float) -> None:
    """Once for each file. SQLite does not always wait by itself here, so two first openers wait for one another."""
    until = time.monotonic() + busy
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            if mode != "wal":
                raise StoreError(f"the file system cannot keep SQLite's write-ahead log ({mode}): use a local disk")
            return


def migrations() -> list[tuple[int, str]]:
    """The steps of the schema in order: number and SQL."""
    folder = files("capataz.stores").joinpath("schema")
    found = [(re.fullmatch(r"sqlite-(\d+)\.sql", entry.name), entry) for entry in folder.iterdir()]
    return sorted((int(match[1]), entry.read_text()) for match, entry in found if match)


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    steps = migrations()
    newest = steps[-1][0]
    version = _number(connection, "user_version")
    if version > newest:
        raise StoreError(
            f"{path} has schema {version}, this version of Capataz knows {newest}: upgrade Capataz to open it"
        )
    if version == newest:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number, script in steps:
            if number > _number(connection, "user_version"):
                run_script(connection, script)
                connection.execute(f"PRAGMA user_version={number}")
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Statement by statement: `executescript` would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
