"""The receiver's working part: keeps spans as they come, and tells each trace's run anew when there is news.

A request is answered once its spans are durable; telling comes after, by itself, and again after a restart. How often
a run is told anew is bounded by what telling it costs, so that one long trace does not take the machine.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from capataz.events.facts import JSON, Event
from capataz.faults.lasting import Lasting
from capataz.ingest.otlp import Unusable as Unusable
from capataz.ingest.receiver import batch, interesting, read, root_of, tell
from capataz.mistakes import Fenced, NotFound, StoreError
from capataz.ports import Clock, KeptSpan, RecordStore, SpanBook, Store
from capataz.web.books import FROM

_log = logging.getLogger("capataz.receiver")
MOST_SPANS = 50_000
"""Of one trace; what comes beyond is refused and counted in the answer."""
TICK = 0.2
SWEEP = 30.0
"""Seconds between two looks after those that have gone silent."""
TOLD_LATER = "runs of received spans are told later"
CALM = SWEEP + 10.0
"""Seconds without a failure after which all that waited has had its turn again."""
NO_END = 15 * 60.0
"""Seconds without news after which a trace without a root is shown as `no end seen`."""
GRACE = 120.0
"""Seconds after which a trace with a root expects no more."""
KEPT_DAYS = 7
"""Spans of settled traces are kept so long; their runs stay."""
SHARE = 0.2
"""Of the time, at most, that telling one trace anew may take."""


@dataclass(slots=True)
class Receiver:
    """Takes spans in, and keeps the runs they tell up to date."""

    store: RecordStore
    book: SpanBook
    clock: Clock
    no_end: float = NO_END
    grace: float = GRACE
    _dirty: dict[str, float] = field(default_factory=dict[str, float])
    """Traces with news, and when they are to be told (by the clock)."""
    _rests: dict[str, float] = field(default_factory=dict[str, float])
    """Until when a trace that was just told is left alone."""
    _told: OrderedDict[str, list[Event]] = field(default_factory=OrderedDict[str, list[Event]])
    _swept: float = 0.0

    async def take(self, value: JSON, tenant: str | None) -> tuple[int, int]:
        """Keep the spans of a request, durably. How many were kept and how many refused."""
        found = batch(value, f"{tenant}{FROM}" if tenant else "")
        if not found.spans:
            return 0, found.unusable
        now = self.clock.now()
        changed, refused = await self.book.keep(found.spans, now, MOST_SPANS)
        for trace in changed:
            self._dirty.setdefault(trace, max(now, self._rests.get(trace, 0.0)))
        return len(found.spans) - refused, refused + found.unusable

    async def watch(self) -> None:
        """Tell what has news, for ever. A store that does not answer is asked again."""
        troubles = Lasting(_log.warning, time.monotonic)
        await self._again(0.0)
        while True:
            try:
                await self.tick()
            except StoreError as error:
                troubles.failed(TOLD_LATER, error)
                await asyncio.sleep(2)
            else:
                troubles.over(TOLD_LATER, CALM)
            await asyncio.sleep(TICK)

    async def tick(self) -> None:
        """Tell every trace whose time has come, and look after those that have gone silent.

        One that cannot be told keeps none of the others from it. Raises the last `StoreError` when all had their turn.
        """
        now, failed = self.clock.now(), None
        for trace in [trace for trace, due in self._dirty.items() if due <= now]:
            began = self.clock.now()
            del self._dirty[trace]
            try:
                await self.tell(trace)
            except StoreError as error:
                self._dirty.setdefault(trace, now + 5)
                failed = error
            ended = self.clock.now()
            self._rests[trace] = ended + (ended - began) / SHARE
        self._rests = {trace: until for trace, until in self._rests.items() if until > now}
        if now - self._swept > SWEEP:
            self._swept = now
            await self.sweep()
        if failed is not None:
            raise failed

    async def sweep(self) -> None:
        """Settle what expects no more; end what has been silent too long. Raises as `tick` does."""
        now, failed = self.clock.now(), None
        for trace, last in await self.book.open(now - min(self.grace, self.no_end)):
            try:
                await self._settle(trace, last, now)
            except StoreError as error:
                failed = error
        await self.book.forget(now - KEPT_DAYS * 86_400)
        if failed is not None:
            raise failed

    async def _settle(self, trace: str, last: float, now: float) -> None:
        spans = read(await self.book.of(trace))
        if root_of(spans) is not None and now - last > self.grace:
            await self.tell(trace)
            await self.book.settle(trace, last)
        elif now - last > self.no_end:
            await self.tell(trace, silent=now - last)
            await self.book.settle(trace, last)

    async def _again(self, after: float) -> None:
        """What was kept before a restart and perhaps never told."""
        try:
            for trace, _ in await self.book.open(self.clock.now() + 1, 10_000):
                self._dirty.setdefault(trace, after)
        except StoreError as error:
            _log.warning("the traces of before cannot be listed: %s", error)

    async def tell(self, trace: str, silent: float | None = None) -> list[Event]:
        """Tell one trace's run as it is now known; nothing is written where nothing has changed."""
        kept = await self.book.of(trace)
        events = await asyncio.to_thread(_events, trace, kept, silent)
        if not events:
            return []
        before = self._told.get(trace)
        if before is None:
            before = await self._stored(trace)
        if before != events:
            await self._write(trace, before, events)
        self._told[trace] = events
        self._told.move_to_end(trace)
        while len(self._told) > 1 and sum(map(len, self._told.values())) > 100_000:
            self._told.popitem(last=False)
        return events

    async def _stored(self, trace: str) -> list[Event]:
        try:
            return await self.store.read(trace)
        except NotFound:
            return []

    async def _write(self, trace: str, before: list[Event], events: list[Event]) -> None:
        lease = await self.store.claim(trace, "receiver")
        try:
            if before and events[: len(before)] == before:
                await self.store.append(lease, len(before), events[len(before) :])
            else:
                await self.store.rewrite(lease, events)
        except Fenced as lost:  # another process receives the same trace, or this id is a run of our own
            self._told.pop(trace, None)
            _log.warning("run %s was not told: %s", trace, lost)


def _events(trace: str, kept: list[KeptSpan], silent: float | None) -> list[Event]:
    spans = read(kept)
    return tell(trace, spans, silent) if interesting(spans) else []


def receiver_for(store: Store, clock: Clock) -> Receiver | None:
    """A receiver over a store that can keep records of other runtimes; None for one that cannot."""
    make = getattr(store, "spans", None)
    if make is None or not hasattr(store, "rewrite"):
        return None
    records: RecordStore = store  # type: ignore[assignment]
    return Receiver(records, records.spans(), clock)
