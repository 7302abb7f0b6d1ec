"""The guards on labelled histories of our own making, scored with the command that scores any user's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from capataz.cli.guards import guards
from capataz.lens.cases.check import GATES, LOOPS
from tests.guards.made.write import CASES, SETS, text


def _report(name: str) -> dict[str, Any]:
    done = CliRunner().invoke(guards, ["score", str(CASES / name), "--json"])
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("name", SETS)
def test_the_set_is_what_its_generator_tells(name: str) -> None:
    assert (CASES / name).read_bytes() == text(name), "run python -m tests.guards.made.write"


def test_the_short_ones_are_told_apart() -> None:
    report = _report("made_short.json")
    kinds = report["by_kind"]
    assert report["f1"] >= 0.97
    assert report["healthy"]["killed"] == 0
    assert report["healthy"]["total"] >= 50
    assert all(kinds[kind]["total"] for kind in (*LOOPS, *GATES))
    assert all(kinds[gate]["caught"] == kinds[gate]["total"] for gate in GATES)
    assert report["mean_steps_to_cut"] <= 8


def test_the_long_ones_are_told_apart() -> None:
    report = _report("made_long.json")
    assert report["f1"] >= 0.93
    assert report["healthy"] == {"total": 10, "killed": 0}
    assert report["recovering"] == {"total": 6, "killed": 0}
    assert report["mean_steps_to_cut"] <= 8
