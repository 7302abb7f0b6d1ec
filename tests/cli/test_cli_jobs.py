"""`capataz jobs` and `capataz cancel`: what is queued, who has it, and calling it off."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from capataz import Aborted, Agent, App
from capataz.cli.main import main
from capataz.ports import Job, Queue, TurnBeat, WorkerBeat
from capataz.runtime.handle import queue_of
from capataz.testing.scripted import ScriptedModel, says


@dataclass
class Shop:
    """A store with jobs, and the command line over it."""

    url: str

    def given(self, work: Callable[[App, Queue], Awaitable[Any]]) -> Any:
        async def within() -> Any:
            async with App(self.url) as app:
                return await work(app, queue_of(app.store))

        return asyncio.run(within())

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, [*words, "--store", self.url])

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def states(self) -> dict[str, str]:
        every = [word for name in ("queued", "running", "done", "cancelled") for word in ("--state", name)]
        return {row["run_id"]: row["state"] for row in self.json("jobs", *every)}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A job that runs, one that has crashed a worker, one that is delayed, one that is over, one of another agent."""
    shop = Shop(f"sqlite:///{tmp_path / 'shop.db'}")

    async def fill(app: App, queue: Queue) -> None:
        for run in ("held-1", "crashed-1", "over-1"):
            await queue.enqueue(Job(run, "support", f"Refund {run} of ana@example.com", tenant="acme"))
        held, crashed, over = await queue.claim("w1", ("support",), 60.0, most=3)
        await queue.release(crashed)
        (crashed,) = await queue.claim("w2", ("support",), 0.0)
        assert crashed.job.run == "crashed-1"
        await queue.leave("w2", crashed=True)
        await queue.finish(over, "done", "completed")
        turn = TurnBeat("held-1", held.token, time.time(), "tool", 60.0)
        await queue.beat(WorkerBeat("w1", 3, 1, 0.0, turns=(turn,)), 60.0)
        await queue.enqueue(Job("late-1", "support", "t", due=time.time() + 3600, priority=3, key="k"))
        await queue.enqueue(Job("other-1", "sales", "t"))

    shop.given(fill)
    return shop


def test_jobs_say_who_has_them_and_how_often_they_were_tried(shop: Shop) -> None:
    rows = {row["run_id"]: row for row in shop.json("jobs")}
    assert list(rows) == ["other-1", "late-1", "crashed-1", "held-1"], "newest first, and nothing that is over"
    held, crashed, late = rows["held-1"], rows["crashed-1"], rows["late-1"]
    assert (held["state"], held["worker"], held["busy_with"], held["tries"]) == ("running", "w1", "tool", 1)
    assert held["lease_until"] > time.time() > held["alive_at"] > held["submitted_at"]
    assert (crashed["state"], crashed["worker"], crashed["tries"], crashed["crashes"]) == ("queued", None, 2, 1)
    assert (late["state"], late["priority"], late["key"]) == ("delayed", 3, "k")
    assert late["due_at"] > time.time() + 3000
    assert "ana@example.com" not in json.dumps(rows)
    assert "ana@example.com" in shop.run("jobs", "--json", "--reveal").stdout


def test_jobs_are_a_table_and_can_be_narrowed(shop: Shop) -> None:
    shown = shop.run("jobs").stdout
    lines = {words[0]: line for line in shown.splitlines() if (words := line.split())}
    assert "w1, alive " in lines["held-1"]
    assert "delayed for 1 h 0 min" in lines["late-1"] or "delayed for 59 min" in lines["late-1"]
    assert "over-1" not in shown
    assert [row["run_id"] for row in shop.json("jobs", "--agent", "sales")] == ["other-1"]
    assert [row["run_id"] for row in shop.json("jobs", "--state", "done", "--state", "running")] == ["over-1", "held-1"]
    assert len(shop.json("jobs", "-n", "2")) == 2
    assert shop.run("jobs", "--state", "dead").stdout == "no jobs\n"


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_each_job_is_one_line_whatever_is_asked_and_no_id_is_cut(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    async def fill(app: App, queue: Queue) -> None:
        for number, task in enumerate(("x" * 100_000, "uno\ndos " * 50, "退款 " * 100, "🙂" * 200)):
            run = f"01m8qb6btrfnhvm9vm5z2jr{number:03}"
            await queue.enqueue(Job(run, "a very long name " * 5, task, tenant="un inquilino muy largo " * 5))

    shop.given(fill)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = [line for line in shop.run("jobs").stdout.splitlines() if line.strip()]
    assert all(cell_len(line) <= columns for line in lines)
    assert [line.split()[0] for line in lines[2:]] == [row["run_id"] for row in shop.json("jobs")]
    assert ("w1, alive" in "\n".join(lines)) == (columns >= 80), "who holds a run is told as long as there is room"


def test_of_a_long_task_programs_get_the_beginning_and_its_length(shop: Shop) -> None:
    async def fill(app: App, queue: Queue) -> None:
        await queue.enqueue(Job("long-1", "support", "x" * 3_000_000))

    shop.given(fill)
    (told,) = [row for row in shop.json("jobs") if row["run_id"] == "long-1"]
    assert (told["task"], told["task_length"]) == ("x" * 500, 3_000_000)


def test_a_worker_that_has_fallen_silent_shows(shop: Shop) -> None:
    async def freeze(app: App, queue: Queue) -> None:
        await queue.beat(WorkerBeat("w1", 3, 1, 0.0, turns=(TurnBeat("held-1", 1, 1.0, "tool", 60.0),)), -5.0)

    shop.given(freeze)
    assert "w1, silent" in shop.run("jobs").stdout


def test_cancelling_ends_what_nobody_has_begun_and_tells_the_worker_of_the_rest(shop: Shop) -> None:
    assert shop.run("cancel", "late").stdout == "late-1: cancelled; it had not begun\n"
    assert "its worker was told" in shop.run("cancel", "held-1", "--reason", "withdrawn").stdout
    assert "as soon as a worker takes it" in shop.run("cancel", "crashed").stdout
    assert shop.states() == {
        "other-1": "queued",
        "late-1": "cancelled",
        "over-1": "done",
        "crashed-1": "queued",
        "held-1": "running",
    }
    assert "running, to be cancelled" in shop.run("jobs").stdout
    assert {row["run_id"]: row["order"] for row in shop.json("jobs", "--state", "running")} == {"held-1": "withdrawn"}


def test_what_cannot_be_cancelled_is_said_in_one_line(shop: Shop) -> None:
    for words, said in (
        (("ghost",), "there is no run 'ghost' in this store: `capataz jobs` lists what can be cancelled"),
        (("over-1",), "run over-1 is over (done): see `capataz show over-1`"),
        ((), "name a run, or say --all"),
        (("held-1", "--all"), "name a run, or say --all"),
        (("held-1", "--agent", "sales"), "--agent goes with --all: leave it out, the run is enough"),
    ):
        done = shop.run("cancel", *words)
        assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"Error: {said}\n")


