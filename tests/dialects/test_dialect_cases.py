"""Every case of the dialect files, through the real pure functions."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from capataz.events.facts import Fault
from capataz.policy.table import FaultTable
from tests.dialects.answers import answered, is_outcome, row_of
from tests.dialects.given import Case, profile_of
from tests.dialects.wires import strict, wire

HERE = Path(__file__).parent.parent / "data" / "cases"
MORE = os.environ.get("CAPATAZ_DIALECT_CASES")
"""A further file of the same form, tried beside ours where it is named."""
LONG = 60.0
"""A wait that no slot is kept for."""


def load() -> list[Case]:
    files = [*sorted(HERE.glob("dialect_*.json")), *([Path(MORE)] if MORE else [])]
    found: dict[str, Case] = {}
    for file in files:
        found.update({case["id"]: case for case in orjson.loads(file.read_bytes())})
    return list(found.values())


CASES = load()


def of(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case", [c for c in CASES if c["expected"]["kind"] == kind], ids=lambda case: case["id"]
    )


def test_there_are_cases_of_every_kind() -> None:
    assert {case["expected"]["kind"] for case in CASES} == {"wire", "response", "error"}


@of("wire")
def test_what_leaves(case: Case) -> None:
    made = wire(case)
    assert strict(made.data, made.profile, made.request.model) == []
    for name, *args in case["expected"]["checks"]:
        made.check(name, *args)


@of("response")
def test_what_an_answer_means(case: Case) -> None:
    expected, found = case["expected"], answered(case)
    assert is_outcome(case, expected["outcome"], found), found
    if "calls" in expected:
        assert not isinstance(found, Fault)
        assert len(found.calls) == expected["calls"]
    if "row" in expected:
        assert row_of(case, found) == expected["row"], found
    for name in expected.keys() & {"input", "output", "input_tokens", "output_tokens"}:
        assert not isinstance(found, Fault)
        assert getattr(found.usage, name.removesuffix("_tokens")) == expected[name]


@of("error")
def test_what_an_error_means(case: Case) -> None:
    expected, found = case["expected"], answered(case)
    assert isinstance(found, Fault), found
    assert found.row == expected["row"], found
    assert (FaultTable().retries(found) > 0) == expected["same_request_may_be_retried"], found
    if "wait_s" in expected:
        assert found.wait == pytest.approx(expected["wait_s"])
    if "release_slot" in expected:
        assert ((found.wait or 0) > LONG) == expected["release_slot"]


def test_the_profile_of_every_case_is_known() -> None:
    assert all(profile_of(case).name for case in CASES)
