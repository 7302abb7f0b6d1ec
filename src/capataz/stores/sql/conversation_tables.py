"""The statements of the conversations, each a part of one transaction that somebody else begins and commits.

Who may work in a conversation is decided here and nowhere else: one run at a time, in the order of arrival, and nobody
waits for the dead. A run of the queue is alive as long as its job is; any other one as long as it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from capataz.events.facts import Said
from capataz.memory.conversation import Arrived, Entered, Thread, Told
from capataz.mistakes import NotFound
from capataz.stores.sealing import Seal
from capataz.stores.sql.database import Database, as_whole

_MAKE = (
    "INSERT INTO conversation (conversation, agent, tenant, person, created_at, changed_at) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (conversation) DO NOTHING"
)
_ARRIVE = (
    "INSERT INTO message (conversation, role, run, at, until, body) VALUES (?, 'user', ?, ?, ?, ?) "
    "ON CONFLICT (run, role) DO UPDATE SET "
    "until = CASE WHEN excluded.until > message.until THEN excluded.until ELSE message.until END"
)
_ANSWER = (
    "INSERT INTO message (conversation, position, role, run, at, body) VALUES (?, ?, 'assistant', ?, ?, ?) "
    "ON CONFLICT (run, role) DO UPDATE SET body = excluded.body"
)
_ALIVE = "SELECT 1 FROM job WHERE run = ? AND state IN ('queued', 'parked', 'claimed')"
_FIRST = "SELECT id, run, until FROM message WHERE conversation = ? AND position IS NULL ORDER BY id LIMIT 1"
_SAID = (
    "SELECT role, body, run FROM message WHERE conversation = ? AND position >= ? AND position < ? ORDER BY position"
)
_WAKE = (
    "UPDATE job SET state = 'queued' WHERE state = 'parked' AND run IN "
    "(SELECT run FROM message WHERE conversation = ? AND position IS NULL ORDER BY id LIMIT 1)"
)
_THREAD = (
    "SELECT conversation, agent, tenant, person, created_at, changed_at, positions, "
    "(SELECT count(*) FROM message WHERE message.conversation = conversation.id AND position IS NULL), "
    "run, upto, summary FROM conversation"
)
_RUNS = (
    "SELECT run FROM run WHERE conversation = ? OR root IN (SELECT run FROM run WHERE conversation = ?) "
    "OR run IN (SELECT message.run FROM message WHERE message.conversation = ?)"
)


def arrive(connection: Database, seal: Seal, now: float, message: Arrived) -> str:
    """Empty, or why it was not kept."""
    owner = (message.agent, message.tenant, message.user)
    connection.execute(_MAKE, (message.conversation, *owner, now, now))
    identity, *known = connection.execute(
        "SELECT id, agent, tenant, person FROM conversation WHERE conversation = ?", (message.conversation,)
    ).fetchone()
    if tuple(known) != owner:
        what = next(name for name, a, b in zip(("agent", "tenant", "user"), known, owner, strict=True) if a != b)
        return f"conversation {message.conversation!r} is with another {what}: it is one person's with one agent"
    body = seal.close(message.text.encode(errors="surrogatepass"), place_of_message(message.run, "user"))
    connection.execute(_ARRIVE, (identity, message.run, now, now + message.patience, body))
    return ""


def enter(connection: Database, seal: Seal, now: float, conversation: str, run: str, lease: float) -> Entered | None:
    with as_whole(connection):
        return _enter(connection, seal, now, conversation, run, lease)


def _enter(connection: Database, seal: Seal, now: float, conversation: str, run: str, lease: float) -> Entered | None:
    identity, holder, until, unsettled, positions, upto, summary = _row(connection, conversation)
    left: list[str] = str(unsettled or "").split()
    if holder is not None and holder != run:
        if until > now or _alive(connection, holder):
            return None
        left.append(holder)
    own = connection.execute("SELECT position FROM message WHERE run = ? AND role = 'user'", (run,)).fetchone()
    place = None if own is None else own[0]
    if own is not None and place is None:
        place = _take(connection, identity, run, now, positions)
        if place is None:
            return None
        positions = place + 1
    connection.execute(
        "UPDATE conversation SET run = ?, until = ?, unsettled = ?, positions = ?, changed_at = ? WHERE id = ?",
        (run, now + lease, " ".join(left) or None, positions, now, identity),
    )
    said = _said(connection, seal, identity, upto, positions if place is None else place)
    receipts = connection.execute("SELECT run, body FROM receipt WHERE conversation = ? AND run <> ?", (identity, run))
    standing: set[str] = set()
    for by, body in receipts:
        standing.update(orjson.loads(seal.open(body, place_of_message(by, "receipt"))))
    before = seal.open(summary, place_of_summary(conversation)).decode(errors="surrogatepass")
    return Entered(before, tuple(said), upto, tuple(sorted(standing)), tuple(left))


def _take(connection: Database, identity: int, run: str, now: float, positions: int) -> int | None:
    """The place of this run's message among what was said; None while an earlier one waits for its run."""
    passed: list[int] = []
    for waiting, by, until in connection.execute(_FIRST.replace("LIMIT 1", ""), (identity,)).fetchall():
        passed.append(waiting)
        if by == run:
            break
        if until > now or _alive(connection, by):
            return None
    for place, waiting in enumerate(passed, positions):
        connection.execute("UPDATE message SET position = ? WHERE id = ?", (place, waiting))
    return positions + len(passed) - 1


