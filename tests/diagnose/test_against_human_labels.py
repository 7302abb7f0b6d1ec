"""What a diagnosis calls repetition, held against what people wrote of the same runs, beside simple rules."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from capataz.events.facts import Event, ModelReplied, ToolFinished
from capataz.ingest.build import ImportedRun
from capataz.ingest.read import read_runs
from capataz.lens.diagnose.examine import Examiner
from capataz.lens.diagnose.findings import Subject

TRACES = Path(os.environ.get("CAPATAZ_SHARED", Path(__file__).parents[3] / "shared")) / "traces"
LABELS = TRACES / "agentrx" / "magentic_one_ground_truth.open.json"
RUNS = TRACES / "who-and-when"
REPEATED = re.compile(r"repeat|repetit|\bloop|redundan|over and over", re.IGNORECASE)
"""A weak label: people were asked for the failures of a run, not for repetition, and some of them speak of it."""


def _calls(events: Sequence[Event]) -> list[str]:
    facts = [event.fact for event in events]
    return [
        f"{fact.call.tool} {json.dumps(fact.call.arguments, sort_keys=True)}"
        for fact in facts
        if isinstance(fact, ToolFinished)
    ]


def _messages(events: Sequence[Event]) -> list[str]:
    said = [event.fact.text.strip() for event in events if isinstance(event.fact, ModelReplied)]
    return [text for text in (*said, *_calls(events)) if len(text) >= 40]


def _anywhere(times: int, steps: Callable[[Sequence[Event]], list[str]]) -> Callable[[Sequence[Event]], bool]:
    return lambda events: max(Counter(steps(events)).values(), default=0) >= times


def _in_a_row(times: int) -> Callable[[Sequence[Event]], bool]:
    return lambda events: max((len(list(same)) for _, same in groupby(_calls(events))), default=0) >= times


SIMPLE = {
    "the same call three times in a row": _in_a_row(3),
    "the same call five times in a row": _in_a_row(5),
    "the same call twice anywhere": _anywhere(2, _calls),
    "the same call three times anywhere": _anywhere(3, _calls),
    "the same message twice anywhere": _anywhere(2, _messages),
    "the same message three times anywhere": _anywhere(3, _messages),
}


def kappa(told: Sequence[bool], labels: Sequence[bool]) -> float:
    """Agreement beyond chance."""
    total = len(labels)
    agreed = sum(one == other for one, other in zip(told, labels, strict=True)) / total
    chance = (sum(told) * sum(labels) + (total - sum(told)) * (total - sum(labels))) / total**2
    return (agreed - chance) / (1 - chance)


def _labelled() -> list[tuple[ImportedRun, bool]]:
    if not LABELS.exists() or not RUNS.exists():
        pytest.skip(f"public run records are not here: {LABELS} (CAPATAZ_SHARED says where they are)")
    said = {
        one["trajectory_id"]: REPEATED.search(json.dumps(one)) is not None for one in json.loads(LABELS.read_text())
    }
    runs = [run for run in read_runs([RUNS]) if run.id.startswith("hand")]
    return [(run, said[run.task_key]) for run in runs if run.task_key in said]


def test_repetition_agrees_with_people_at_least_as_well_as_the_best_simple_rule() -> None:
    labelled, examiner = _labelled(), Examiner()
    labels = [label for _, label in labelled]
    assert len(labels) == 31
    simple = {name: kappa([rule(run.events) for run, _ in labelled], labels) for name, rule in SIMPLE.items()}
    told = [examiner.examine(Subject(run.id, "", ""), run.events).repeats for run, _ in labelled]
    assert kappa(told, labels) >= max(simple.values()), simple
    assert kappa(told, labels) >= 0.55
