"""The accounts in PostgreSQL: what a group of appends does to them, in the transaction that writes the group.

Machines reserve side by side. Whoever reserves on an account that is under a limit has it alone until the transaction
ends, so that the balance that was looked at is the one that is reserved on; what is spent is only added to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capataz.events.facts import Fact
from capataz.money.accounts import Limit, Refusal, account
from capataz.stores.postgres.database import PostgresDatabase, lock
from capataz.stores.postgres.server import Connection
from capataz.stores.sql.account_tables import EXPIRED, Hold, allowances, book, booking, expired, reserve, settled

_BOOK = booking("whose, name, bucket, source, slot")
_EXPIRED = EXPIRED.replace(
    # What another takes out at this moment is left to that one.
    "until < ?",
    "(run, seq) IN (SELECT run, seq FROM reservation WHERE until < ? FOR UPDATE SKIP LOCKED)",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What one append means for the accounts."""

    run: str
    facts: Sequence[Fact]
    hold: Hold | None = None


def follow(connection: Connection, entries: Sequence[Entry]) -> list[Refusal | None]:
    """Settle what the facts bring to an end, and hold what was asked for; for each entry None, or why it was not."""
    return [refused for wave in _waves(entries) for refused in _follow(connection, wave)]


def is_held(connection: Connection, hold: Hold) -> bool:
    """Whether this call is under way already."""
    known = "SELECT 1 FROM reservation WHERE run = %s AND seq = %s"
    return connection.execute(known, (hold.run, hold.seq)).fetchone() is not None


def _waves(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """In pieces in which nothing follows a reservation in its run: the end of a call stands behind its start."""
    wave: list[Entry] = []
    reserving: set[str] = set()
    for entry in entries:
        if entry.run in reserving:
            yield wave
            wave, reserving = [], set()
        wave.append(entry)
        if entry.hold is not None:
            reserving.add(entry.run)
    yield wave


def _follow(connection: Connection, wave: Sequence[Entry]) -> list[Refusal | None]:
    database = PostgresDatabase(connection)
    holds = [entry.hold for entry in wave if entry.hold is not None]
    rows = settled(database, [(entry.run, fact) for entry in wave for fact in entry.facts])
    if holds:
        rows += expired(database, max(hold.wanted.at for hold in holds), _EXPIRED)
    book(database, rows, _BOOK)
    kept = allowances(database) if holds else []
    asked = [(hold, hold.under(kept)) for hold in holds]
    lock(connection, [name for hold, limits in asked for name in _names(hold, limits)])
    answers = iter(reserve(database, asked))
    return [None if entry.hold is None else next(answers) for entry in wave]


def _names(hold: Hold, limits: Sequence[Limit]) -> list[str]:
    """The accounts a reservation looks at."""
    return [" ".join(account(limit, hold.wanted.payer, hold.wanted.at)[:2]) for limit in limits]
