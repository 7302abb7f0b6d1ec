"""The list of runs is the same however a log was cut into appends, and in every store."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from capataz.events.codec import from_line
from capataz.events.facts import Event
from capataz.ports import RunRow, Store
from capataz.stores.memory import MemoryStore
from capataz.stores.sqlite import SqliteStore

LOG = Path(__file__).parent.parent / "data" / "logs" / "v1.jsonl"


def sample() -> list[Event]:
    return [from_line(line) for line in LOG.read_bytes().splitlines()]


async def row_of(store: Store, step: int) -> RunRow:
    events = sample()
    run = events[0].fact.run  # type: ignore[union-attr]
    lease = await store.claim(run, "w")
    for first in range(0, len(events), step):
        await store.append(lease, first, events[first : first + step])
    assert await store.read(run) == events
    (row,) = await store.runs()
    await store.close()
    return row


@pytest.mark.parametrize("step", [1, 2, 7, 100])
async def test_every_cut_and_every_store_gives_the_same_row(tmp_path: Path, step: int) -> None:
    row = await row_of(SqliteStore(tmp_path / "capataz.db"), step)
    assert row == await row_of(MemoryStore(), 1)
    assert (row.status, row.outcome, row.reason) == ("ended", "completed", "effects-confirmed")
    assert (row.spend.turns, row.spend.calls, row.events) == (5, 3, len(sample()))
    assert row.spend.money is None, "one call has no known price"


async def test_a_run_that_goes_on_after_being_suspended_is_running_again() -> None:
    store = MemoryStore()
    lease = await store.claim("r", "w")
    seen: list[tuple[str, str | None]] = []
    for event in sample()[:-1]:
        await store.append(lease, event.seq, [event])
        (row,) = await store.runs()
        if not seen or seen[-1] != (row.status, row.outcome):
            seen.append((row.status, row.outcome))
        assert row.spend.money is None or row.spend.money >= Decimal(0)
    assert seen == [("running", None), ("escalated", "escalated"), ("running", None), ("ended", "completed")]
