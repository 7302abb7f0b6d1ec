"""Two runs are aligned by what was done; the first divergence is the first different deed, not the first other word."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from hypothesis import given, settings, strategies as st

from capataz.events.facts import (
    Call,
    Event,
    Fact,
    ModelReplied,
    RunEnded,
    RunStarted,
    ToolFinished,
)
from capataz.lens.diff import diff
from capataz.lens.lcs import common


def length(a: str, b: str) -> int:
    """The length of the longest common subsequence, by the book."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b, 1):
            row[j] = before[j - 1] + 1 if x == y else max(before[j], row[j - 1])
    return row[-1]


@given(st.text("abc", max_size=30), st.text("abc", max_size=30))
@settings(max_examples=300, deadline=None)
def test_what_is_common_is_common_in_order_and_as_long_as_can_be(a: str, b: str) -> None:
    pairs = common(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert pairs == sorted(set(pairs))
    assert all(first[0] < second[0] and first[1] < second[1] for first, second in pairwise(pairs))
    assert len(pairs) == length(a, b)


def run(*steps: Any, outcome: str = "answered", task: str = "t") -> list[Event]:
    facts: list[Fact] = [RunStarted("r", "a", task)]
    for turn, step in enumerate(steps, 1):
        if isinstance(step, str):
            facts.append(ModelReplied(turn, 0, step))
            continue
        call = Call(turn, 0, f"c{turn}", step[0], step[1])
        facts += [ModelReplied(turn, 0, "", (call,)), ToolFinished(call, step[2])]
    facts.append(RunEnded(outcome, outcome))  # type: ignore[arg-type]
    return [Event(seq, float(seq), fact) for seq, fact in enumerate(facts)]


LOOK = ("find_order", {"order": "81"}, {"order": {"id": "81", "total": 93.5, "lines": [1, 2]}})
REFUND = ("refund", {"order": "81", "cents": 9350}, "ok")


def test_the_same_run_twice_does_not_part() -> None:
    assert diff(run(LOOK, REFUND, "Done."), run(LOOK, REFUND, "Done.")).same


def test_other_words_are_no_parting_but_are_told() -> None:
    found = diff(run(LOOK, REFUND, "Done."), run(LOOK, REFUND, "All done."))
    assert found.divergence is None
    assert found.words is not None
    assert found.rows[found.words].changes[0].a == "Done."


def test_the_first_different_value_of_a_result_is_named_by_its_path() -> None:
    other = ("find_order", {"order": "81"}, {"order": {"id": "81", "total": 39.5, "lines": [1, 3]}})
    found = diff(run(LOOK, REFUND, "Done."), run(other, REFUND, "Done."))
    assert found.divergence is not None
    row = found.rows[found.divergence]
    assert [(change.path, change.a, change.b) for change in row.changes] == [
        ("order.total", "93.5", "39.5"),
        ("order.lines[1]", "2", "3"),
    ]


def test_the_same_number_written_otherwise_is_the_same() -> None:
    assert diff(run(("f", {"n": 100.0, "a": 1}, 1.0)), run(("f", {"a": 1, "n": 100}, 1))).same


def test_an_inserted_step_moves_nothing_else() -> None:
    found = diff(run(LOOK, REFUND, "Done."), run(LOOK, ("policy", {}, "yes"), REFUND, "Done."))
    assert [row.sign for row in found.rows] == ["same", "same", "new", "same", "same", "same"]
    assert found.divergence == 2


def test_other_arguments_of_the_same_tool_stand_side_by_side() -> None:
    found = diff(run(LOOK, REFUND), run(LOOK, ("refund", {"order": "81", "cents": 3950}, "ok")))
    assert found.divergence is not None
    row = found.rows[found.divergence]
    assert row.sign == "differs"
    assert row.a is not None
    assert row.b is not None
    assert (row.a.tool, row.b.tool) == ("refund", "refund")
    assert "3950" in str(row.changes[0].b)


def test_another_end_is_a_parting() -> None:
    found = diff(run(LOOK), run(LOOK, outcome="aborted"))
    assert found.divergence is not None
    assert found.rows[found.divergence].a is not None


def test_long_runs_are_compared_in_a_moment() -> None:
    a = run(*[("f", {"n": n}, n) for n in range(4000)])
    b = run(*[("f", {"n": n + n % 7}, n) for n in range(4000)])
    began = time.process_time()
    found = diff(a, b)
    assert found.divergence is not None
    assert time.process_time() - began < 10
