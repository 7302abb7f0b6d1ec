"""`capataz erase`: one run, or all of an age; never without saying which."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from capataz import Agent, App
from capataz.cli.main import main
from capataz.testing.scripted import ScriptedModel, says


def store_with_a_run(folder: Path) -> tuple[str, str]:
    url = f"sqlite:///{folder / 'capataz.db'}"
    agent = Agent("greeter", ScriptedModel(says("Hello Ana")), role="talking")
    return url, agent.run("Greet Ana", app=App(url)).run


def test_one_run_is_erased_and_the_list_shows_it(tmp_path: Path) -> None:
    url, run = store_with_a_run(tmp_path)
    done = CliRunner().invoke(main, ["erase", run, "--store", url, "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert (said["run"], said["runs"], len(said["key"])) == (run, 1, 64)
    listed = CliRunner().invoke(main, ["runs", "--store", url, "--json"])
    assert "Ana" not in listed.output
    assert "[erased " in listed.output
    shown = CliRunner().invoke(main, ["show", run, "--store", url])
    assert shown.exit_code == 0, shown.output
    assert "Ana" not in shown.output


def test_age_decides_for_all(tmp_path: Path) -> None:
    url, _ = store_with_a_run(tmp_path)
    assert "0 runs erased" in CliRunner().invoke(main, ["erase", "--older-than", "1d", "--store", url]).output
    assert "1 runs erased" in CliRunner().invoke(main, ["erase", "--older-than", "0m", "--store", url]).output


def test_what_is_meant_has_to_be_said(tmp_path: Path) -> None:
    url, run = store_with_a_run(tmp_path)
    for words in ([], [run, "--older-than", "1d"], ["--older-than", "soon"]):
        done = CliRunner().invoke(main, ["erase", *words, "--store", url])
        assert done.exit_code == 2, done.output
