"""Point-in-time recovery as docs/production-cluster.md tells it, on real servers, while workers work.

What was done after the point is done, but the log has forgotten it. A read-back keeps it from being done again; where
there is none, the runs have to be called off before the first worker starts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from capataz import Aborted, App
from capataz.events.facts import ToolStarted
from capataz.runtime.handle import Handle, queue_of
from capataz.testing.servers import Missing, PostgresServer, free_port, postgres_server
from tests.distributed import restore_crew as crew

BIN = Path(sys.executable).parent
ARCHIVING = {
    "archive_mode": "on",
    "archive_command": "mkdir -p ../archive && test ! -f ../archive/%f && cp %p ../archive/%f",
}
"""The data folder is the current one of these commands."""
WORDS = "restored to a point in time: look at what was really done"


@dataclass
class Trial:
    """Workers and the command line, over one server after the other."""

    folder: Path
    url: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        words = [str(BIN / "capataz"), "worker", "restore_crew:app", "--beat", "0.5", "--slots", "5", *options]
        given = {"CREW_URL": self.url, "CREW_EFFECTS": str(self.folder / "effects.log")}
        with (self.folder / "workers.log").open("ab") as log:
            worker = subprocess.Popen(words, cwd=Path(__file__).parent, env={**os.environ, **given}, stderr=log)
        self.workers.append(worker)
        return worker

    def effects(self) -> list[str]:
        path = self.folder / "effects.log"
        return path.read_text().splitlines() if path.exists() else []

    async def until(self, holds: Callable[[], bool], seconds: float = 60.0) -> None:
        limit = time.monotonic() + seconds
        while not await asyncio.to_thread(holds):
            log = self.folder / "workers.log"
            assert time.monotonic() < limit, f"not within {seconds} s\n{log.read_text() if log.exists() else ''}"
            await asyncio.sleep(0.02)

    async def cancel(self, *words: str) -> None:
        command = [str(BIN / "capataz"), "cancel", *words, "--store", self.url]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
    monkeypatch.setattr(crew, "EFFECTS", tmp_path / "effects.log")
    trial = Trial(tmp_path, "")
    yield trial
    for worker in trial.workers:
        if worker.poll() is None:
            worker.kill()
        worker.wait(10)


def base_backup(server: PostgresServer) -> None:
    done = server.tool("pg_basebackup", "-d", server.url(), "-D", str(server.folder / "base"), "-c", "fast")
    assert done.returncode == 0, done.stderr


def name_the_point(server: PostgresServer) -> str:
    """Give this moment a name; the file of the write-ahead log that has to reach the archive for it."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        row = connection.execute("SELECT pg_walfile_name(pg_create_restore_point('before-the-mistake'))").fetchone()
        connection.execute("SELECT pg_switch_wal()")
    assert row is not None
    return str(row[0])


@contextmanager
def restored(old: PostgresServer) -> Generator[PostgresServer]:
    """The base backup beside the old folder, rolled forward to the point."""
    folder = old.folder / "restored"
    folder.mkdir()
    shutil.copytree(old.folder / "base", folder / "data")
    (folder / "data" / "recovery.signal").touch()
    for path in (folder, folder / "data", *(folder / "data").rglob("*")):
        shutil.chown(path, old.folder.joinpath("data").owner())
    settings = {
        "max_connections": old.settings["max_connections"],
        "restore_command": f"cp {old.folder}/archive/%f %p",
        "recovery_target_name": "before-the-mistake",
        "recovery_target_action": "promote",
    }
    server = PostgresServer(old.programs, folder, free_port(), settings)
    server.start()
    try:
        yield server
    finally:
        server.stop(signal.SIGQUIT)


def promoted(server: PostgresServer) -> bool:
    with psycopg.connect(server.url()) as connection:
        return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)


@pytest.fixture
def old() -> Iterator[PostgresServer]:
    try:
        with postgres_server(durable=True, settings=ARCHIVING) as server:
            yield server
    except Missing as missing:
        pytest.skip(str(missing))


async def submitted(app: App, *cases: str) -> list[Handle]:
    agents = {"pay": crew.payer, "write": crew.writer}
    return [await agents[case.split("-")[0]].asubmit(f"Handle {case}", app=app, key=case) for case in cases]


async def starts(app: App) -> int:
    """How many acts the logs know of."""
    logs = [await app.store.read(row.run) for row in await app.store.runs(1000)]
    return sum(isinstance(event.fact, ToolStarted) for log in logs for event in log)


@pytest.mark.timeout(300)
async def test_what_was_done_after_the_point_is_not_done_again(old: PostgresServer, trial: Trial) -> None:
    trial.url = old.url()
    await asyncio.to_thread(base_backup, old)
    async with App(trial.url) as app:
        await submitted(app, *(f"{what}-{n}" for n in range(4) for what in ("pay", "write")))
        worker = trial.start()
        await trial.until(lambda: len(trial.effects()) >= 15)
        file = await asyncio.to_thread(name_the_point, old)
        await submitted(app, "pay-late")
        await trial.until(lambda: len(trial.effects()) >= 60)
        await trial.until((old.folder / "archive" / file).exists)
        worker.kill()
        worker.wait(10)
    old.stop(signal.SIGQUIT)
    before = trial.effects()
    with restored(old) as server:
        await trial.until(lambda: promoted(server))
        trial.url = server.url()
        async with App(trial.url) as app:
            assert await starts(app) < len(before), "acts that the log has forgotten"
            await trial.cancel("--all", "--agent", "writer", "--reason", WORDS)
            again = await submitted(app, *(f"pay-{n}" for n in (0, 1, 2, 3, "late")))
            worker = trial.start("--until-idle")
            payers = [await handle.await_(timeout=120) for handle in again]
            await trial.until(lambda: worker.poll() == 0)
            rows = await queue_of(app.store).jobs(limit=1000)
            outcomes = [await crew.writer.handle(r.job.run, app=app).apoll() for r in rows if r.job.agent == "writer"]
    after = Counter(trial.effects())
    assert {words for words, count in after.items() if count > 1} == set(), "nothing was done twice"
    assert {words for words in after if words.startswith("paid")} == {
        f"paid pay-{n}-{step}" for n in (0, 1, 2, 3, "late") for step in range(crew.STEPS)
    }
    assert not any(isinstance(outcome, Aborted) for outcome in payers)
    assert [words for words in trial.effects()[len(before) :] if words.startswith("wrote")] == []
    over = [outcome for outcome in outcomes if isinstance(outcome, Aborted)]
    assert {(outcome.reason, outcome.detail) for outcome in over} == {("cancelled", WORDS)}
    assert len(outcomes) == 4
    assert all(row.state in ("done", "waiting", "cancelled") for row in rows)
