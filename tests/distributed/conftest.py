"""The servers these tests need, one of each for the session, and a database of its own for every test.

They run with `make test-distributed`, not with `make test`: starting servers and killing workers takes minutes.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import psycopg
import pytest

from capataz.testing.servers import Missing, PostgresServer, postgres_server, temporal_server

ASKED = bool(os.environ.get("CAPATAZ_DISTRIBUTED"))
_numbers = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not ASKED:
        for item in items:
            if "distributed" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason="needs servers: run make test-distributed"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    try:
        with postgres_server() as server:
            yield server
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def temporal() -> Iterator[str]:
    try:
        with temporal_server() as address:
            yield address
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """The URL of a fresh, empty database."""
    return fresh(postgres)


def fresh(postgres: PostgresServer) -> str:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy".encode())
    return postgres.url(name)
