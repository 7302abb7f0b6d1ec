"""A worker whose store is away says so in a few lines, goes on by itself, and says that it is over."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from pathlib import Path

import pytest

from capataz import Agent, App
from capataz.mistakes import StoreError
from capataz.runtime.shift import Terms
from capataz.stores.sqlite import SqliteStore
from capataz.testing.scripted import ScriptedModel
from tests.engines.conftest import QUICK, Yard, until


async def test_a_store_that_is_away_is_told_once_and_its_end_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "capataz.worker")
    path = tmp_path / "capataz.db"
    agent = Agent("talker", ScriptedModel("hello"), role="talking")
    async with App(SqliteStore(path, busy=0.01)) as app:
        yard = Yard(app)
        shift = app.worker(agent, terms=Terms(2, pace=QUICK))
        working = asyncio.create_task(shift.work())
        first = await agent.asubmit("before", app=app)
        await first.await_(timeout=10)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await asyncio.sleep(1.5)  # 15 beats, and more looks for work
        begun = list(caplog.messages)
        other.execute("ROLLBACK")
        other.close()
        await until(lambda: len(caplog.messages) >= 4)
        handle = await agent.asubmit("after", app=app)
        await handle.await_(timeout=10)
        shift.stop()
        await working
        assert (await yard.row(handle.run)).state == "done"
    what = [f"the beat of {shift.name} could not be written", "no work can be claimed"]
    assert len(begun) == 2
    for words in what:
        told = [line for line in caplog.messages if words in line]
        assert len(told) == 2, told
        assert "database is locked; end the other program" in told[0]
        assert "told again every 10 min" in told[0]
        assert told[1].startswith("over after ")


async def test_a_worker_that_cannot_tell_whether_it_is_idle_does_not_say_that_it_is(tmp_path: Path) -> None:
    path = tmp_path / "capataz.db"
    path.write_text("this is no database, however one looks at it")
    agent = Agent("talker", ScriptedModel("hello"), role="talking")
    async with App(SqliteStore(path)) as app:
        with pytest.raises(StoreError, match="file is not a database; give the path of a Capataz log"):
            await Yard(app).work(agent)
