"""The accounts of all stores: the same statements in a file, in memory and in PostgreSQL."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from capataz.events.facts import Event
from capataz.money.accounts import Limit, Refusal, Reservation, Spent
from capataz.ports import Lease
from capataz.stores.sql import account_tables as tables
from capataz.stores.sql.account_tables import Hold
from capataz.stores.sql.database import Perform

Append: TypeAlias = Callable[[Lease, int, Sequence[Event], Hold], "Future[Refusal | None]"]
"""Appends, and holds what the call can use in the same transaction."""


@dataclass(frozen=True, slots=True)
class SqlAccounts:
    """`Accounts` in any of the stores."""

    perform: Perform
    append: Append

    def reserve(
        self, lease: Lease, first_seq: int, events: Sequence[Event], wanted: Reservation, limits: Sequence[Limit]
    ) -> Future[Refusal | None]:
        return self.append(lease, first_seq, events, Hold(lease.run, events[-1].seq, wanted, limits))

    async def limits(self) -> list[Limit]:
        return await self.perform("read the limits in", tables.allowances, reads=True)

    async def allow(self, limit: Limit) -> None:
        await self.perform("set a limit in", partial(tables.allow, limit=limit))

    async def disallow(self, whose: str, name: str, period: str) -> bool:
        return await self.perform(
            "take a limit out of", partial(tables.disallow, whose=whose, name=name, period=period)
        )

    async def spent(self, by: str, bucket: str = "total", limit: int = 100) -> list[Spent]:
        return await self.perform("add up", partial(tables.spent, by=by, bucket=bucket, limit=limit), reads=True)