def test_what_was_called_off_before_is_said_to_be_and_keeps_its_first_reason(shop: Shop) -> None:
    for run, rest in (
        ("held-1", "its worker was told; it breaks off within a beat"),
        ("crashed-1", "it breaks off as"),
    ):
        assert shop.run("cancel", run, "--reason", "first").exit_code == 0
        again = shop.run("cancel", run, "--reason", "second")
        assert (again.exit_code, again.stdout) == (2, "")
        assert f"run {run} was called off before; {rest}" in again.stderr
    assert shop.run("cancel", "late-1").exit_code == 0
    assert "run late-1 is over (cancelled)" in shop.run("cancel", "late-1").stderr
    assert shop.json("cancel", "--all", "--reason", "third") == [{"run_id": "other-1", "state": "cancelled"}]
    assert {row["order"] for row in shop.json("jobs")} == {"first"}
    assert shop.run("cancel", "--all").stdout == "there is nothing left to cancel\n"


def test_an_unclear_beginning_and_a_run_without_a_job_are_refused(shop: Shop) -> None:
    async def more(app: App, queue: Queue) -> str:
        await queue.enqueue(Job("late-2", "support", "t"))
        agent = Agent("plain", ScriptedModel(says("hello")), role="talking")
        return (await agent.arun("hello", app=app)).run

    run = shop.given(more)
    assert "'late' is not clear: 2 jobs begin so, among them late-2, late-1" in shop.run("cancel", "late").stderr
    assert f"run {run} was not submitted, so no worker has it" in shop.run("cancel", run).stderr


@pytest.mark.parametrize("words", [("cancel",), ("show",), ("erase",), ("inbox", "show")])
def test_a_variable_that_is_not_set_names_no_run(tmp_path: Path, words: tuple[str, ...]) -> None:
    shop = Shop(f"sqlite:///{tmp_path / 'only.db'}")

    async def fill(app: App, queue: Queue) -> None:
        await Agent("a", ScriptedModel(says("hello")), role="talking").arun("hello", app=app)
        await queue.enqueue(Job("only-1", "support", "t"))

    shop.given(fill)
    for named in ("", " "):
        done = shop.run(*words, named)
        assert (done.exit_code, done.stderr) == (
            2,
            f"Error: {named!r} names no run: write its id, or the beginning of it\n",
        )
    assert shop.states() == {"only-1": "queued"}


def test_a_reason_in_another_encoding_is_taken(shop: Shop) -> None:
    assert shop.run("cancel", "late-1", "--reason", "caf\udce9").exit_code == 0
    assert shop.json("jobs", "--state", "cancelled")[0]["reason"] == "caf?"


def test_all_of_one_agent_or_of_all_are_cancelled_at_once(shop: Shop) -> None:
    assert shop.json("cancel", "--all", "--agent", "sales") == [{"run_id": "other-1", "state": "cancelled"}]
    told = {row["run_id"]: row["state"] for row in shop.json("cancel", "--all", "--reason", "restored")}
    assert told == {"late-1": "cancelled", "crashed-1": "queued", "held-1": "running"}
    assert shop.run("cancel", "--all", "--agent", "sales").stdout == "there is nothing left to cancel\n"


def test_a_cancelled_run_ends_aborted_with_the_words(tmp_path: Path) -> None:
    shop = Shop(f"sqlite:///{tmp_path / 'shop.db'}")
    agent = Agent("slow", ScriptedModel(lambda _: says("hello")), role="talking")

    async def begun(app: App, queue: Queue) -> str:
        run = (await agent.asubmit("go", app=app)).run
        (claim,) = await queue.claim("w", ("slow",), 60.0)
        await queue.release(claim)
        return run

    run = shop.given(begun)
    assert shop.run("cancel", run, "--reason", "the customer has withdrawn").exit_code == 0

    async def driven(app: App, queue: Queue) -> object:
        await app.worker(agent).work(until_idle=True)
        return await agent.handle(run, app=app).apoll()

    outcome = shop.given(driven)
    assert isinstance(outcome, Aborted)
    assert (outcome.reason, outcome.detail) == ("cancelled", "the customer has withdrawn")
    assert shop.states() == {run: "cancelled"}
