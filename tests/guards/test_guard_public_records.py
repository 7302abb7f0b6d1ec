"""What the guards do to public runs with a known outcome: few good ones cut, much vain work of bad ones saved."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from capataz.events.facts import Event, ToolFinished, ToolRefused
from capataz.guards.catalogue import default_guards
from capataz.guards.watch import Watch
from capataz.ingest.read import read_runs
from capataz.lens.replay import replay

TRACES = Path(os.environ.get("CAPATAZ_SHARED", Path(__file__).parents[3] / "shared")) / "traces"


@dataclass
class Tally:
    good: int = 0
    good_cut: int = 0
    calls: int = 0
    saved: int = 0


def _calls(events: list[Event]) -> int:
    return sum(isinstance(event.fact, ToolFinished | ToolRefused) for event in events)


def _tally(path: Path) -> Tally:
    if not path.exists():
        pytest.skip(f"public run records are not here: {path} (CAPATAZ_SHARED says where they are)")
    watch, tally = Watch(default_guards()), Tally()
    for run in read_runs([path]):
        cut = replay(run.events, watch).cut
        if run.label:
            tally.good += 1
            tally.good_cut += cut is not None
        elif run.label is False:
            calls = _calls(run.events)
            tally.calls += calls
            tally.saved += calls - _calls(run.events[: cut.place + 1]) if cut is not None else 0
    return tally


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("record", "killed", "saved"),
    [
        ("intercode/sql.open.jsonl.gz", 0.004, 0.27),
        ("workbench/results.open.jsonl.gz", 0.005, 0.18),
        ("intercode/bash.open.jsonl.gz", 0.004, 0.12),
        ("intercode/python.open.jsonl.gz", 0.0, 0.10),
        ("intercode/ctf.open.jsonl.gz", 0.0, 0.05),
        ("claude-code-terminal-bench/runs.open.jsonl.xz", 0.0, 0.0),
        ("tau-bench/gpt-4o-airline.open.jsonl.gz", 0.0, 0.0),
        ("agentrx/tau_retail.open.jsonl.gz", 0.0, 0.0),
        ("reflexion/react_base.open.txt.gz", 0.0, 0.0),
    ],
)
def test_good_runs_go_on_and_vain_work_is_saved(record: str, killed: float, saved: float) -> None:
    tally = _tally(TRACES / record)
    assert tally.good_cut <= max(killed * tally.good, 1 if killed else 0)
    assert tally.saved >= saved * tally.calls
