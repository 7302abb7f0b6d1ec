"""What the tests of privacy share: one mask, and the published set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capataz.privacy.mask import Mask

DATA = Path(__file__).resolve().parent.parent / "data" / "privacy"


@pytest.fixture(scope="session")
def mask() -> Mask:
    return Mask()


def lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


@pytest.fixture(scope="session")
def made() -> list[dict[str, str]]:
    """The half that a script makes from frames and values."""
    return lines("positives.jsonl")


@pytest.fixture(scope="session")
def positives(made: list[dict[str, str]]) -> list[dict[str, str]]:
    """All of it, with what was written by hand afterwards."""
    return [*made, *lines("more_positives.jsonl")]


@pytest.fixture(scope="session")
def negatives() -> list[str]:
    return [row["text"] for row in (*lines("negatives.jsonl"), *lines("more_negatives.jsonl"))]
