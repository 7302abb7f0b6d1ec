"""`capataz policy`: a file is checked with the place of what is wrong, and shown as it works out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from capataz import App, Policy
from capataz.cli.main import main
from capataz.mistakes import PolicyMisuse

TEXT = """
claims = 3
[providers.openai.rate_limit]
retries = 2
[tools.refund.unknown]
terminal = "human"
[guards]
large-refunds = "observe"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(TEXT)
    return path


def test_a_good_file_is_a_policy(runner: CliRunner, file: Path) -> None:
    done = runner.invoke(main, ["policy", "check", str(file)])
    assert done.exit_code == 0, done.output
    assert Policy.from_toml(TEXT).digest in done.output
    assert "guard large-refunds is none of the built-in ones" in done.output
    as_json = json.loads(runner.invoke(main, ["policy", "check", str(file), "--json"]).output)
    assert as_json["own_guards"] == ["large-refunds"]


def test_a_bad_file_is_refused_with_the_place(runner: CliRunner, file: Path) -> None:
    file.write_text("[providers.openai.rate_limit]\nretrys = 2\n")
    done = runner.invoke(main, ["policy", "check", str(file)])
    assert done.exit_code == 2
    assert "policy.toml: [providers.openai.rate_limit] has no 'retrys': did you mean 'retries'?" in done.output
    gone = runner.invoke(main, ["policy", "check", str(file) + "x"])
    assert gone.exit_code == 2
    assert "cannot be read" in gone.output


def test_each_number_is_shown_with_where_it_comes_from(runner: CliRunner, file: Path) -> None:
    shown = json.loads(runner.invoke(main, ["policy", "show", str(file), "--json"]).output)
    rows = {(row["for"], row["row"]): row for row in shown["faults"]}
    assert rows["", "rate_limit"]["retries"] == {"value": 5, "from": "default"}
    mine = rows["providers.openai", "rate_limit"]
    assert mine["retries"] == {"value": 2, "from": "[providers.openai.rate_limit]"}
    assert mine["cap"] == {"value": 60.0, "from": "default"}
    assert rows["tools.refund", "unknown"]["terminal"]["value"] == "human"
    assert shown["settings"]["claims"] == {"value": 3, "from": str(file)}
    text = runner.invoke(main, ["policy", "show", str(file)], env={"COLUMNS": "200"}).output
    assert "[providers.openai.rate_limit]" in text
    assert "large-refunds" in text


def test_the_default_policy_can_be_had_as_a_file(runner: CliRunner) -> None:
    text = runner.invoke(main, ["policy", "show", "--toml"]).output
    assert Policy.from_toml(text) == Policy()
    assert "supervisor" in runner.invoke(main, ["policy", "show"]).output


def test_an_app_reads_the_file(file: Path) -> None:
    assert App("memory:", policy=file).policy == App("memory:", policy=str(file)).policy == Policy.from_toml(TEXT)
    with pytest.raises(PolicyMisuse, match=r"nowhere\.toml cannot be read"):
        App("memory:", policy="nowhere.toml")
