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


@pytest.fixture(scope="session")
def positives() -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / "positives.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="session")
def negatives() -> list[str]:
    return [json.loads(line)["text"] for line in (DATA / "negatives.jsonl").read_text("utf-8").splitlines()]
