"""Which limits a call is under, known without asking the store each time.

Where there are none, nothing is waited for; where there are, the call waits until what it may use is reserved. A limit
that is set while runs are under way counts from the next look on, a few seconds later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from capataz.money.accounts import Limit, Payer, applicable
from capataz.ports import Accounts, Clock

FRESH = 5.0
"""Seconds for which what the store says of limits is taken as it was."""


@dataclass(slots=True)
class Purse:
    """The limits of an App, and those set in its store."""

    accounts: Accounts
    clock: Clock
    own: Sequence[Limit] = ()
    _stored: list[Limit] = field(default_factory=list[Limit])
    _until: float = float("-inf")

    async def limited(self, payer: Payer) -> bool:
        """Whether there is any limit this payer is under. Raises `StoreError`."""
        if applicable(self.own, payer):
            return True
        if self.clock.now() > self._until:
            self._stored, self._until = await self.accounts.limits(), self.clock.now() + FRESH
        return bool(applicable(self._stored, payer))

    def binding(self, payer: Payer) -> bool:
        """The same, as it was known at the last look."""
        return bool(applicable([*self.own, *self._stored], payer))

    def forget(self) -> None:
        """Ask the store anew at the next call."""
        self._until = float("-inf")
