"""The score on the labelled cases, its keys, its rules, and what a broken file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from capataz.cli.guards import guards
from capataz.lens.cases import case_of, read_cases
from capataz.lens.score import GATES, LOOPS, Score, Scored, score
from capataz.mistakes import Misuse

CASES = Path(__file__).parents[1] / "data" / "cases"
SHORT, LONG = CASES / "stuck_open.json", CASES / "stuck_long_open.json"


def _report(path: Path) -> dict[str, Any]:
    done = CliRunner().invoke(guards, ["score", str(path), "--json"])
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_the_short_cases_reach_what_was_promised() -> None:
    report = _report(SHORT)
    assert list(report) == [
        "precision", "recall", "f1", "healthy", "mean_steps_to_cut", "recovering", "by_kind", "cases",
    ]  # fmt: skip
    assert report["f1"] >= 0.97
    assert report["healthy"] == {"total": 33, "killed": 0}
    assert report["mean_steps_to_cut"] <= 7.3
    for kind in GATES:
        assert report["by_kind"][kind]["caught"] == report["by_kind"][kind]["total"] > 0
    assert set(report["cases"][0]) == {"id", "fired_at", "signal", "verdict"}


def test_the_long_cases_reach_what_was_promised() -> None:
    report = _report(LONG)
    assert report["f1"] >= 0.93
    assert report["healthy"] == {"total": 22, "killed": 0}
    assert report["recovering"] == {"total": 6, "killed": 0}
    assert report["mean_steps_to_cut"] <= 8


def test_people_read_the_same_figures() -> None:
    shown = CliRunner().invoke(guards, ["score", str(SHORT)]).stdout
    report = _report(SHORT)
    assert f"f1 {report['f1']:.3f}" in shown
    assert f"{report['healthy']['killed']} of 33" in shown


def test_a_policy_that_only_observes_catches_nothing(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[guards]\nrepeating = "observe"\n', encoding="utf-8")
    done = CliRunner().invoke(guards, ["score", str(SHORT), "--policy", str(policy), "--json"])
    report = json.loads(done.stdout)
    assert report["by_kind"]["identical"]["caught"] < report["by_kind"]["identical"]["total"]
    assert report["by_kind"]["alternating"]["missed"] == 0


def _loop(**expected: object) -> dict[str, Any]:
    history = [
        {"turn": i, "tool": "send", "args": {"to": "a"}, "result": "ok", "state_changed": True} for i in range(9)
    ]
    tools = {"send": {"class": "message", "target_arg": "to"}}
    return {"id": "x", "kind": "identical", "tools": tools, "history": history, "expected": expected}


@pytest.mark.parametrize(
    ("window", "verdict"),
    [
        ({"not_before": 2, "at_latest": 5}, "caught"),
        ({"not_before": 4, "at_latest": 8}, "early"),
        ({"not_before": 1, "at_latest": 2}, "late"),
        ({}, "caught"),
    ],
)
def test_a_cut_counts_inside_its_window(window: dict[str, int], verdict: str) -> None:
    (scored,) = score([case_of(_loop(signal="identical", **window))]).cases
    assert (scored.fired_at, scored.verdict) == (3, verdict)


def test_steps_are_counted_from_the_onset() -> None:
    plain, late = case_of(_loop()), case_of(_loop(onset=2))
    assert [one.steps for one in score([plain, late]).cases] == [4, 2]


def test_an_early_cut_costs_precision_and_recall() -> None:
    early, right = case_of(_loop(not_before=6)), case_of(_loop())
    precision, recall, f1 = score([early, right]).rate(LOOPS)
    assert (precision, recall, f1) == (0.5, 0.5, 0.5)


def test_a_healthy_run_that_is_cut_costs_precision() -> None:
    killed = case_of({**_loop(), "kind": "healthy"})
    scored = score([killed, case_of(_loop())])
    assert [one.verdict for one in scored.cases] == ["killed", "caught"]
    assert scored.rate(LOOPS)[0] == 0.5


def test_nothing_to_score_is_no_perfect_score() -> None:
    assert Score(()).rate(LOOPS) == (None, None, None)
    missed = Scored(case_of(_loop()), None, None, "missed", None)
    assert Score((missed,)).rate(LOOPS) == (None, 0.0, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{", "is not JSON"),
        (b"{}", "holds no list of cases"),
        (b'[{"id": "a", "kind": "healthy"}]', "'a' cannot be read"),
        (b'[{"id": "b", "kind": "healthy", "history": [{"tool": "t", "args": [1]}]}]', "'b' cannot be read"),
        (b'[{"id": "c", "kind": "x", "tools": {"t": {"class": "odd"}}, "history": []}]', "'c' cannot be read"),
        (b"[7]", "cannot be read"),
    ],
)
def test_a_broken_file_is_refused_by_name(text: bytes, says: str) -> None:
    with pytest.raises(Misuse, match=says):
        read_cases(text, "cases.json")


def test_cases_may_stand_under_a_name() -> None:
    assert [case.id for case in read_cases(json.dumps({"cases": [_loop()]}).encode(), "f")] == ["x"]
