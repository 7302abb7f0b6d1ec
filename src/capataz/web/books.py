"""The logs that are looked at, read once and then only onwards, with their trees.

A book is a cache of a log. Our own logs only grow, so a book takes what is new; the record of another runtime's run may
be told anew at any time and is read again as a whole. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from capataz.events.facts import Event, RunStarted, VerdictGiven
from capataz.lens.trace.fold import Folding, Trace
from capataz.mistakes import NotFound
from capataz.ports import Clock, Queue, Store
from capataz.web.tokens import Caller

KEPT_EVENTS = 200_000
"""Events of all books together; the one looked at longest ago goes first."""
FRESH = 0.3
"""Seconds for which a book is taken as it is."""
FROM = "~"
"""Between the tenant and the trace, in the id of a run that a tenant's spans told."""


@dataclass(slots=True)
class Book:
    """A log and its tree. `firsts` are the places in `events` where turns begin."""

    run: str
    events: list[Event] = field(default_factory=list[Event])
    folding: Folding = field(default_factory=Folding)
    firsts: list[int] = field(default_factory=list[int])
    verdicts: list[Event] = field(default_factory=list[Event])
    read_at: float = 0.0

    @property
    def tree(self) -> Trace:
        """The tree of the originals: for its shape. What is shown is masked first."""
        return self.folding.trace

    @property
    def started(self) -> RunStarted | None:
        return self.tree.run

    @property
    def foreign(self) -> bool:
        return self.started is not None and self.started.source != "capataz"

    def take(self, events: Sequence[Event]) -> None:
        self.folding.fold_all(self._noted(events))

    def _noted(self, events: Sequence[Event]) -> Iterator[Event]:
        """The events, each noted down once it was folded: then it shows whether a turn has begun with it."""
        turns = self.tree.turns
        for event in events:
            before = len(turns)
            yield event
            if len(turns) > before:
                self.firsts.extend([len(self.events)] * (len(turns) - before))
            if isinstance(event.fact, VerdictGiven):
                self.verdicts.append(event)
            self.events.append(event)

    def opening(self) -> list[Event]:
        """What came before the first turn."""
        return self.events[: self.firsts[0]] if self.firsts else self.events

    def turn(self, index: int) -> list[Event]:
        """The events of the turn at this index (which is not its number)."""
        if not 0 <= index < len(self.firsts):
            return []
        end = self.firsts[index + 1] if index + 1 < len(self.firsts) else len(self.events)
        return self.events[self.firsts[index] : end]

    def turn_of(self, seq: int) -> int | None:
        """The index of the turn in which an event stands."""
        if not self.events or not self.firsts:
            return None
        place = seq - self.events[0].seq
        low, high = 0, len(self.firsts)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.firsts[middle] <= place else (low, middle)
        return low - 1 if low else None

    def event(self, seq: int) -> Event | None:
        place = seq - self.events[0].seq if self.events else -1
        return self.events[place] if 0 <= place < len(self.events) else None


@dataclass(slots=True)
class Books:
    """The books of one server, and whose they are."""

    store: Store
    queue: Queue | None
    clock: Clock
    _open: OrderedDict[str, Book] = field(default_factory=OrderedDict[str, Book])
    _owners: OrderedDict[str, str] = field(default_factory=OrderedDict[str, str])
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])

    async def get(self, run: str, caller: Caller, *, fresh: bool = False) -> Book:
        """The book of a run as it stands now. Raises `NotFound`, also for a run of another tenant."""
        lock = self._locks.setdefault(run, asyncio.Lock())
        try:
            async with lock:
                book = await self._read(run, fresh)
        finally:
            if not lock.locked():
                self._locks.pop(run, None)
        if not await self.may_see(caller, run, book.started):
            raise NotFound(f"there is no run {run} in this store")
        return book

    async def _read(self, run: str, fresh: bool) -> Book:
        book, now = self._open.get(run), self.clock.now()
        if book is not None and not fresh and now - book.read_at < FRESH:
            return book
        if book is None or book.foreign:
            book = Book(run)
            events = await self.store.read(run)
        else:
            events = await self.store.read(run, book.events[-1].seq)
        for start in range(0, len(events), 2_000):
            book.take(events[start : start + 2_000])
            await asyncio.sleep(0)
        book.read_at = now
        self._keep(run, book)
        return book

    def _keep(self, run: str, book: Book) -> None:
        self._open[run] = book
        self._open.move_to_end(run)
        while len(self._open) > 1 and sum(len(kept.events) for kept in self._open.values()) > KEPT_EVENTS:
            self._open.popitem(last=False)

    async def may_see(self, caller: Caller, run: str, started: RunStarted | None, root: str = "") -> bool:
        """Whether this run is one of the caller's tenant."""
        if caller.tenant is None:
            return True
        if started is not None and (told := getattr(started, "tenant", "")):
            return bool(told == caller.tenant)
        return caller.tenant in (await self._owner(run), await self._owner(root or (started.root if started else "")))

    def claim(self, run: str, tenant: str) -> None:
        """This run is the tenant's, though its log does not say so."""
        self._owners[run] = tenant

    async def _owner(self, run: str) -> str:
        """The tenant of a submitted or received run; empty where it is nobody's."""
        if FROM in run:
            return run.partition(FROM)[0]
        if not run:
            return ""
        if run not in self._owners:
            if self.queue is None:
                return ""
            row = await self.queue.look(run)
            if row is None:
                return ""
            self._owners[run] = row.job.tenant
            while len(self._owners) > 50_000:
                self._owners.popitem(last=False)
        return self._owners[run]
