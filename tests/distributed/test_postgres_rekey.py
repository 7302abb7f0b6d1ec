"""Changing the key of a PostgreSQL store, beside workers, broken off and begun again; the old key is of no use then."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time

import psycopg
import pytest
from click.testing import CliRunner

from capataz.cli.main import main
from capataz.events.facts import Event, RunStarted, WaitEnded
from capataz.mistakes import Sealed
from capataz.ports import KeptSpan
from capataz.stores.postgres import PostgresStore
from capataz.stores.sealing import Seal
from tests.distributed.test_postgres_conversations import everything
from tests.stores.test_sealed_store import WORDS, key, left_to_another, read, talk

EVENTS = 20_000


def rekeyed(url: str, *options: str) -> int:
    done = CliRunner().invoke(main, ["rekey", "--store", url, *options])
    assert done.exit_code == 0, done.output
    found = re.search(r"^([\d,]+) text", done.output, re.MULTILINE)
    assert found is not None
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("before", [True, False])
def test_a_key_is_changed_and_the_old_one_is_of_no_use(
    database: str, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    old, new = key(), key()
    monkeypatch.delenv("CAPATAZ_KEY", raising=False)
    run = asyncio.run(talk(database, old if before else None))
    asyncio.run(spans(database, Seal((old,) if before else ())))
    assert CliRunner().invoke(main, ["rekey", "--store", database]).exit_code == 2
    monkeypatch.setenv("CAPATAZ_KEY", f"{new},{old}")
    assert rekeyed(database) > 10
    assert rekeyed(database) == 0
    monkeypatch.delenv("CAPATAZ_KEY")
    kept = everything(database)
    assert [word for word in (*WORDS, "SPAN-WORDS") if word in kept] == []
    with pytest.raises(Sealed):
        asyncio.run(read(database, run, old))
    assert "TOOL-WORDS" in asyncio.run(read(database, run, new))
    monkeypatch.setenv("CAPATAZ_KEY", new)
    assert rekeyed(database, "--decrypt") > 10
    monkeypatch.delenv("CAPATAZ_KEY")
    assert "TOOL-WORDS" in asyncio.run(read(database, run, None))
    assert "SPAN-WORDS" in everything(database)


async def test_a_worker_without_the_key_holds_no_run_up(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAPATAZ_KEY", raising=False)
    await left_to_another(database)


async def spans(url: str, seal: Seal) -> None:
    store = PostgresStore(url, seal=seal)
    await store.spans().keep([KeptSpan("t", f"s{n}", 1.0, b"SPAN-WORDS") for n in range(3)], 1.0, 10)
    await store.close()


async def filled(url: str, secret: str) -> None:
    store = PostgresStore(url, seal=Seal((secret,)))
    lease = await store.claim("r", "w")
    events = [Event(n, 1.0, WaitEnded(n) if n else RunStarted("r", "a", "secret")) for n in range(EVENTS)]
    for first in range(0, EVENTS, 1000):
        await store.append(lease, first, events[first : first + 1000])
    await store.close()


def test_broken_off_in_the_middle_it_goes_on_where_it_was(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = key(), key()
    asyncio.run(filled(database, old))
    monkeypatch.setenv("CAPATAZ_KEY", f"{new},{old}")
    words = [sys.executable, "-m", "capataz", "rekey", "--store", database]
    child = subprocess.Popen(words, env=os.environ)
    with psycopg.connect(database, autocommit=True) as connection:
        first = connection.execute("SELECT substr(body, 3, 4) FROM capataz.event LIMIT 1").fetchone()
        until = time.monotonic() + 30
        anew = 0
        while not anew and time.monotonic() < until:
            row = connection.execute("SELECT count(*) FROM capataz.event WHERE substr(body, 3, 4) <> %s", first)
            anew = (row.fetchone() or (0,))[0]
    os.kill(child.pid, signal.SIGKILL)
    child.wait(timeout=10)
    assert 0 < anew < EVENTS
    left = rekeyed(database)
    assert 0 < left <= EVENTS - anew + 1  # and the task in the list of runs
    monkeypatch.delenv("CAPATAZ_KEY")
    assert asyncio.run(length(database, new)) == EVENTS


async def length(url: str, secret: str) -> int:
    store = PostgresStore(url, seal=Seal((secret,)))
    events = await store.read("r")
    await store.close()
    return len(events)


async def test_what_is_written_meanwhile_is_not_written_over(database: str) -> None:
    """Spans are kept anew while their bodies are sealed with another key: each ends as the later snapshot."""
    old, new = key(), key()
    store, seal = PostgresStore(database, seal=Seal((new, old))), Seal((new, old))
    before = PostgresStore(database, seal=Seal((old,)))
    names = [f"s{n:04}" for n in range(1500)]
    await before.spans().keep([KeptSpan("t", name, 1.0, b"early") for name in names], 1.0, 10_000)

    async def news() -> None:
        for first in range(0, len(names), 50):
            await store.spans().keep(
                [KeptSpan("t", name, 2.0, b"late") for name in names[first : first + 50]], 2.0, 9999
            )

    other = PostgresStore(database, seal=seal)
    await asyncio.gather(news(), other.rekey(seal), other.rekey(seal))
    last = PostgresStore(database, seal=Seal((new,)))
    assert {span.body for span in await last.spans().of("t")} == {b"late"}
    for each in (store, before, other, last):
        await each.close()
