"""`capataz run`: the exit status says how it ended, stdout holds the answer, a mistake is one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click import Context, Group
from click.testing import CliRunner

from capataz.cli.main import COMMANDS, main


@pytest.mark.parametrize(
    ("agent", "status", "outcome"),
    [
        ("completes", 0, "completed"),
        ("answers", 0, "answered"),
        ("partial", 3, "partial"),
        ("escalates", 4, "escalated"),
        ("aborts", 5, "aborted"),
    ],
)
def test_the_exit_status_of_a_real_process_says_how_it_ended(
    agents: Path, agent: str, status: int, outcome: str
) -> None:
    command = [sys.executable, "-m", "capataz", "run", f"crew:{agent}", "Pay order 81", "--json"]
    done = subprocess.run(command, cwd=agents, capture_output=True, text=True, timeout=50)
    assert done.returncode == status, done.stderr
    value = json.loads(done.stdout)
    assert value["outcome"] == outcome
    assert set(value) >= {"outcome", "reason", "run_id", "answer", "evidence", "turns", "calls", "usage"}
    assert done.stderr == ""
    assert bool(value["evidence"]) == (outcome == "completed")


def test_the_run_is_kept_and_shown(agents: Path, runner: CliRunner) -> None:
    done = runner.invoke(main, ["run", "crew:completes", "Pay order 81"], catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stdout.strip()
    assert "COMPLETED · effects-confirmed" in done.stderr
    shown = runner.invoke(main, ["show", "--json"])
    assert json.loads(shown.output)["outcome"] == "completed"


def test_overrides_reach_the_log(agents: Path, runner: CliRunner) -> None:
    words = ["--turns", "3", "--seconds", "5.5", "--task-type", "paying", "--html", "run.html", "--json"]
    done = runner.invoke(main, ["run", "crew:made", "hello", *words, "--store", "sqlite:///other.db"])
    assert done.exit_code == 0, done.output
    assert (agents / "run.html").read_text().count("of 3") == 1
    rows = json.loads(runner.invoke(main, ["runs", "--store", "sqlite:///other.db", "--json"]).output)
    assert [row["task_type"] for row in rows] == ["paying"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["crew", "task"], "write MODULE:AGENT"),
        (["nowhere:agent", "task"], "there is no module 'nowhere'"),
        (["crew:nobody", "task"], "its agents are: completes, answers, partial, escalates, aborts"),
        (["crew:number", "task"], "is a int, not an Agent"),
        (["crew:answers", " "], "empty task"),
        (["crew:answers", "task", "--model", "nonsense"], "nonsense"),
        (["crew:answers", "task", "--store", "mongodb://x"], "does not name a store"),
        (["crew:answers", "task", "--turns", "0"], "--turns"),
    ],
)
def test_a_mistake_is_told_in_words_and_exits_with_2(
    agents: Path, runner: CliRunner, words: list[str], told: str
) -> None:
    done = runner.invoke(main, ["run", *words])
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_help_is_quick_and_names_every_command(runner: CliRunner) -> None:
    done = runner.invoke(main, ["--help"])
    assert done.exit_code == 0
    assert all(name in done.output for name in COMMANDS)
    seen = "import sys, capataz.cli.main as m; m.main(['--help'], standalone_mode=False); print([n for n in sys.modules"
    seen += " if n.split('.')[0] in ('rich', 'aiohttp', 'jinja2', 'pydantic') or n.startswith('capataz.demo')])"
    loaded = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, timeout=50, check=True)
    assert loaded.stdout.rstrip().endswith("[]")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself(runner: CliRunner, name: str) -> None:
    done = runner.invoke(main, [name, "--help"])
    assert done.exit_code == 0, done.output
    command = main.get_command(Context(main), name)
    assert command is not None
    if name == "serve":
        return  # it goes on until it is told to stop, and has no value to print
    within = list(command.commands.values()) if isinstance(command, Group) else [command]
    assert all(any("--json" in option.opts for option in each.params) for each in within)


def test_an_unknown_command_is_a_mistake(runner: CliRunner) -> None:
    assert runner.invoke(main, ["dance"]).exit_code == 2
