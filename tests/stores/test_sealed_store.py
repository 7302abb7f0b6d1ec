"""Encryption at rest: nothing said is in the file, nothing is guessed without the key, and a key can be changed."""

from __future__ import annotations

import asyncio
import base64
import os
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from capataz import Agent, Answered, App, Misuse, tool
from capataz.cli.main import main
from capataz.mistakes import Sealed
from capataz.stores.sealing import SHOWN, Seal, seal_of
from capataz.stores.sqlite import SqliteStore
from capataz.testing.scripted import ScriptedModel, calls

WORDS = ("TASK-WORDS", "TOOL-WORDS", "ANSWER-WORDS", "QUEUED-WORDS", "ORDER-81")


def key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


@tool(kind="write", target="order")
def note(order: str) -> str:
    """Note something."""
    return "TOOL-WORDS"


def agent() -> Agent:
    return Agent("clerk", ScriptedModel(calls(("note", {"order": "ORDER-81"})), "ANSWER-WORDS"), [note], role="talking")


async def talk(url: str, sealed_with: str | None) -> str:
    async with App(url, key=sealed_with) as app:
        await agent().asubmit("QUEUED-WORDS", app=app, conversation="later")
        return (await agent().arun("TASK-WORDS", app=app, conversation="c")).run


def everything(folder: Path) -> bytes:
    return b"".join(found.read_bytes() for found in folder.iterdir() if found.is_file())


@pytest.fixture(autouse=True)
def no_key_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAPATAZ_KEY", raising=False)


async def test_nothing_that_was_said_is_in_the_file(tmp_path: Path) -> None:
    url, secret = f"sqlite:///{tmp_path / 'log.db'}", key()
    run = await talk(url, secret)
    kept = everything(tmp_path)
    for word in WORDS:
        assert word.encode() not in kept
    async with App(url, key=secret) as app:
        assert "TOOL-WORDS" in str(await app.store.read(run))
        assert [row.task for row in await app.store.runs()] == ["TASK-WORDS"]
        thread, said = await app.conversations.read("c")
        assert [item.text for item in said] == ["TASK-WORDS", "ANSWER-WORDS"]
        more = await agent().arun("more", app=app, conversation="c")
        assert isinstance(more, Answered)
    assert thread.messages == 2


async def test_without_the_key_a_resume_refuses_and_a_list_shows_that_there_is_something(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    run = await talk(url, key())
    for other in (None, key()):
        async with App(url, key=other) as app:
            with pytest.raises(Sealed, match="CAPATAZ_KEY"):
                await app.aresume(agent(), run)
            assert [row.task for row in await app.store.runs()] == [SHOWN]
            with pytest.raises(Sealed):
                await app.conversations.read("c")
            with pytest.raises(Sealed):
                await agent().arun("more", app=app, conversation="c")
            assert [thread.conversation for thread in await app.conversations.list()]


async def test_a_worker_without_the_key_takes_no_run_down(tmp_path: Path) -> None:
    await left_to_another(f"sqlite:///{tmp_path / 'log.db'}")


async def left_to_another(url: str) -> None:
    """A worker without the key is given a run, and one with the key has it at once."""
    secret = key()
    async with App(url, key=secret) as app:
        handle = await agent().asubmit("QUEUED-WORDS", app=app)
    async with App(url) as app:
        await app.worker(agent()).work(until_idle=True)
        row = await app.engine.look(handle.run)
        assert row is not None
        assert (row.state, row.crashes.total, row.job.task) == ("queued", 0, SHOWN)
    async with App(url, key=secret) as app:
        await app.worker(agent()).work(until_idle=True)
        assert isinstance(await agent().handle(handle.run, app=app).await_(timeout=5), Answered)


async def test_a_row_put_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    path, secret = tmp_path / "log.db", key()
    run = await talk(f"sqlite:///{path}", secret)
    swap(path)
    store = SqliteStore(path, seal=seal_of(secret))
    with pytest.raises(Sealed, match="altered"):
        await store.read(run)
    await store.close()


def swap(path: Path) -> None:
    file = sqlite3.connect(path)
    file.execute("UPDATE event SET body = (SELECT body FROM event WHERE seq = 1) WHERE seq = 0")
    file.commit()
    file.close()


@pytest.mark.parametrize("before", [True, False])
def test_a_key_is_changed_and_the_old_one_is_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    url, old, new = f"sqlite:///{tmp_path / 'log.db'}", key(), key()
    run = asyncio.run(talk(url, old if before else None))
    assert CliRunner().invoke(main, ["rekey", "--store", url]).exit_code == 2
    monkeypatch.setenv("CAPATAZ_KEY", f"{new},{old}")
    done = CliRunner().invoke(main, ["rekey", "--store", url])
    assert done.exit_code == 0, done.output
    assert "0 texts" in CliRunner().invoke(main, ["rekey", "--store", url]).output
    monkeypatch.delenv("CAPATAZ_KEY")
    for word in WORDS:
        assert word.encode() not in everything(tmp_path)
    with pytest.raises(Sealed):
        asyncio.run(read(url, run, old))
    assert "TOOL-WORDS" in asyncio.run(read(url, run, new))
    monkeypatch.setenv("CAPATAZ_KEY", new)
    assert CliRunner().invoke(main, ["rekey", "--store", url, "--decrypt"]).exit_code == 0
    monkeypatch.delenv("CAPATAZ_KEY")
    assert "TOOL-WORDS" in asyncio.run(read(url, run, None))


async def read(url: str, run: str, sealed_with: str | None) -> str:
    async with App(url, key=sealed_with) as app:
        said = await app.conversations.read("c")
        jobs = [row.job.task for row in await app.store.queue().jobs()]  # type: ignore[attr-defined]
        assert jobs == ["QUEUED-WORDS"]
        return str(await app.store.read(run)) + str(said)


@pytest.mark.parametrize("wrong", ["short", "", "é" * 32, base64.b64encode(b"x" * 31).decode()])
def test_what_is_no_key_is_refused(wrong: str) -> None:
    with pytest.raises(Misuse, match="32 bytes"):
        Seal([wrong])


@given(st.binary(), st.text())
def test_what_is_sealed_comes_back(body: bytes, text: str) -> None:
    seal = Seal([key()])
    assert seal.open(seal.close(body, "here"), "here") == body
    assert seal.open_text(seal.close_text(text, "here"), "here") == text
    assert Seal().close(body, "here") == body


def test_a_seal_shows_no_key() -> None:
    secret = key()
    assert secret not in repr(Seal([secret]))
