"""`capataz diagnose`, as a user runs it."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from click.testing import CliRunner

from capataz.cli.main import main

RECORDS = Path(__file__).parents[1] / "data" / "records"


def run(*words: str, input: bytes | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["diagnose", *words], input=input)
    return result.exit_code, result.stdout


def test_a_folder_in_words() -> None:
    code, said = run(str(RECORDS))
    assert code == 0
    assert "show one of the four failures" in said
    assert "left alone (files): " in said
    assert "claude-code" in said


def test_json_is_the_same_whatever_the_number_of_processes() -> None:
    one, two = (json.loads(run(str(RECORDS), "--json", "--jobs", jobs)[1]) for jobs in "13")
    for told in (one, two):
        assert told["all"]["runs"] == sum(told["reading"]["runs"].values()) == 40
        told["reading"]["skipped"].pop("nothing an agent did", None)
    assert one == two


def test_a_page_is_written(tmp_path: Path) -> None:
    code, _ = run(str(RECORDS), "--html", str(tmp_path / "r.html"))
    assert code == 0
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_standard_input() -> None:
    code, said = run("-", "--json", input=(RECORDS / "intercode.jsonl").read_bytes())
    assert code == 0
    assert json.loads(said)["reading"]["runs"] == {"intercode": 2}


def test_a_guess_is_overruled() -> None:
    code, said = run(str(RECORDS / "vercel.json"), "--json", "--kind", "weather=read")
    assert code == 0
    assert json.loads(said)["tools"]["weather"] == {"kind": "read", "target": None, "why": "you said so", "runs": 1}


@pytest.mark.parametrize("wrong", ["weather", "weather=look", "=read"])
def test_a_wrong_class_is_one_clear_line(wrong: str) -> None:
    result = CliRunner().invoke(main, ["diagnose", str(RECORDS), "--kind", wrong])
    assert result.exit_code == 2
    assert "write NAME=CLASS with a class out of read, search, poll, write, exec, message" in result.stderr


def test_nothing_there() -> None:
    assert run("/does/not/exist")[0] == 2


def test_no_run_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# hello")
    code, said = run(str(tmp_path))
    assert (code, said.splitlines()[0]) == (0, "No run was found in these records.")


def test_broken_lines_are_named(tmp_path: Path) -> None:
    good = (RECORDS / "intercode.jsonl").read_bytes()
    (tmp_path / "a.jsonl").write_bytes(good + b'{"x": \n' + good)
    code, said = run(str(tmp_path))
    assert code == 0
    assert "1 broken line or file," in said
    assert "a.jsonl:3:" in said.replace("\n", "")


def test_memory_does_not_grow_with_the_number_of_runs(tmp_path: Path) -> None:
    line = (RECORDS / "intercode.jsonl").read_bytes()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (tmp_path / "many.jsonl").open("wb") as file:
        for _ in range(5_000):
            file.write(line)
    code, said = run(str(tmp_path), "--json", "--jobs", "1")
    assert code == 0
    assert json.loads(said)["all"]["runs"] == 10_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


def _loop(path: Path) -> str:
    """A chat in which the same thing is asked seven times."""
    said: list[dict[str, object]] = [{"role": "user", "content": "Where is order 81?"}]
    for n in range(7):
        function = {"name": "find_order", "arguments": '{"id": "81"}'}
        said.append({"role": "assistant", "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}]})
        said.append({"role": "tool", "tool_call_id": f"c{n}", "content": '{"state": "paid"}'})
    path.write_text(json.dumps({"messages": said}))
    return str(path)


def test_a_policy_of_ones_own_is_replayed(tmp_path: Path) -> None:
    record, policy = _loop(tmp_path / "loop.json"), tmp_path / "policy.toml"
    policy.write_text('[guards]\nrepeating = "observe"\n')
    cut = [
        json.loads(run(record, "--json", *words)[1])["all"]["would_be_cut"] for words in ((), ("--policy", str(policy)))
    ]
    assert cut == [1, 0]


def test_a_mistake_in_the_policy_shows_before_anything_is_read(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[thresholds]\nstails = 3\n")
    result = CliRunner().invoke(main, ["diagnose", str(RECORDS), "--policy", str(policy)])
    assert result.exit_code != 0
    assert "stale" in result.stderr + str(result.exception)
