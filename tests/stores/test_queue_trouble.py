"""The queue on a disk that is full, read-only, damaged or locked: a clear error, and nothing committed is lost."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from capataz.events.facts import EscalationAnswered, Event
from capataz.mistakes import StoreError
from capataz.ports import Crashes, Job
from capataz.stores.sqlite import SqliteStore, queue_tables as tables
from capataz.stores.sqlite.file import open_file
from tests.stores.test_sqlite_trouble import child_that_may_not_write

DATA = Path(__file__).parent.parent / "data"


async def filled(path: Path, count: int = 5) -> SqliteStore:
    store = SqliteStore(path, busy=0.2)
    for n in range(count):
        await store.queue().enqueue(Job(f"r{n}", "a", "t"))
    return store


async def test_a_locked_file_is_an_error_in_time_and_then_works_again(tmp_path: Path) -> None:
    store = await filled(tmp_path / "capataz.db")
    other = sqlite3.connect(tmp_path / "capataz.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"claim a run from .*: database is locked; end the other program"):
        await store.queue().claim("w", ("a",), 1.0)
    assert len(await store.queue().jobs()) == 5, "reading goes on"
    other.execute("ROLLBACK")
    other.close()
    assert len(await store.queue().claim("w", ("a",), 1.0, most=9)) == 5
    await store.close()


READER = """
import asyncio, concurrent.futures.thread, os, sys
from capataz.events.facts import EscalationAnswered, Event
from capataz.mistakes import StoreError
from capataz.ports import Crashes, Job
from capataz.stores.sqlite import queue_tables as tables
from capataz.stores.sqlite import SqliteStore
from capataz.stores.sqlite.file import open_file

async def main():
    if os.geteuid() == 0:  # root may write anything
        os.setuid(65534)
    store = SqliteStore(sys.argv[1])
    try:
        await store.queue().enqueue(Job("new", "a", "t"))
    except StoreError as error:
        print(error)
    await store.close()

