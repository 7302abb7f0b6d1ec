"""The statements of the accounts, each a part of the transaction that writes the facts they follow from.

A balance is what was spent plus what is reserved: nothing else is kept of a call under way, so nothing can drift. A
reservation goes with the end of its call, with the end of its run, or with its time; in the last two cases nobody
knows what was used, and it is charged in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import add
from typing import Any, TypeAlias

from capataz.events.facts import Fact, ModelCallFailed, ModelReplied, RunEnded, RunResumed, Usage
from capataz.money.accounts import (
    EVERYONE,
    Balance,
    Limit,
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
from capataz.stores.sql.database import Database

_HELD = "run, seq, root, agent, tenant, person, source, at, until, tokens, money"
_HOLD = f"INSERT INTO reservation ({_HELD}) VALUES ({', '.join('?' * 11)})"
EXPIRED = f"DELETE FROM reservation WHERE until < ? RETURNING {_HELD}"
_SUMS = (
    "calls",
    "input",
    "output",
    "cache_read",
    "cache_write",
    "reasoning",
    "money",
    "unpriced",
    "guessed",
    "surplus",
)
_COLUMN = {"run": "root", "agent": "agent", "tenant": "tenant", "user": "person"}
_ENDS = (ModelReplied, ModelCallFailed, RunResumed, RunEnded)


def _sum(column: str) -> str:
    return f"CAST(coalesce(sum({column}), 0) AS bigint)"


def booking(key: str) -> str:
    """The statement that adds to what was spent, in a table with this key."""
    added = ", ".join(f"{column} = spent.{column} + excluded.{column}" for column in _SUMS)
    return (
        f"INSERT INTO spent (whose, name, bucket, source, {', '.join(_SUMS)}) VALUES ({', '.join('?' * 14)}) "
        f"ON CONFLICT ({key}) DO UPDATE SET {added}"
    )


BOOK = booking("whose, name, bucket, source")
# One statement: between two, a call could go over from what is reserved to what is spent, and be in neither.
_BALANCE = (
    f"SELECT * FROM (SELECT {_sum('input + output')}, {_sum('money')}, {_sum('unpriced')} "
    "FROM spent WHERE whose = ? AND name = ? AND bucket = ?) AS used, "
    f"(SELECT {_sum('tokens')}, {_sum('money')} FROM reservation WHERE at >= ?"
)
Booking: TypeAlias = "tuple[tuple[str, str, str, str], tuple[int, ...]]"
"""Kind, name, period and source; then the sums."""
_Balances: TypeAlias = "dict[tuple[str, str], dict[tuple[str, float], Balance]]"
"""By kind and name, then by period and when it has begun."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What a model call can use, to be held at the place of its start in its log, and the limits it is under."""

    run: str
    seq: int
    wanted: Reservation
    limits: Sequence[Limit]

    def under(self, kept: Sequence[Limit]) -> list[Limit]:
        """The limits that hold for it, with those that are kept in the store."""
        return applicable(merged(self.limits, kept), self.wanted.payer)


def admit(connection: Database, hold: Hold) -> Refusal | None:
    """Hold the most a call can use, if it fits under all limits; else say why not. For one who is alone."""
    book(connection, expired(connection, hold.wanted.at))
    (refused,) = reserve(connection, [(hold, hold.under(allowances(connection)))])
    return refused


def reserve(connection: Database, asked: Sequence[tuple[Hold, Sequence[Limit]]]) -> list[Refusal | None]:
    """The same for several calls in their order, each under its limits; nobody else reserves on their accounts."""
    accounts = {account(limit, hold.wanted.payer, hold.wanted.at) for hold, limits in asked for limit in limits}
    balances: _Balances = {}
    for whose, name, bucket, since in sorted(accounts):
        balances.setdefault((whose, name), {})[bucket, since] = _balance(connection, whose, name, bucket, since)
    answers = [_admit(hold.wanted, limits, balances) for hold, limits in asked]
    held = [_row(hold) for (hold, _), refused in zip(asked, answers, strict=True) if refused is None]
    if held:
        connection.executemany(_HOLD, held)
    return answers


def _admit(wanted: Reservation, limits: Sequence[Limit], balances: _Balances) -> Refusal | None:
    """Whether it fits; then it counts for whoever comes after it."""
    for limit in limits:
        whose, name, bucket, since = account(limit, wanted.payer, wanted.at)
        refused = refusal(limit, balances[whose, name][bucket, since], wanted)
        if refused is not None:
            return refused
    money = dollars(grains(wanted.money or Decimal(0)))
    for named in wanted.payer.accounts():
        for (bucket, since), old in balances.get(named, {}).items():
            if wanted.at >= since:
                more = replace(old, held_tokens=old.held_tokens + wanted.tokens, held_money=old.held_money + money)
                balances[named][bucket, since] = more
    return None


def _row(hold: Hold) -> tuple[Any, ...]:
    wanted, payer = hold.wanted, hold.wanted.payer
    money = None if wanted.money is None else grains(wanted.money)
    return (
        *(hold.run, hold.seq, payer.run, payer.agent, payer.tenant, payer.person),
        *(wanted.source, wanted.at, wanted.until, wanted.tokens, money),
    )


