"""A small shop in SQLite: orders, refunds, messages. The demo's agents work on it, so its rows are the truth.

What a model or a runtime says about the shop is never believed here: `refunds` and `messages` are read back from the
file. Every function opens its own connection, because tools run in threads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Gateway = Literal["works", "pending", "declines"]
"""What the payment gateway does: pays; says "pending" and does not pay; refuses with an error."""

_SCHEMA = """
CREATE TABLE orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL, cents INTEGER NOT NULL,
                     status TEXT NOT NULL);
CREATE TABLE refunds (id INTEGER PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders(id), cents INTEGER NOT NULL);
CREATE TABLE messages (id INTEGER PRIMARY KEY, order_id TEXT NOT NULL, text TEXT NOT NULL);
"""
_ORDERS = (
    ("78", "Nadia", "desk chair", 18_900, "delivered"),
    ("79", "Tomas", "two bookends", 2_400, "delivered"),
    ("80", "Iris", "reading lamp", 4_200, "on its way"),
    ("81", "Iris", "glass lamp", 1_250, "delivered, reported broken"),
    ("82", "Joan", "wall clock", 3_100, "delivered"),
)
_LONGEST_MESSAGE = 600


class NoSuchOrder(LookupError):
    """The order asked for is not in the shop."""


class GatewayDown(RuntimeError):
    """The payment gateway refused to pay."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What the shop's tables hold: the only truth of a scene."""

    refunds: int
    refunded_cents: int
    messages: int


@dataclass(frozen=True, slots=True)
class Shop:
    """A shop in the SQLite file at `path`. `catalogue` switches whether searching finds anything."""

    path: Path
    gateway: Gateway = "works"
    catalogue: bool = True

    @classmethod
    def open(cls, path: Path, *, gateway: Gateway = "works", catalogue: bool = True) -> Shop:
        """Make the file with its five orders."""
        shop = cls(path, gateway, catalogue)
        with shop._connection() as db:
            db.executescript(_SCHEMA)
            db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", _ORDERS)
        return shop

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        db = sqlite3.connect(self.path, timeout=5)
        db.row_factory = sqlite3.Row
        try:
            with db:
                yield db
        finally:
            db.close()

    # ── what an agent may do ─────────────────────────────────────────────────────────────────────────────

    def find_orders(self, query: str) -> dict[str, Any]:
        """Orders whose number, customer or item contains one of the words."""
        words = [word.strip("#.,").lower() for word in query.split()]
        with self._connection() as db:
            orders = [dict(row) for row in db.execute("SELECT id, customer, item FROM orders ORDER BY id")]
        found = [order for order in orders if any(word and word in " ".join(order.values()).lower() for word in words)]
        return {"results": found if self.catalogue else []}

    def get_order(self, order_id: str) -> dict[str, Any]:
        """One order: what it was, what it cost in cents, and what was refunded on it."""
        with self._connection() as db:
            row = db.execute("SELECT * FROM orders WHERE id = ?", (order_id,)).fetchone() if self.catalogue else None
            if row is None:
                raise NoSuchOrder(f"there is no order {order_id!r}")
            (refunded,) = db.execute(
                "SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = ?", (order_id,)
            ).fetchone()
        return {**dict(row), "refunded_cents": refunded}

    def refund(self, order_id: str, cents: int) -> dict[str, Any]:
        """Pay money back to the customer of an order.

        Args:
            order_id: number of the order
            cents: how much, in cents; a full refund is the `cents` of the order
        """
        if self.gateway == "declines":
            raise GatewayDown("the payment gateway refused: card network not available")
        if self.gateway == "pending":
            return {"status": "pending", "note": "the gateway has not made the refund"}
        self.get_order(order_id)
        with self._connection() as db:
            number = db.execute("INSERT INTO refunds (order_id, cents) VALUES (?, ?)", (order_id, cents)).lastrowid
        return {"status": "refunded", "refund": number, "order_id": order_id, "cents": cents}

    def send_message(self, order_id: str, text: str) -> dict[str, Any]:
        """Send a message to the customer of an order."""
        with self._connection() as db:
            kept = text[:_LONGEST_MESSAGE]
            number = db.execute("INSERT INTO messages (order_id, text) VALUES (?, ?)", (order_id, kept)).lastrowid
        return {"status": "sent", "message": number}

    # ── what is true ─────────────────────────────────────────────────────────────────────────────────────

    def has_refund(self, order_id: str, cents: int | None = None) -> bool:
        """Whether money was really paid back on the order (exactly `cents` of it in one refund, when given)."""
        with self._connection() as db:
            rows = db.execute("SELECT cents FROM refunds WHERE order_id = ?", (order_id,)).fetchall()
        return any(cents is None or row["cents"] == cents for row in rows)

    def has_message(self, order_id: str, text: str) -> bool:
        """Whether exactly this was written to the customer of the order."""
        with self._connection() as db:
            row = db.execute(
                "SELECT 1 FROM messages WHERE order_id = ? AND text = ?", (order_id, text[:_LONGEST_MESSAGE])
            ).fetchone()
        return row is not None

    def rows(self) -> Rows:
        """Counts of what was really done."""
        with self._connection() as db:
            refunds, cents = db.execute("SELECT count(*), coalesce(sum(cents), 0) FROM refunds").fetchone()
            (messages,) = db.execute("SELECT count(*) FROM messages").fetchone()
        return Rows(refunds, cents, messages)
