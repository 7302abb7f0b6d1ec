"""Reaching a PostgreSQL server, its schema, and saying in plain words what is wrong with one.

Every connection has an end to each of its waits: for the server to answer, for a statement, for a lock, and for a
client that froze in the middle of a transaction. No password, and nothing that may be a part of one, is ever said.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import unquote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from capataz.mistakes import Misuse, StoreError

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

FORM = "postgresql://user:password@host:5432/database"
CONNECT_SECONDS = 10
STATEMENT_MS = 20_000
LOCK_MS = 10_000
IDLE_MS = 5_000
"""A client that is frozen in the middle of a transaction holds its locks no longer than this."""
UPGRADE_MS = 600_000
"""For each step of the schema."""
_LOCK = 0x43617061
"""Of the advisory lock under which the schema is made and upgraded."""

_MEND: Mapping[str, str] = {
    "22": "a value cannot be stored: zero characters, half characters and numbers beyond 64 bits cannot",
    "08": "make sure that it runs and can be reached from here; nothing committed is lost",
    "28": "check the user, its password, and pg_hba.conf on the server",
    "3D": "make the database first: createdb NAME",
    "42501": "let this user CREATE in the database, or make the schema for it and grant it",
    "25006": "it takes no writes: name the primary, not a standby",
    "53100": "free some space on the server; nothing written before is lost and the store goes on by itself",
    "53": "raise the server's limit (max_connections, memory), or lower the number of workers",
    "57P": "the server is restarting or shutting down; nothing committed is lost",
    "57014": "it took too long: look at the load of the server and at what holds locks (pg_stat_activity)",
    "55P03": "another session holds a lock: look at pg_stat_activity",
    "40": "it lost against another session again and again: look at pg_stat_activity",
    "25P03": "this process stood still in the middle of a transaction, and the server ended it",
}
_PASSING = ("08", "57P01", "57P02", "57P03", "53300", "25P03")
"""What a restart, a fail-over or a burst of connections looks like."""
AGAIN = ("40", "55P03")
"""Lost against another session: the same transaction may succeed the next time."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the logs are. `shown` is for people and holds neither user nor password."""

    conninfo: str = field(repr=False)
    shown: str
    schema: str
    secrets: tuple[str, ...] = field(default=(), repr=False)


def place(url: str, schema: str) -> Place:
    """Read a URL. Raises `Misuse`, without a word of the URL, when it is none."""
    if re.fullmatch(r"[a-z_][a-z0-9_]{0,50}", schema) is None:
        raise Misuse(f"schema {schema!r}: small letters, digits and underscores, at most 51 of them")
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise Misuse(
            f"this is not the URL of a PostgreSQL database: write {FORM}, with every character of the password that "
            "is no letter and no digit as %XX"
        ) from error
    host = str(parts.get("host") or parts.get("hostaddr") or "")
    port, database = str(parts.get("port") or 5432), str(parts.get("dbname") or "")
    if "@" in host + database or not database or not port.replace(",", "").isdecimal():
        raise Misuse(
            f"write {FORM}: a database has to be named, and in the password an @ is written as %40 and a / as %2F"
        )
    password = str(parts.get("password") or "")
    shown = f"postgresql://{host or 'local socket'}:{port}/{database}"
    return Place(url, shown, schema, tuple(filter(None, (password, unquote(password)))))


def connect(where: Place) -> Connection:
    """A connection with an end to every wait. It commits each statement by itself unless told to BEGIN."""
    connection = psycopg.connect(
        where.conninfo,
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
        application_name="capataz",
        client_encoding="utf8",
        keepalives=1,
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=20_000,
    )
    settings = {
        "search_path": where.schema,
        "default_transaction_isolation": "read committed",
        "statement_timeout": str(STATEMENT_MS),
        "lock_timeout": str(LOCK_MS),
        "idle_in_transaction_session_timeout": str(IDLE_MS),
    }
    try:
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    except BaseException:
        connection.close()
        raise
    return connection


def is_gone(error: psycopg.Error, connection: Connection | None) -> bool:
    """Whether the connection, or the way to one, is what failed, and another try may find it there again."""
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_PASSING)
    return isinstance(error, psycopg.OperationalError) or (connection is not None and connection.broken)


def explain(error: psycopg.Error, where: Place, doing: str) -> StoreError:
    """What failed, where, and how to mend it."""
    state = error.sqlstate or ("22" if isinstance(error, psycopg.DataError) else _guessed(str(error)))
    mend = next((_MEND[state[:length]] for length in (5, 3, 2) if state[:length] in _MEND), "see the server's message")
    said = error.diag.message_primary or str(error).strip() or type(error).__name__
    words = " ".join(said.split())
    for secret in where.secrets:
        words = words.replace(secret, "***")
    return StoreError(f"could not {doing} {where.shown}: {words}; {mend}")


def _guessed(said: str) -> str:
    """Failing to connect has no code: libpq only says it in words."""
    if "password" in said or "authentication" in said or "pg_hba" in said:
        return "28"
    if "too many" in said or "connection slots" in said:
        return "53300"
    return "3D" if "database" in said and "does not exist" in said else "08"


def cut(connection: Connection) -> None:
    """Break a connection that another thread waits on: its wait ends with an error. From any thread."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=socket.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


# ── the schema ───────────────────────────────────────────────────────────────────────────────────────────


def migrations() -> list[tuple[int, str]]:
    """The steps of the schema in order: number and SQL."""
    folder = files("capataz.stores").joinpath("schema")
    found = [(re.fullmatch(r"postgres-(\d+)\.sql", entry.name), entry) for entry in folder.iterdir()]
    return sorted((int(match[1]), entry.read_text()) for match, entry in found if match)


def upgrade(connection: Connection, where: Place) -> None:
    """Make the schema, or bring it to today's form. Processes that start together wait for one another."""
    steps = migrations()
    newest = steps[-1][0]
    if _version(connection, where) == newest:
        return
    with connection.transaction():
        connection.execute(sql.SQL("SET LOCAL statement_timeout = {}").format(UPGRADE_MS))
        connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(UPGRADE_MS))
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        version = _version(connection, where)
        if version == 0:
            _found(connection, where)
        for number, script in steps:
            if number > version:
                connection.execute(script.encode())
                connection.execute("UPDATE capataz_schema SET version = %s", [number])


def _found(connection: Connection, where: Place) -> None:
    """Make the schema itself, unless somebody made it for us; never in one that holds something else."""
    here = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [where.schema]).fetchone()
    if here is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(where.schema)))
    elif connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = %s", [where.schema]).fetchone() is not None:
        raise StoreError(
            f"schema {where.schema} of {where.shown} belongs to another program: give Capataz a schema of its own"
        )
    connection.execute("CREATE TABLE capataz_schema (version integer NOT NULL)")
    connection.execute("INSERT INTO capataz_schema VALUES (0)")


def _version(connection: Connection, where: Place) -> int:
    # A query, not to_regclass: that one answers from a cache, which waiting for an advisory lock does not renew.
    known = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'capataz_schema'"
    if connection.execute(known, [where.schema]).fetchone() is None:
        return 0
    table = sql.Identifier(where.schema, "capataz_schema")
    row = connection.execute(sql.SQL("SELECT max(version) FROM {}").format(table)).fetchone()
    version, newest = int(row[0]) if row is not None and row[0] is not None else 0, migrations()[-1][0]
    if version > newest:
        raise StoreError(
            f"{where.shown} has schema {version}, this version of Capataz knows {newest}: upgrade Capataz to open it"
        )
    return version