def stay(connection: Database, now: float, conversation: str, run: str, lease: float) -> bool:
    if lease <= 0:
        connection.execute("UPDATE message SET until = ? WHERE run = ? AND position IS NULL", (now, run))
    done = connection.execute(
        "UPDATE conversation SET until = ? WHERE conversation = ? AND run = ?", (now + lease, conversation, run)
    )
    return done.rowcount == 1


def leave(connection: Database, seal: Seal, now: float, conversation: str, run: str, told: Told) -> None:
    identity, holder, _, unsettled, positions, upto, _ = _row(connection, conversation)
    if told.answer:
        body = seal.close(told.answer.encode(errors="surrogatepass"), place_of_message(run, "assistant"))
        known = connection.execute("SELECT 1 FROM message WHERE run = ? AND role = 'assistant'", (run,)).fetchone()
        connection.execute(_ANSWER, (identity, positions, run, now, body))
        positions += known is None
    if upto < told.upto <= positions:
        body = seal.close(told.summary.encode(errors="surrogatepass"), place_of_summary(conversation))
        connection.execute("UPDATE conversation SET upto = ?, summary = ? WHERE id = ?", (told.upto, body, identity))
    connection.execute("DELETE FROM receipt WHERE conversation = ? AND run = ?", (identity, run))
    if told.standing:
        body = seal.close(orjson.dumps(told.standing), place_of_message(run, "receipt"))
        connection.execute("INSERT INTO receipt (conversation, run, body) VALUES (?, ?, ?)", (identity, run, body))
    left = " ".join(name for name in (unsettled or "").split() if name != run)
    holder = None if holder == run else holder
    connection.execute(
        "UPDATE conversation SET run = ?, unsettled = ?, positions = ?, changed_at = ? WHERE id = ?",
        (holder, left or None, positions, now, identity),
    )
    if holder is None:
        connection.execute(_WAKE, (identity,))


def threads(connection: Database, limit: int) -> list[Thread]:
    found = connection.execute(f"{_THREAD} ORDER BY changed_at DESC, id DESC LIMIT ?", (limit,))
    return [_thread(columns) for columns in found]


def _thread(columns: Sequence[Any]) -> Thread:
    return Thread(*columns[:10])


def thread(connection: Database, seal: Seal, conversation: str) -> tuple[Thread, list[Said]]:
    identity, *_, positions, _, _ = _row(connection, conversation)
    columns = connection.execute(f"{_THREAD} WHERE id = ?", (identity,)).fetchone()
    summary = seal.open(columns[10], place_of_summary(conversation)).decode(errors="surrogatepass")
    said = _said(connection, seal, identity, 0, positions)
    waiting = connection.execute(
        "SELECT role, body, run FROM message WHERE conversation = ? AND position IS NULL ORDER BY id", (identity,)
    )
    return replace(_thread(columns), summary=summary), said + [_one(seal, row) for row in waiting]


def erase(connection: Database, now: float, conversation: str, logs: bool) -> list[str] | str:
    """The runs whose logs belong to it; with `logs` they are taken out as well. A word where that cannot be."""
    identity, holder, until, *_ = _row(connection, conversation)
    if holder is not None and (until > now or _alive(connection, holder)):
        return f"run {holder} is at work in conversation {conversation!r}: cancel it, or wait for its end"
    spoke = connection.execute("SELECT DISTINCT run FROM message WHERE conversation = ?", (identity,)).fetchall()
    own = connection.execute(_RUNS, (conversation, conversation, identity)).fetchall() if logs else []
    runs = sorted({str(run) for (run,) in (*spoke, *own)})
    for run in runs:
        if logs:
            # Whoever still writes to it is shut out first.
            connection.execute("UPDATE run SET epoch = epoch + 1 WHERE run = ?", (run,))
            connection.execute("DELETE FROM event WHERE run IN (SELECT id FROM run WHERE run = ?)", (run,))
            connection.execute("DELETE FROM run WHERE run = ?", (run,))
        connection.execute("DELETE FROM job WHERE run = ?", (run,))
    for table in ("message", "receipt"):
        connection.execute(f"DELETE FROM {table} WHERE conversation = ?", (identity,))
    connection.execute("DELETE FROM conversation WHERE id = ?", (identity,))
    return runs


def _row(connection: Database, conversation: str) -> Sequence[Any]:
    found = connection.execute(
        "SELECT id, run, until, unsettled, positions, upto, summary FROM conversation WHERE conversation = ?",
        (conversation,),
    ).fetchone()
    if found is None:
        raise NotFound(f"there is no conversation {conversation!r} in this store")
    return found  # type: ignore[no-any-return]


def _said(connection: Database, seal: Seal, identity: int, first: int, end: int) -> list[Said]:
    return [_one(seal, row) for row in connection.execute(_SAID, (identity, first, end))]


def _one(seal: Seal, row: Sequence[Any]) -> Said:
    role, body, run = row
    return Said(role, seal.open(body, place_of_message(run, role)).decode(errors="surrogatepass"), run)


def place_of_summary(conversation: str) -> str:
    """What a sealed summary is bound to."""
    return f"conversation {conversation}, its summary"


def place_of_message(run: str, what: str) -> str:
    """What a sealed message of a run is bound to, and what else it leaves."""
    return f"run {run}, its {what}"


def _alive(connection: Database, run: str) -> bool:
    return connection.execute(_ALIVE, (run,)).fetchone() is not None
