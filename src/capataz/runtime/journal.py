"""The log of one run, while it is being written.

It stamps facts with their place and time, folds them into the state and hands them to the store. It is the only
writer of its run: the lease and the expected sequence make sure of that, and losing them ends the run here.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from capataz.events.facts import Event, Fact
from capataz.kernel.evolve import evolve
from capataz.kernel.state import State
from capataz.mistakes import StoreError
from capataz.money.accounts import Limit, Refusal, Reservation
from capataz.ports import Accounts, Clock, Lease, Store
from capataz.tools.usercode import Trap

T = TypeVar("T")


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
        self._failure: BaseException | None = None
        """What the first write failed with. Every later one fails after it, with words about the gap it left."""
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
        self._handed(self._store.append(self._lease, self._pending[0].seq, self._pending))

    def reserve(self, wanted: Reservation, limits: Sequence[Limit]) -> Future[Refusal | None]:
        """`flush`, and hold what the call can use that was recorded last. The future is done when both are durable."""
        assert self._accounts is not None
        assert self._pending
        ack = self._accounts.reserve(self._lease, self._pending[0].seq, self._pending, wanted, limits)
        self._handed(ack)
        return ack

    async def durable(self) -> None:
        """Return when all that was recorded is durable; raise `Fenced` or `StoreError` when it cannot be."""
        self.flush()
        if self._last is not None:
            await self.settled(self._last)

    async def settled(self, ack: Future[T]) -> T:
        """The store's answer; where it is an error, the one that everything after it failed for."""
        try:
            return await ack
        except StoreError as error:
            raise self._failure or error from None

    def _handed(self, ack: Future[Any]) -> None:
        # A failure is read by whoever waits for durability next.
        ack.add_done_callback(self._seen)
        self._pending, self._last = [], ack

    def _seen(self, ack: Future[Any]) -> None:
        failed = None if ack.cancelled() else ack.exception()
        self._failure = self._failure or failed


def accounts_of(store: Store) -> Accounts | None:
    """The balances beside a store's logs; None for a store that keeps none."""
    make: Any = getattr(store, "accounts", None)
    return None if make is None else cast(Accounts, make())