def _balance(connection: Database, whose: str, name: str, bucket: str, since: float) -> Balance:
    """What an account has spent in a period, and what is reserved on it."""
    column = _COLUMN.get(whose)
    narrowed, given = ("", ()) if column is None else (f" AND {column} = ?", (name,))
    tokens, money, unpriced, held_tokens, held_money = connection.execute(
        f"{_BALANCE}{narrowed}) AS held", (whose, name, bucket, since, *given)
    ).fetchone()
    return Balance(tokens, dollars(money), held_tokens, dollars(held_money), unpriced)


def settled(connection: Database, facts: Iterable[tuple[str, Fact]]) -> list[Booking]:
    """Take out what these facts of runs bring to an end; what is to be booked for it."""
    ends: dict[str, Fact] = {}
    for run, fact in facts:
        if isinstance(fact, _ENDS):
            ends.setdefault(run, fact)
    if not ends:
        return []
    taken = f"DELETE FROM reservation WHERE run IN ({', '.join('?' * len(ends))}) RETURNING {_HELD}"
    rows: list[Booking] = []
    for held in sorted(connection.execute(taken, tuple(ends)).fetchall(), key=lambda held: -int(held[1])):
        end = ends.pop(str(held[0]), None)  # only the newest call of a run can be the one it speaks of
        if isinstance(end, ModelReplied):
            rows += _booked(held, end.usage if end.usage.reported else None)
        elif not isinstance(end, ModelCallFailed) or end.billed:
            rows += _booked(held, None)
    return rows


def expired(connection: Database, now: float, statement: str = EXPIRED) -> list[Booking]:
    """Take out what was reserved for calls nobody will bring to an end any more: it is booked in full."""
    return [row for held in connection.execute(statement, (now,)).fetchall() for row in _booked(held, None)]


def book(connection: Database, rows: Iterable[Booking], statement: str = BOOK) -> None:
    """Add to what was spent, in one order for everybody."""
    sums: dict[tuple[str, str, str, str], tuple[int, ...]] = {}
    for key, amounts in rows:
        sums[key] = tuple(map(add, sums[key], amounts)) if key in sums else amounts
    if sums:
        connection.executemany(statement, [(*key, *amounts) for key, amounts in sorted(sums.items())])


def _booked(held: Sequence[Any], usage: Usage | None) -> list[Booking]:
    """What a call has used, for each of its accounts; without a usage, all that was reserved for it."""
    _, _, root, agent, tenant, person, source, at, _, tokens, most = held
    if usage is None:
        sums = (1, tokens, 0, 0, 0, 0, most or 0, int(most is None), 1, 0)
    else:
        money = None if usage.money is None else grains(usage.money)
        surplus = usage.tokens > tokens or (money is not None and most is not None and money > most)
        counts = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
        sums = (1, *counts, money or 0, int(money is None), 0, int(surplus))
    kept = (("all", EVERYONE), ("agent", agent), ("tenant", tenant), ("user", person))
    accounts = [(whose, name, bucket, source) for whose, name in kept if name for bucket in buckets(at).values()]
    return [(each, sums) for each in (*accounts, ("run", root, "total", source))]


# ── what people set and read ─────────────────────────────────────────────────────────────────────────────────


def allowances(connection: Database) -> list[Limit]:
    found = connection.execute("SELECT whose, name, period, tokens, money FROM allowance ORDER BY whose, name, period")
    return [
        Limit(whose, name, period, tokens, None if money is None else dollars(money))
        for whose, name, period, tokens, money in found
    ]


def allow(connection: Database, limit: Limit) -> None:
    money = None if limit.money is None else grains(Decimal(limit.money))
    connection.execute(
        "INSERT INTO allowance (whose, name, period, tokens, money) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (whose, name, period) DO UPDATE SET (tokens, money) = (excluded.tokens, excluded.money)",
        (limit.whose, limit.name, limit.period, limit.tokens, money),
    )


def disallow(connection: Database, whose: str, name: str, period: str) -> bool:
    done = connection.execute(
        "DELETE FROM allowance WHERE whose = ? AND name = ? AND period = ?", (whose, name, period)
    )
    return done.rowcount == 1


def spent(connection: Database, by: str, bucket: str, limit: int) -> list[Spent]:
    """The sums of one period, by tenant, user, agent, run or source; those that spent most first."""
    whose, column = ("all", "source") if by == "source" else (by, "name")
    sums = ", ".join(map(_sum, _SUMS))
    found = connection.execute(
        f"SELECT {column}, {sums} FROM spent WHERE whose = ? AND bucket = ? GROUP BY {column} "
        "ORDER BY sum(money) DESC, sum(input + output) DESC, 1 LIMIT ?",
        (whose, bucket, limit),
    )
    return [_spent(columns) for columns in found]


def _spent(columns: Sequence[Any]) -> Spent:
    name, calls, into, out, read, written, thought, money, unpriced, guessed, over = columns
    return Spent(name, calls, into, out, read, written, thought, dollars(money), unpriced, guessed, over)
