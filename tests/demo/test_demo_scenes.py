"""Every scene of the demo, played for real: how it ends, what it leaves in the shop, and that nobody is lied to."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from capataz.app import App
from capataz.cli.main import main
from capataz.demo.clerk import TURNS
from capataz.demo.scenes import SCENES
from capataz.demo.stage import Played, play
from capataz.demo.worker import BEHAVIOURS
from capataz.testing.worker_wire import Dialect

pytestmark = pytest.mark.timeout(180)
"""All scenes are played once, before the first test: on a busy machine that takes its time."""

DIALECTS: tuple[Dialect, ...] = ("openai", "anthropic")
ENDS: Mapping[str, tuple[str, int, int]] = {
    "A good day": ("completed", 1, 1),
    "It repeats a refund": ("partial", 1, 0),
    "It never ends": ("completed", 1, 1),
    "It alternates": ("partial", 0, 0),
    "It searches in vain": ("partial", 0, 0),
    "The refund stays pending": ("partial", 0, 0),
    "It narrates": ("partial", 0, 0),
    "It claims": ("partial", 0, 0),
    "It claims after a failure": ("partial", 0, 1),
    "It says nothing": ("partial", 0, 0),
    "It hangs": ("escalated", 0, 0),
    "It stalls in mid-stream": ("completed", 1, 1),
    "The stream breaks off": ("completed", 1, 1),
    "429, with a wait": ("completed", 1, 1),
    "500, three times": ("completed", 1, 1),
    "401": ("escalated", 0, 0),
    "Garbled reply": ("completed", 1, 1),
    "Garbled arguments": ("completed", 1, 1),
    "Unknown tool": ("completed", 1, 1),
}
"""How each scene ends under the foreman: outcome, rows of refunds, rows of messages."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Played]:
    """All scenes in both wire formats, on the store a user would have. Only the naive loop is cut off sooner."""
    import asyncio

    folder = tmp_path_factory.mktemp("scenes")
    scenes = [replace(scene, dialect=dialect) for dialect in DIALECTS for scene in SCENES]

    async def all_of_them() -> list[Played]:
        async with App(f"sqlite:///{folder}/runs.db") as app:
            return await play(scenes, app, folder, lambda one: None, patience=5.0)

    return {(one.scene.title, one.scene.dialect): one for one in asyncio.run(all_of_them())}


@pytest.fixture
def played(both: dict[tuple[str, str], Played]) -> dict[str, Played]:
    """The scenes as the demo plays them, by title."""
    return {scene.title: both[scene.title, scene.dialect] for scene in SCENES}


def test_every_behaviour_of_the_worker_has_a_scene_and_every_scene_an_end() -> None:
    assert {scene.worker for scene in SCENES} == set(BEHAVIOURS)
    assert set(ENDS) == {scene.title for scene in SCENES}
    assert {scene.dialect for scene in SCENES} == set(DIALECTS)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("title", list(ENDS))
def test_a_scene_ends_as_it_should(both: dict[tuple[str, str], Played], title: str, dialect: str) -> None:
    one = both[title, dialect]
    outcome, refunds, messages = ENDS[title]
    assert (one.outcome, one.foreman.rows.refunds, one.foreman.rows.messages) == (outcome, refunds, messages), one
    assert one.foreman.honest
    assert one.foreman.turns <= TURNS
    assert one.violations == ()


def test_the_foreman_stops_what_runs_away_long_before_the_ceiling(played: dict[str, Played]) -> None:
    endless = (
        "It repeats a refund",
        "It never ends",
        "It alternates",
        "It searches in vain",
        "The refund stays pending",
    )
    for title in endless:
        assert played[title].naive.turns == TURNS
        assert played[title].foreman.turns <= TURNS / 2


def test_what_the_naive_loop_does_is_what_is_told(played: dict[str, Played]) -> None:
    assert played["A good day"].naive.honest
    assert played["429, with a wait"].naive.honest
    for title in ("It narrates", "It claims", "It claims after a failure", "It says nothing", "The stream breaks off"):
        assert not played[title].naive.honest
    assert played["It repeats a refund"].naive.rows.refunds == TURNS - 1
    assert "still waiting" in played["It hangs"].naive.ended
    assert "crashed" in played["Unknown tool"].naive.ended


def test_what_the_foreman_did_is_read_from_the_log(played: dict[str, Played]) -> None:
    repeats = played["It repeats a refund"].deeds
    assert any("refused" in deed and "repeated act" in deed for deed in repeats)
    assert any(deed.startswith("stopped it: ") for deed in repeats)
    assert any("fail" in deed for deed in played["429, with a wait"].deeds)
    assert any("sent 2 turns back" in deed for deed in played["It narrates"].deeds)


def test_the_command_plays_scenes_and_writes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["demo", "--scene", "repeats", "--scene", "good day"], catch_exceptions=False)
    assert done.exit_code == 0
    for words in ("It repeats a refund", "A good day", "capataz-demo.html", "capataz demo --model openai:NAME"):
        assert words in done.output
    page = (tmp_path / "capataz-demo.html").read_text()
    assert "stopped · " in page
    assert "http://" not in page
    listed = CliRunner().invoke(main, ["runs", "--store", "sqlite:///capataz-demo.db", "--json"])
    assert {row["outcome"] for row in json.loads(listed.output)} == {"partial", "completed"}


def test_the_command_speaks_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["demo", "--scene", "good day", "--json", "--html", "p.html"])
    (scene,) = json.loads(done.output)["scenes"]
    assert scene["foreman"]["outcome"] == "completed"
    assert scene["foreman"]["rows"] == {"refunds": 1, "refunded_cents": 1250, "messages": 1}
    assert scene["violations"] == []


def test_a_scene_nobody_knows_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["demo", "--scene", "dances"])
    assert done.exit_code == 2
    assert "It narrates" in done.stderr
    assert list(tmp_path.iterdir()) == []
