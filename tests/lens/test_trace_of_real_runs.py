"""Recorded runs of a real model: their logs still read, fold at every length, and draw."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from capataz.events.codec import from_line
from capataz.events.facts import Event
from capataz.lens.trace.as_json import trace_json
from capataz.lens.trace.fold import trace
from capataz.lens.trace.page import page

FOLDER = Path(__file__).parents[1] / "data" / "real_runs"
ENDS = {
    "works": ("completed", "effects-confirmed"),
    "empty": ("partial", "error-repeat"),
    "pending": ("partial", "error-repeat"),
    "declines": ("partial", "error-repeat"),
    "narrates": ("partial", "call-in-text"),
}


def recorded(name: str) -> Sequence[Event]:
    return [from_line(line) for line in (FOLDER / f"qwen-1.5b-{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", list(ENDS))
def test_a_recorded_run_ended_as_its_log_says(name: str) -> None:
    tree = trace(recorded(name))
    assert tree.ending is not None
    assert (tree.outcome, tree.ending.reason) == ENDS[name]
    acts = [view for turn in tree.turns for view in turn.calls if view.call.tool == "refund"]
    assert sum(view.confirmed for view in acts) == (1 if name == "works" else 0)


@pytest.mark.parametrize("name", list(ENDS))
def test_every_beginning_of_a_recorded_run_folds_and_draws(name: str) -> None:
    events = recorded(name)
    for count in range(len(events)):
        tree = trace(events[:count])
        assert trace_json(tree)["status"] == "running"
        assert "</html>" in page(tree)


def test_the_completed_run_did_each_act_once_and_proved_it() -> None:
    tree = trace(recorded("works"))
    assert tree.ending is not None
    assert [view.call.tool for turn in tree.turns for view in turn.calls if view.call.acting] == [
        "refund",
        "send_message",
    ]
    assert {proof.what for proof in tree.ending.evidence} == {"effect", "check"}
