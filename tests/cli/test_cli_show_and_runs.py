"""Looking at what ran: as a tree, as JSON, as a page; mistakes are one line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from capataz.cli.main import main


def test_show_draws_turns_calls_and_verdicts_with_their_evidence(runner: CliRunner, store: str) -> None:
    done = runner.invoke(main, ["show", "0197-aa", "--store", store])
    assert done.exit_code == 0, done.output
    for words in (
        "turn 1",
        'pay(order="81")',
        "[write]",
        '{"status":"paid"}',
        "stopped · looping (identical)",
        "evidence: turn 1, call 1",
        "PARTIAL · identical",
        "pay 81: row 1 (turn 1, call 1)",
        "1 turn · 1 call · 120 tokens · $0.25",
    ):
        assert words in done.output


def test_what_a_model_wrote_neither_colours_nor_steers_the_terminal(runner: CliRunner, store: str) -> None:
    done = runner.invoke(main, ["show", "0197-aa", "--store", store])
    assert "\x1b" not in done.output
    assert "[bold]now[/bold]" in done.output


def test_show_json_is_the_whole_tree(runner: CliRunner, store: str) -> None:
    done = runner.invoke(main, ["show", "0197-aa", "--store", store, "--json"])
    tree = json.loads(done.output)
    assert (tree["run_id"], tree["outcome"], tree["reason"]) == ("0197-aa", "partial", "identical")
    assert tree["turns"][0]["calls"][0]["result"] == {"status": "paid"}
    assert tree["turns"][0]["marks"][0]["evidence"] == [4]


def test_a_run_is_found_by_the_beginning_of_its_id_if_that_is_clear(runner: CliRunner, store: str) -> None:
    assert runner.invoke(main, ["show", "0198", "--store", store]).exit_code == 0
    unclear = runner.invoke(main, ["show", "0197", "--store", store])
    assert unclear.exit_code == 2
    assert "2 runs begin so" in unclear.stderr
    unknown = runner.invoke(main, ["show", "zzz", "--store", store])
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "no run begins with 'zzz'" in unknown.stderr


def test_without_an_id_the_newest_run_is_shown(runner: CliRunner, store: str) -> None:
    newest = json.loads(runner.invoke(main, ["runs", "--store", store, "--json"]).output)[0]["run_id"]
    shown = json.loads(runner.invoke(main, ["show", "--store", store, "--json"]).output)
    assert shown["run_id"] == newest


def test_a_run_still_going_on_is_shown_so_far(runner: CliRunner, store: str) -> None:
    done = runner.invoke(main, ["show", "0198", "--store", store])
    assert "still running" in done.output


def test_show_writes_a_page(runner: CliRunner, store: str, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    done = runner.invoke(main, ["show", "0197-aa", "--store", store, "--html", str(page)])
    assert (done.exit_code, done.output) == (0, f"wrote {page}\n")
    assert "the same payment again" in page.read_text().lower()


def test_runs_lists_newest_first_and_filters(runner: CliRunner, store: str) -> None:
    text = runner.invoke(main, ["runs", "--store", store], env={"COLUMNS": "200"})
    assert text.exit_code == 0
    assert "partial: identical" in text.output
    rows = json.loads(runner.invoke(main, ["runs", "--store", store, "--json"]).output)
    assert {row["run_id"] for row in rows} == {"0197-aa", "0197-bb", "0198-cc"}
    ended = json.loads(runner.invoke(main, ["runs", "--store", store, "--json", "--outcome", "partial"]).output)
    assert {row["run_id"] for row in ended} == {"0197-aa", "0197-bb"}
    other = json.loads(runner.invoke(main, ["runs", "--store", store, "--json", "--agent", "other"]).output)
    assert [(row["run_id"], row["status"]) for row in other] == [("0198-cc", "running")]
    assert json.loads(runner.invoke(main, ["runs", "--store", store, "--json", "--agent", "nobody"]).output) == []
    assert runner.invoke(main, ["runs", "--store", store, "--agent", "nobody"]).output == "no runs\n"


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_an_id_is_never_cut_however_narrow_the_terminal(runner: CliRunner, store: str, width: int) -> None:
    done = runner.invoke(main, ["runs", "--store", store], env={"COLUMNS": str(width)})
    rows = [line for line in done.output.splitlines() if line.strip().startswith("019")]
    assert [line.split()[0] for line in rows] == ["0198-cc", "0197-bb", "0197-aa"]
    assert all(len(line.rstrip()) <= width for line in done.output.splitlines())
    assert all("partial: identical" in line for line in rows[1:])
    assert ("Pay order 81" in done.output) == (width >= 80)


@pytest.mark.parametrize("command", [["runs"], ["show"]])
def test_looking_makes_no_file(runner: CliRunner, tmp_path: Path, command: list[str]) -> None:
    missing = tmp_path / "missing.db"
    done = runner.invoke(main, [*command, "--store", f"sqlite:///{missing}"])
    assert done.exit_code == 2
    assert "there is no store at" in done.stderr
    assert not missing.exists()


def test_a_name_that_is_no_store_is_one_line(runner: CliRunner) -> None:
    done = runner.invoke(main, ["runs", "--store", "mongodb://nowhere"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
