"""Disks fill up, files are locked, damaged or somebody else's: the error says so, and what was committed is there."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from capataz.events.facts import Event, ModelReplied, RunStarted, Usage, WaitEnded, WaitStarted
from capataz.kernel.evolve import begin
from capataz.mistakes import Fenced, Misuse, NotFound, StoreError
from capataz.money.accounts import Payer, Reservation
from capataz.policy.policy import Policy
from capataz.ports import Job, Lease
from capataz.runtime.guarding import rules_of
from capataz.runtime.journal import Journal
from capataz.stores import sqlite as front
from capataz.stores.sqlite import SqliteStore
from capataz.stores.sqlite.file import open_file
from capataz.testing.scripted import FakeClock

DATA = Path(__file__).parent.parent / "data"


def events(first: int, count: int, size: int = 0) -> list[Event]:
    return [Event(first + n, 1.0, RunStarted("r", "a", "x" * size)) for n in range(count)]


def child(program: str, path: Path) -> str:
    """What the program says, run in a process of its own."""
    words = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def written(path: Path, count: int = 3, run: str = "r") -> tuple[SqliteStore, Lease]:
    store = SqliteStore(path, busy=0.2)
    lease = await store.claim(run, "w")
    await store.append(lease, 0, events(0, count))
    return store, lease


# ── opening ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_nothing_is_touched_before_the_first_write(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "capataz.db")
    assert await store.runs() == []
    with pytest.raises(NotFound, match="does not exist"):
        await store.read("r")
    await store.close()
    assert os.listdir(tmp_path) == []


async def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "missing" / "capataz.db")
    with pytest.raises(StoreError, match=r"missing/capataz\.db: unable to open .* its folder exists"):
        await store.claim("r", "w")
    (tmp_path / "missing").mkdir()
    assert (await store.claim("r", "w")).epoch == 1
    await store.close()


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, please keep them\n" * 100)
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="give the path of a Capataz log"):
        await store.claim("r", "w")
    with pytest.raises(StoreError):
        await store.read("r")
    await store.close()
    assert path.read_text().startswith("these are my notes")


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    shop = sqlite3.connect(path)
    shop.execute("CREATE TABLE orders (id)")
    shop.commit()
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="database of another program"):
        await store.claim("r", "w")
    await store.close()
    assert [name for (name,) in shop.execute("SELECT name FROM sqlite_master")] == ["orders"]
    shop.close()


async def test_a_log_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    store, _ = await written(path)
    await store.close()
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version=99")
    newer.close()
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=r"schema 99.*upgrade Capataz"):
        await store.claim("r", "w")
    await store.close()


async def test_a_log_of_the_first_schema_opens_today(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    old = sqlite3.connect(path)
    old.executescript((DATA / "stores" / "sqlite-v1.sql").read_text())
    old.close()
    store = SqliteStore(path)
    (row,) = await store.runs()
    assert (row.run, row.status, row.outcome, row.events) == ("old-run", "ended", "answered", 3)
    assert [event.seq for event in await store.read("old-run")] == [0, 1, 2]
    lease = await store.claim("old-run", "w")
    assert lease.epoch == 2
    await store.append(lease, 3, [Event(3, 9.0, WaitEnded(1))])
    queue = store.queue()
    assert await queue.enqueue(Job("new-run", "a", "t")) == "new-run"
    assert [claim.job.run for claim in await queue.claim("w", ("a",), 1.0)] == ["new-run"]
    await store.close()


def test_durability_is_one_of_two_words(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="FULL or NORMAL"):
        SqliteStore(tmp_path / "x.db", "OFF")  # type: ignore[arg-type]


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_locked_file_is_an_error_in_time_and_then_works_again(tmp_path: Path) -> None:
    store, lease = await written(tmp_path / "capataz.db")
    other = sqlite3.connect(tmp_path / "capataz.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"append to run r in .*: database is locked; end the other program"):
        await store.append(lease, 3, events(3, 1))
    other.execute("ROLLBACK")
    other.close()
    await store.append(lease, 3, events(3, 1))
    assert len(await store.read("r")) == 4
    await store.close()


async def test_a_disk_that_does_not_answer_does_not_hold_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    store = SqliteStore(path, timeout=0.3, busy=20.0)
    lease = await store.claim("r", "w")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begun = store.append(lease, 0, events(0, 1))
    await asyncio.sleep(0.1)
    queued = store.append(lease, 1, events(1, 1))
    for future in (begun, queued):
        with pytest.raises(StoreError, match=r"no answer for 0\.3 s.* not known"):
            await future
    other.execute("ROLLBACK")
    other.close()
    again = await store.claim("r", "w")
    assert again.epoch == 2
    assert len(await store.read("r")) == 1, "what was begun may be there; what was given up before it began never is"
    await store.close()


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Connections opened from now on may use so many pages of 4 KiB."""
    pages = 1_000_000

    def opened(path: Path, synchronous: object, busy: float) -> sqlite3.Connection:
        connection = open_file(path, "FULL", busy)
        connection.execute(f"PRAGMA max_page_count={pages}")
        return connection

    def limit(count: int) -> None:
        nonlocal pages
        pages = count

    monkeypatch.setattr(front, "open_file", opened)
    return limit


