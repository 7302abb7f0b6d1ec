"""What runs cost, and what they may cost."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from typing import Protocol

from capataz.events.facts import Event
from capataz.money.accounts import Limit, Refusal, Reservation, Spent
from capataz.ports.stores import Lease


class Accounts(Protocol):
    """Balances beside the logs, brought forward in the transactions that append to them: they cannot drift apart.

    Every append settles by itself what its facts bring to an end: the reply of a call, its failure, the resumption
    or the end of a run. A reservation whose call's end is not known is charged in full.
    """

    def reserve(
        self, lease: Lease, first_seq: int, events: Sequence[Event], wanted: Reservation, limits: Sequence[Limit]
    ) -> Future[Refusal | None]:
        """`Store.append`, and in the same transaction hold what the model call can use that the last event starts.

        The place of that event is the key. `limits` hold beside those that are set in the store, which go before them.
        A refusal holds nothing; the events are written all the same.
        """
        ...

    async def limits(self) -> list[Limit]: ...

    async def allow(self, limit: Limit) -> None:
        """Set a limit, in the place of the one there is for this account and period."""
        ...

    async def disallow(self, whose: str, name: str, period: str) -> bool:
        """Take a limit away; False where there was none."""
        ...

    async def spent(self, by: str, bucket: str = "total", limit: int = 100) -> list[Spent]:
        """What was spent by each "tenant", "user", "agent", "run" or "source" in a period ("total", "2026-11",
        "2026-11-30"; runs have only a total), the greatest first."""
        ...
