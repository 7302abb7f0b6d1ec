"""The log of one run, while it is being written.

It stamps facts with their place and time, folds them into the state and hands them to the store. It is the only
writer of its run: the lease and the expected sequence make sure of that, and losing them ends the run here.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any, cast

from capataz.events.facts import Event, Fact
from capataz.kernel.evolve import evolve
from capataz.kernel.state import State
from capataz.money.accounts import Limit, Refusal, Reservation
from capataz.ports import Accounts, Clock, Lease, Store
from capataz.tools.usercode import Trap


class Journal:
    """Records facts. `record` is immediate; `durable` waits until all that was recorded is on disk."""

    def __init__(
        self, store: Store, lease: Lease, state: State, clock: Clock, on_event: Callable[[Event], None] | None = None
    ) -> None:
        self.state = state
        self._store, self._lease, self._clock = store, lease, clock
        self._on_event = on_event
        self._pending: list[Event] = []
        self._last: Future[Any] | None = None
        self._accounts = accounts_of(store)
        self.newest: Fact | None = None
        """What was recorded last by this journal."""

    def record(self, fact: Fact) -> Event:
        """Stamp the fact, fold it into the state, and queue it for writing."""
        now = self._clock.now()
        event = Event(self.state.seq + 1, max(now, self.state.now), fact)
        evolve(self.state, event)
        self._pending.append(event)
        self.newest = fact
        if self._on_event is not None:
            with Trap():  # whoever watches may not disturb what is watched
                self._on_event(event)
        return event

    def flush(self) -> None:
        """Hand everything recorded so far to the store, without waiting for the disk."""
        if not self._pending:
            return
        ack = self._store.append(self._lease, self._pending[0].seq, self._pending)
        # A failure is read by whoever waits for durability next; every later append fails after it.
        ack.add_done_callback(_mark_seen)
        self._pending, self._last = [], ack

    def reserve(self, wanted: Reservation, limits: Sequence[Limit]) -> Future[Refusal | None]:
        """`flush`, and hold what the call can use that was recorded last. The future is done when both are durable."""
        assert self._accounts is not None
        assert self._pending
        ack = self._accounts.reserve(self._lease, self._pending[0].seq, self._pending, wanted, limits)
        ack.add_done_callback(_mark_seen)
        self._pending, self._last = [], ack
        return ack

    async def durable(self) -> None:
        """Return when all that was recorded is durable; raise `Fenced` or `StoreError` when it cannot be."""
        self.flush()
        if self._last is not None:
            await self._last


def accounts_of(store: Store) -> Accounts | None:
    """The balances beside a store's logs; None for a store that keeps none."""
    make: Any = getattr(store, "accounts", None)
    return None if make is None else cast(Accounts, make())


def _mark_seen(ack: Future[Any]) -> None:
    if not ack.cancelled():
        ack.exception()