async def test_a_full_disk_fails_only_what_does_not_fit(tmp_path: Path, small_disk: Callable[[int], None]) -> None:
    small_disk(30)
    store, lease = await written(tmp_path / "capataz.db")
    large, small = await store.claim("large", "w"), await store.claim("small", "w")
    futures = [
        store.append(large, 0, [Event(0, 1.0, RunStarted("large", "a", "x" * 400_000))]),
        store.append(small, 0, [Event(0, 1.0, RunStarted("small", "a", "x"))]),
        store.append(large, 1, [Event(1, 1.0, WaitEnded(1))]),
    ]
    first, second, third = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(first, StoreError)
    assert "full; free some space" in str(first)
    assert second is None
    assert isinstance(third, Fenced)
    assert len(await store.read("r")) == 3
    assert len(await store.read("small")) == 1
    await store.append(lease, 3, events(3, 1))
    await store.close()


async def test_a_run_on_a_full_disk_is_told_of_the_disk_and_not_of_the_gap_behind_it(
    tmp_path: Path, small_disk: Callable[[int], None]
) -> None:
    small_disk(60)
    unheard: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, found: unheard.append(found))
    store = SqliteStore(tmp_path / "capataz.db")
    journal = Journal(store, await store.claim("r", "w"), begin(rules_of(Policy())), FakeClock())
    journal.record(RunStarted("r", "a", "t"))
    await journal.durable()
    journal.record(WaitStarted(1.0, "x" * 400_000, 1))
    journal.flush()  # nobody waits for this one
    for _ in range(2):
        journal.record(WaitEnded(1))
        journal.flush()  # nor for this one
        journal.record(WaitEnded(1))
        with pytest.raises(StoreError, match=r"full; free some space") as refused:
            await journal.durable()
        assert not isinstance(refused.value, Fenced), "nobody else has the run"
    journal.record(WaitEnded(1))
    payer = Payer("r", "a")
    held = journal.reserve(Reservation(payer, "loop", 1, None, 0.0, 1.0), ())
    with pytest.raises(StoreError, match=r"full; free some space"):
        await journal.settled(held)
    assert len(await store.read("r")) == 1
    del journal, held
    gc.collect()
    assert not unheard, "nothing is told a second time, with a trace, behind everybody's back"
    await store.close()


FILLER = """
import asyncio, resource, sys
from capataz.events.facts import Event, RunStarted
from capataz.mistakes import StoreError
from capataz.stores.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    lease = await store.claim("r", "w")
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    count = 0
    try:
        while True:
            await store.append(lease, count, [Event(count, 1.0, RunStarted("r", "a", "x" * 5000))])
            count += 1
    except StoreError as error:
        print(count, error, sep="\\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    lease = await store.claim("r", "w")
    await store.append(lease, count, [Event(count, 1.0, RunStarted("r", "a", "after"))])
    await store.close()

asyncio.run(main())
"""


async def test_a_file_that_may_grow_no_more_loses_nothing_and_goes_on_when_it_may(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    count, message = child(FILLER, path).splitlines()
    assert "look at the disk" in message or "free some space" in message
    store = SqliteStore(path)
    assert len(await store.read("r")) == int(count) + 1 > 10
    await store.close()


READER = """
import asyncio, concurrent.futures.thread, os, sys
from capataz.mistakes import StoreError
from capataz.stores.sqlite import SqliteStore

async def main():
    if os.geteuid() == 0:  # root may write anything
        os.setuid(65534)
    store = SqliteStore(sys.argv[1])
    try:
        await store.claim("r", "w")
    except StoreError as error:
        print(error)
    await store.close()

asyncio.run(main())
"""


async def test_a_file_that_may_not_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    store, _ = await written(path)
    await store.close()
    said = child_that_may_not_write(READER, path)
    assert "could not claim run r in" in said
    assert "writable for this user" in said


def child_that_may_not_write(program: str, path: Path) -> str:
    """Its words; the folders above are opened to other users, which temporary ones are not."""
    for folder in path.parents:
        if "pytest" in str(folder) and folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o011)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        return child(program, path)
    finally:
        path.parent.chmod(0o755)


async def test_a_number_no_column_holds_fails_alone(tmp_path: Path) -> None:
    store, lease = await written(tmp_path / "capataz.db")
    other = await store.claim("other", "w")
    huge = ModelReplied(1, 1, "", usage=Usage(input=2**70))
    futures = [
        store.append(lease, 3, [Event(3, 1.0, huge)]),
        store.append(other, 0, [Event(0, 1.0, RunStarted("other", "a", "t"))]),
    ]
    first, second = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(first, StoreError)
    assert "cannot be stored" in str(first)
    assert second is None
    assert len(await store.read("r")) == 3
    await store.close()


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_damaged_page_is_an_error_and_other_runs_are_still_read(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    store, _ = await written(path, 200, "first")
    lease = await store.claim("r", "w")
    await store.append(lease, 0, events(0, 40, 2000))
    await store.close()
    raw = bytearray(path.read_bytes())
    raw[-4096:] = b"\\xa5" * 4096
    path.write_bytes(raw)
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=r"malformed; copy the file|damaged"):
        await store.read("r")
    assert len(await store.read("first")) == 200
    await store.close()


async def test_a_body_that_was_tampered_with_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    store, _ = await written(path)
    with sqlite3.connect(path) as other:
        other.execute("UPDATE event SET body = x'7b' WHERE seq = 1")
    other.close()
    with pytest.raises(StoreError, match="event 1 cannot be read"):
        await store.read("r")
    assert len(await store.read("r", after=1)) == 1
    await store.close()


async def test_a_loop_that_ended_without_waiting_troubles_nobody(tmp_path: Path) -> None:
    store, lease = await written(tmp_path / "capataz.db")

    async def hurried() -> None:
        store.append(lease, 3, events(3, 1))

    await asyncio.to_thread(asyncio.run, hurried())
    await store.append(lease, 4, events(4, 1))
    assert len(await store.read("r")) == 5
    await store.close()
