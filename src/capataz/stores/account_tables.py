"""The statements of the accounts, each a part of the transaction that writes the facts they follow from.

A balance is what was spent plus what is reserved: nothing else is kept of a call under way, so nothing can drift. A
reservation goes with the end of its call, with the end of its run, or with its time; in the last two cases nobody
knows what was used, and it is charged in full.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from capataz.events.facts import Event, Fact, ModelCallFailed, ModelReplied, RunEnded, RunResumed, Usage
from capataz.money.accounts import (
    EVERYONE,
    Balance,
    Limit,
    Payer,
    Refusal,
    Reservation,
    Spent,
    account,
    applicable,
    buckets,
    dollars,
    grains,
    merged,
    refusal,
)

_HELD = "run, seq, root, agent, tenant, person, source, at, until, tokens, money"
_HOLD = f"INSERT INTO reservation ({_HELD}) VALUES ({', '.join('?' * 11)})"
_TAKE = f"DELETE FROM reservation WHERE run = ? AND seq = ? RETURNING {_HELD}"
_EXPIRED = f"DELETE FROM reservation WHERE until < ? RETURNING {_HELD}"
_SUMS = "calls, input, output, cache_read, cache_write, reasoning, money, unpriced, guessed, surplus"
_BOOK = (
    f"INSERT INTO spent (whose, name, bucket, source, {_SUMS}) VALUES ({', '.join('?' * 14)}) "
    "ON CONFLICT (whose, name, bucket, source) DO UPDATE SET "
    + ", ".join(f"{column} = {column} + excluded.{column}" for column in _SUMS.split(", "))
)
_USED = (
    "SELECT coalesce(sum(input + output), 0), coalesce(sum(money), 0), coalesce(sum(unpriced), 0) "
    "FROM spent WHERE whose = ? AND name = ? AND bucket = ?"
)
_RESERVED = "SELECT coalesce(sum(tokens), 0), coalesce(sum(money), 0) FROM reservation WHERE at >= ?"
_COLUMN = {"run": "root", "agent": "agent", "tenant": "tenant", "user": "person"}
_ENDS = (ModelReplied, ModelCallFailed, RunResumed, RunEnded)


def reserve(
    connection: sqlite3.Connection, run: str, seq: int, wanted: Reservation, limits: Sequence[Limit]
) -> Refusal | None:
    """Hold the most the call at this place of its log can use, if it fits under all limits; else say why not."""
    expire(connection, wanted.at)
    for limit in applicable(merged(limits, allowances(connection)), wanted.payer):
        refused = refusal(limit, balance(connection, limit, wanted.payer, wanted.at), wanted)
        if refused is not None:
            return refused
    payer = wanted.payer
    money = None if wanted.money is None else grains(wanted.money)
    connection.execute(
        _HOLD,
        (
            *(run, seq, payer.run, payer.agent, payer.tenant, payer.person),
            *(wanted.source, wanted.at, wanted.until, wanted.tokens, money),
        ),
    )
    return None


def balance(connection: sqlite3.Connection, limit: Limit, payer: Payer, at: float) -> Balance:
    """What the account of a limit has spent and reserved in the period of a moment."""
    whose, name, bucket, since = account(limit, payer, at)
    tokens, money, unpriced = connection.execute(_USED, (whose, name, bucket)).fetchone()
    column = _COLUMN.get(whose)
    statement, given = (_RESERVED, (since,)) if column is None else (f"{_RESERVED} AND {column} = ?", (since, name))
    held_tokens, held_money = connection.execute(statement, given).fetchone()
    return Balance(tokens, dollars(money), held_tokens, dollars(held_money), unpriced)


def follow(connection: sqlite3.Connection, run: str, events: Iterable[Event]) -> None:
    """Settle what these facts of a run bring to an end."""
    for event in events:
        if isinstance(event.fact, _ENDS):
            _settle(connection, run, event.fact)


def _settle(connection: sqlite3.Connection, run: str, fact: Fact) -> None:
    found = connection.execute("SELECT seq FROM reservation WHERE run = ? ORDER BY seq DESC", (run,)).fetchall()
    for place, (seq,) in enumerate(found):
        held = connection.execute(_TAKE, (run, seq)).fetchone()
        if place == 0 and isinstance(fact, ModelReplied):
            _book(connection, held, fact.usage)
        elif place == 0 and isinstance(fact, ModelCallFailed) and not fact.billed:
            continue
        else:
            _book(connection, held, None)


def expire(connection: sqlite3.Connection, now: float) -> None:
    """Charge what was reserved for calls nobody will bring to an end any more."""
    for held in connection.execute(_EXPIRED, (now,)).fetchall():
        _book(connection, held, None)


def _book(connection: sqlite3.Connection, held: Sequence[Any], usage: Usage | None) -> None:
    """Write what a call has used; without a usage, all that was reserved for it."""
    _, _, root, agent, tenant, person, source, at, _, tokens, most = held
    if usage is None:
        money, sums = most, (1, tokens, 0, 0, 0, 0, most or 0, most is None, True, False)
    else:
        money = None if usage.money is None else grains(usage.money)
        surplus = usage.tokens > tokens or (money is not None and most is not None and money > most)
        counts = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
        sums = (1, *counts, money or 0, money is None, False, surplus)
    kept = (("all", EVERYONE), ("agent", agent), ("tenant", tenant), ("user", person))
    rows = [(whose, name, bucket, source, *sums) for whose, name in kept if name for bucket in buckets(at).values()]
    connection.executemany(_BOOK, [*rows, ("run", root, "total", source, *sums)])


# ── what people set and read ─────────────────────────────────────────────────────────────────────────────────


def allowances(connection: sqlite3.Connection) -> list[Limit]:
    found = connection.execute("SELECT whose, name, period, tokens, money FROM allowance ORDER BY whose, name, period")
    return [
        Limit(whose, name, period, tokens, None if money is None else dollars(money))
        for whose, name, period, tokens, money in found
    ]


def allow(connection: sqlite3.Connection, limit: Limit) -> None:
    money = None if limit.money is None else grains(Decimal(limit.money))
    connection.execute(
        "INSERT INTO allowance (whose, name, period, tokens, money) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (whose, name, period) DO UPDATE SET (tokens, money) = (excluded.tokens, excluded.money)",
        (limit.whose, limit.name, limit.period, limit.tokens, money),
    )


def disallow(connection: sqlite3.Connection, whose: str, name: str, period: str) -> bool:
    done = connection.execute(
        "DELETE FROM allowance WHERE whose = ? AND name = ? AND period = ?", (whose, name, period)
    )
    return done.rowcount == 1


def spent(connection: sqlite3.Connection, by: str, bucket: str, limit: int) -> list[Spent]:
    """The sums of one period, by tenant, user, agent, run or source; those that spent most first."""
    whose, column = ("all", "source") if by == "source" else (by, "name")
    sums = ", ".join(f"sum({name})" for name in _SUMS.split(", "))
    found = connection.execute(
        f"SELECT {column}, {sums} FROM spent WHERE whose = ? AND bucket = ? GROUP BY {column} "
        "ORDER BY sum(money) DESC, sum(input + output) DESC, 1 LIMIT ?",
        (whose, bucket, limit),
    )
    return [_spent(columns) for columns in found]


def _spent(columns: Sequence[Any]) -> Spent:
    name, calls, into, out, read, written, thought, money, unpriced, guessed, over = columns
    return Spent(name, calls, into, out, read, written, thought, dollars(money), unpriced, guessed, over)
