"""A fresh log for every test."""

from __future__ import annotations

import pytest

from tests.guards.story import Log


@pytest.fixture
def log() -> Log:
    return Log()
