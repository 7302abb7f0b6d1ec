"""The public records, where they are at hand: how many runs of each source are read, as their own list says."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from capataz.events.facts import ModelReplied, ToolFinished
from capataz.ingest.build import ImportedRun
from capataz.ingest.read import read_runs
from capataz.ingest.report import Report

Reads = Callable[..., tuple[list[ImportedRun], Report]]
RUNS = {
    "tau-bench": {"tau-bench": 116},
    "agentrx": {"tau-bench": 52},
    "who-and-when": {"transcript": 124},
    "intercode": {"intercode": 10_879},
    "workbench": {"workbench": 3_296},
    "reflexion": {"reflexion": 512},
    "claude-code-terminal-bench": {"claude-code": 264, "claude-code sub-agents": 22, "atif": 3},
    "swe-agent": {"swe-agent": 16},
    "mini-swe-agent": {"mini-swe-agent": 2},
    "openhands": {"openhands": 6},
    "agent-as-a-judge": {"agent-steps": 1},
    "openclaw-sessions": {"pi": 2},
    "inspect-ai": {"inspect": 38},
    "openinference-vercel": {"otel": 12},
}


@pytest.mark.parametrize("source", RUNS)
def test_runs_of_each_source(source: str, traces: Path) -> None:
    report = Report()
    for run in read_runs([traces / source], report=report):
        assert any(isinstance(event.fact, ModelReplied) for event in run.events) or run.label is not None
    assert dict(report.runs) == RUNS[source]


def test_cassettes_are_left_alone_by_name(traces: Path, read: Reads) -> None:
    runs, report = read(traces / "provider-cassettes")
    assert runs == []
    assert report.skipped["HTTP cassette (exchanges of a provider, not a run)"] == 1_151


def test_tau_labels_and_calls(traces: Path, read: Reads) -> None:
    runs, _ = read(traces / "tau-bench")
    assert sum(run.label is True for run in runs) == 55
    finished = [e.fact for run in runs for e in run.events if isinstance(e.fact, ToolFinished)]
    assert len(finished) == 786
    asked = sum(len(e.fact.calls) for run in runs for e in run.events if isinstance(e.fact, ModelReplied))
    assert asked == 786


def test_reading_does_not_wait_for_the_whole_file(traces: Path) -> None:
    first = list(itertools.islice(read_runs([traces / "intercode" / "sql.open.jsonl.gz"]), 3))
    assert len(first) == 3