asyncio.run(main())
"""


async def test_a_file_that_may_not_be_written_says_so(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    await (await filled(path)).close()
    said = child_that_may_not_write(READER, path)
    assert "could not enqueue run new in" in said
    assert "writable for this user" in said


FULL = """
import asyncio, resource, signal, sys
from capataz.events.facts import EscalationAnswered, Event
from capataz.mistakes import StoreError
from capataz.ports import Crashes, Job
from capataz.stores.sqlite import queue_tables as tables
from capataz.stores.sqlite import SqliteStore
from capataz.stores.sqlite.file import open_file

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = SqliteStore(sys.argv[1], busy=0.2)
    queue = store.queue()
    await queue.enqueue(Job("first", "a", "t"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    kept = ["first"]
    try:
        for n in range(1000):
            await queue.enqueue(Job(f"r{n}", "a", "x" * 5000))
            kept.append(f"r{n}")
    except StoreError as error:
        print(error)
    try:
        print(len(await queue.claim("w", ("a",), 1.0)))
    except StoreError:
        print("still full")
    print(len(kept))
    await store.close()

asyncio.run(main())
"""


async def test_a_full_disk_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    done = subprocess.run(  # noqa: ASYNC221 - nothing else goes on here
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=50, check=False
    )
    lines = done.stdout.splitlines()
    assert "could not enqueue run" in lines[0], done.stdout + done.stderr
    assert "disk" in lines[0]
    store = SqliteStore(path)
    assert len(await store.queue().jobs(limit=2000)) == int(lines[-1])
    await store.queue().enqueue(Job("after", "a", "t"))
    await store.close()


async def test_a_damaged_last_page_is_named_and_the_rest_can_still_be_read(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    store = await filled(path, 300)
    await store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size - 4096)
        file.write(os.urandom(4096))
    store = SqliteStore(path)

    async def claim_all() -> None:
        for _ in range(400):
            await store.queue().claim("w", ("a",), 1.0, most=16)

    with pytest.raises(StoreError, match=r"sqlite3's \.recover"):
        await claim_all()
    assert await store.runs() == []
    await store.close()


async def test_a_queue_of_the_second_schema_opens_today(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    old = sqlite3.connect(path, timeout=1)
    old.executescript((DATA / "stores" / "sqlite-v2.sql").read_text())
    old.close()
    store = SqliteStore(path)
    queue = store.queue()
    states = {row.job.run: (row.state, row.crashes.total) for row in await queue.jobs()}
    assert states == {
        "queued-run": ("queued", 0),
        "crashed-run": ("claimed", 2),
        "parked-run": ("parked", 0),
        "cancelled-run": ("cancelled", 0),
    }
    assert await queue.enqueue(Job("other", "support", "t", key="key-1")) == "queued-run"
    claims = await queue.claim("w", ("support",), 5.0, most=9)
    assert {claim.job.run for claim in claims} == {"queued-run", "crashed-run"}
    (crashed,) = (claim for claim in claims if claim.job.run == "crashed-run")
    assert await queue.begin(crashed, "2.1.-1") == Crashes(2, 3)
    assert [row.run for row in await store.runs()] == ["old-run"]
    await store.close()


async def test_a_queue_of_the_fourth_schema_opens_today_and_what_was_answered_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    old = sqlite3.connect(path, timeout=1)
    old.executescript((DATA / "stores" / "sqlite-v4.sql").read_text())
    old.close()
    store = SqliteStore(path)
    queue = store.queue()
    states = {row.job.run: row.state for row in await queue.jobs()}
    assert states == {"waiting-run": "waiting", "answered-run": "queued", "queued-run": "queued"}
    lease = await store.claim("waiting-run", "inbox")
    await store.append(lease, 2, [Event(2, 9.0, EscalationAnswered("retry", "ana"))])
    claims = await queue.claim("w", ("support",), 5.0, most=9)
    assert [claim.job.run for claim in claims] == ["queued-run", "waiting-run", "answered-run"]
    await store.close()


def claiming(path: Path, fill: str) -> int:
    """Instructions of SQLite's machine that it takes to claim sixteen jobs beside 3,000 others."""
    connection = open_file(path, "NORMAL", 1.0)
    many = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000) "
    job = "INSERT INTO job (run, agent, task, tenant, priority, due, state, enqueued_at)"
    for statement in fill.split(";"):
        connection.execute(statement.format(many=many, job=job))
    for n in range(20):
        tables.enqueue(connection, 0.0, Job(f"mine-{n}", "a", "t"))
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    connection.set_progress_handler(step, 1)
    assert len(tables.claim(connection, 1.0, "w", ("a", "b"), 5.0, None, 16)) == 16
    connection.close()
    return steps[0]


@pytest.mark.parametrize(
    "fill",
    [
        pytest.param(
            "{many} INSERT INTO run (run, epoch, owner, status) SELECT 'r' || n, 1, 'w', 'escalated' FROM n;"
            "{many} INSERT INTO run (run, epoch, owner, status) SELECT 'e' || n, 1, 'w', 'ended' FROM n;"
            "{many} {job} SELECT 'r' || n, 'a', 't', '', 0, 0, 'waiting', 0 FROM n",
            id="that wait for people",
        ),
        pytest.param("{many} {job} SELECT 'r' || n, 'z', 't', '', 9, 0, 'queued', 0 FROM n", id="of another fleet"),
        pytest.param("{many} {job} SELECT 'r' || n, 'a', 't', '', 9, 9, 'parked', 0 FROM n", id="parked"),
        pytest.param("{many} {job} SELECT 'r' || n, 'a', 't', '', 0, 0, 'done', 0 FROM n", id="over"),
        pytest.param(
            "{many} {job} SELECT 'r' || n, 'a', 't', 'other', 0, 0, 'claimed', 0 FROM n;UPDATE job SET until = 9",
            id="at work for another tenant",
        ),
        pytest.param("{many} {job} SELECT 'r' || n, 'a', 't', '', 0, 0, 'queued', 0 FROM n", id="queued"),
    ],
)
def test_a_claim_looks_at_nothing_it_cannot_take(tmp_path: Path, fill: str) -> None:
    alone = claiming(tmp_path / "alone.db", "SELECT 1")
    assert claiming(tmp_path / "capataz.db", fill) < 1.2 * alone
