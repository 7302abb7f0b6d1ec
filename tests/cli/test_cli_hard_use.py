"""The command line where things go wrong around a run: broken modules, streams that fail, Ctrl-C, prints of tools."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from capataz.cli.main import main
from capataz.cli.render import console

NOISY = """
import os
from capataz import Agent, tool
from capataz.testing.scripted import ScriptedModel, calls, says

print("the module speaks")

@tool(kind="read")
def look() -> str:
    '''Look.'''
    print("the tool speaks")
    os.system("echo the shell speaks")
    return "seen"

noisy = Agent("noisy", ScriptedModel(calls(("look", {})), says("Paid \N{CHECK MARK}")), [look], role="talking")
"""
SLOW = """
import time
from pathlib import Path
from capataz import Agent, tool
from capataz.testing.scripted import ScriptedModel, calls, says

@tool(kind="read")
def look() -> str:
    '''Look.'''
    if not Path("looking").exists():
        Path("looking").touch()
        time.sleep(50)
    return "seen"

steps = [says("Done.")] if Path("looking").exists() else [calls(("look", {}))]
slow = Agent("slow", ScriptedModel(*steps), [look], role="talking")
"""


def capataz(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "capataz", *words]
    around = {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=50, env=around)


@pytest.fixture
def noisy(agents: Path) -> Path:
    (agents / "noisy.py").write_text(NOISY)
    return agents


@pytest.mark.parametrize(
    ("name", "source", "told"),
    [
        ("ends_badly", "import sys\nsys.exit(3)\n", "ends_badly.py:2: sys.exit(3): 'ends_badly' ends the process"),
        ("ends_well", "import sys\nsys.exit(0)\n", "ends_well.py:2: sys.exit(0)"),
        ("unreadable", "x = 1\ndef f(:\n", "unreadable.py:2: SyntaxError"),
        (
            "lacking",
            "import surely_not_there\n",
            "lacking.py:1: ModuleNotFoundError: No module named 'surely_not_there'",
        ),
        ("raising", "def f():\n    1 / 0\nf()\n", "raising.py:2: ZeroDivisionError"),
        (
            "misusing",
            "from capataz import Agent\nagent = Agent('', 'openai:x')\n",
            "misusing.py:2: an Agent needs a name",
        ),
        ("greedy", "def agent(x):\n    pass\n", "could not be called without arguments"),
    ],
)
def test_a_module_that_fails_is_one_line_with_its_place(
    agents: Path, runner: CliRunner, name: str, source: str, told: str
) -> None:
    (agents / f"{name}.py").write_text(source)
    done = runner.invoke(main, ["run", f"{name}:agent", "task"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("named", ["../crew:answers", "a/b:answers", "crew.py:answers", ".:answers"])
def test_a_path_is_no_name_of_a_module(agents: Path, runner: CliRunner, named: str) -> None:
    done = runner.invoke(main, ["run", named, "task"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "without .py" in done.stderr


def test_a_page_that_cannot_be_written_is_told_before_the_run(agents: Path, runner: CliRunner) -> None:
    for path in ("nowhere/x.html", "."):
        done = runner.invoke(main, ["run", "crew:completes", "task", "--html", path])
        assert (done.exit_code, done.stdout) == (2, ""), done.output
        assert "--html" in done.stderr
    assert not (agents / "capataz.db").exists()


def test_a_page_that_fails_after_the_run_takes_nothing_from_the_outcome(
    agents: Path, runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("capataz.cli.run.write_page", full)
    done = runner.invoke(main, ["run", "crew:completes", "task", "--html", "x.html", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["outcome"] == "completed"
    assert "the page x.html could not be written: No space left" in done.stderr


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "ascii", "utf-8"])
def test_a_character_the_terminal_cannot_show_is_escaped(noisy: Path, encoding: str) -> None:
    done = capataz(noisy, "run", "noisy:noisy", "task", PYTHONIOENCODING=encoding)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stdout.startswith("Paid ")
    assert capataz(noisy, "show", PYTHONIOENCODING=encoding).returncode == 0


def test_looking_works_in_the_poorest_locale(noisy: Path) -> None:
    poor = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    capataz(noisy, "run", "noisy:noisy", "task \N{CHECK MARK}", **poor)
    for command in ("show", "runs"):
        done = capataz(noisy, command, **poor)
        assert (done.returncode, done.stderr) == (0, "")


def test_what_tools_and_modules_print_is_kept_apart_from_the_value(noisy: Path) -> None:
    done = capataz(noisy, "run", "noisy:noisy", "task", "--json")
    assert json.loads(done.stdout)["outcome"] == "answered"
    assert [f"the {one} speaks" in done.stderr for one in ("module", "tool", "shell")] == [True, True, True]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_does_not_change_how_a_run_ended(agents: Path) -> None:
    for words, status in ((["run", "crew:partial", "task", "--json"], 3), (["runs"], 1), (["show"], 1)):
        with Path("/dev/full").open("w") as full:
            command = [sys.executable, "-m", "capataz", *words]
            done = subprocess.run(command, cwd=agents, stdout=full, stderr=subprocess.PIPE, text=True, timeout=50)
        assert done.returncode == status, done.stderr
        assert "could not be written" in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("as_json", [True, False])
def test_a_reader_that_went_away_does_not_change_how_a_run_ended(agents: Path, as_json: bool) -> None:
    command = [sys.executable, "-m", "capataz", "run", "crew:partial", "task", *(["--json"] if as_json else [])]
    with subprocess.Popen(command, cwd=agents, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(timeout=50) == 3
    assert [word for word in ("Traceback", "Error", "Exception") if word in said] == []


def test_an_interrupted_run_says_how_to_go_on_and_is_resumed(agents: Path, runner: CliRunner) -> None:
    (agents / "slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "capataz", "run", "slow:slow", "task"]
    # Whoever started these tests may not hear an interrupt, as a job in the background: its children would not either.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, cwd=agents, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, heard)
    with process:
        until = time.monotonic() + 40
        while not (agents / "looking").exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Aborted" not in err
    run = json.loads(runner.invoke(main, ["runs", "--json"]).output)[0]["run_id"]
    assert f"capataz resume {run} --agent slow:slow" in err
    done = capataz(agents, "resume", run[:-2], "--agent", "slow:slow", "--json")
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["run_id"], json.loads(done.stdout)["answer"]) == (run, "Done.")
    again = capataz(agents, "resume", "--agent", "slow:slow")
    assert (again.returncode, again.stdout) == (0, "Done.\n")


def test_only_the_agent_of_a_run_can_go_on_with_it(store: str, agents: Path, runner: CliRunner) -> None:
    done = runner.invoke(main, ["resume", "0198-cc", "--agent", "crew:answers", "--store", store])
    assert done.exit_code == 2
    assert "belongs to agent 'other'" in done.stderr
    nowhere = runner.invoke(main, ["resume", "--agent", "crew:answers", "--store", "sqlite:///none.db"])
    assert nowhere.exit_code == 2
    assert not (agents / "none.db").exists()


def test_an_address_for_a_model_that_has_its_own_is_a_mistake(agents: Path, runner: CliRunner) -> None:
    done = runner.invoke(main, ["run", "crew:answers", "task", "--base-url", "http://127.0.0.1:1/v1"])
    assert done.exit_code == 2
    assert "leave --base-url out" in done.stderr


def test_the_store_of_an_app_is_diagnosed_whatever_it_is_called(store: str, tmp_path: Path, runner: CliRunner) -> None:
    kept = tmp_path / "kept.db"
    named = kept.rename(tmp_path / "records.bin")
    done = runner.invoke(main, ["diagnose", str(named), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["all"]["runs"] == 3


def test_a_terminal_that_says_it_has_no_columns_is_taken_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert console().width == 80


@pytest.mark.parametrize(
    "words", [["diagnose", "x", "--html"], ["tune", "x", "--html"], ["tune", "x", "--write"], ["show", "r", "--html"]]
)
def test_a_file_that_cannot_be_written_is_said_before_the_work(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "x").write_text("[]")
    for where in ("nowhere/page.html", "x/page.html", "."):
        ended = capataz(tmp_path, *words, where)
        assert (ended.returncode, "Traceback" in ended.stderr) == (2, False), ended.stderr
        assert "Invalid value for '--" in ended.stderr
