"""A URL names a store; anything else is a mistake that says what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from capataz.mistakes import Misuse
from capataz.stores.memory import MemoryStore
from capataz.stores.open import open_store
from capataz.stores.postgres import PostgresStore
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


@pytest.mark.parametrize("url", ["postgresql://host/db", "postgres://ana:secret@host/db"])
def test_a_server(url: str) -> None:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    assert repr(store) == "PostgresStore(postgresql://host:5432/db)"


@pytest.mark.parametrize("url", ["postgresql://ana:se@cret@host/db", "postgresql://ana:se/cret@host/db", "postgresql:"])
def test_a_server_that_cannot_be_made_out_says_how_to_write_it_and_no_password(url: str) -> None:
    with pytest.raises(Misuse, match="write postgresql://") as raised:
        open_store(url)
    assert "cret" not in str(raised.value)
