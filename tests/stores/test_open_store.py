"""A URL names a store; anything else is a mistake that says what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from capataz.mistakes import Misuse
from capataz.stores.memory import MemoryStore
from capataz.stores.open import open_store
from capataz.stores.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///capataz.db", "capataz.db"),
        ("sqlite:///logs/my%20runs.db", "logs/my runs.db"),
        ("sqlite:////var/lib/capataz.db", "/var/lib/capataz.db"),
    ],
)
def test_a_file(url: str, path: str) -> None:
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    assert store.path == Path(path)


@pytest.mark.parametrize("url", ["memory:", "memory://"])
def test_memory(url: str) -> None:
    assert isinstance(open_store(url), MemoryStore)


@pytest.mark.parametrize(
    "url", ["", "capataz.db", "sqlite:", "sqlite://", "sqlite:///", "sqlite:////", "sqlite://host/x.db", "mysql://x"]
)
def test_anything_else_says_what_to_write(url: str) -> None:
    with pytest.raises(Misuse, match="sqlite:///"):
        open_store(url)


@pytest.mark.parametrize("url", ["postgresql://host/db", "postgres://host/db"])
def test_postgresql_is_not_there_yet_and_that_is_said(url: str) -> None:
    with pytest.raises(Misuse, match="no PostgreSQL store yet"):
        open_store(url)
