"""A server with a store, a clock of its own and a client that keeps the browser's manners."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from capataz import Agent, App, tool
from capataz.testing.scripted import FakeClock, ScriptedModel, calls, says
from capataz.web.build import build
from capataz.web.site import Site, site_for
from capataz.web.tokens import Tokens, read_tokens

CANARY = "canary.bird@example.com"
KEY = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3dEf6h"
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"
TOKENS = """
# who        what     whose
reader-token-000000000 read
worker-token-000000000 operate
master-token-000000000 admin
acme-token-00000000000 operate acme
"""


def tokens() -> Tokens:
    return read_tokens(TOKENS, "test")


def as_caller(name: str) -> dict[str, str]:
    """The header of one of the tokens: reader, worker, master, acme."""
    token = next(line.split()[0] for line in TOKENS.splitlines() if line.startswith(name))
    return {"authorization": f"Bearer {token}"}


class Shop:
    """Tools whose texts are hostile and full of what must not be shown."""

    def __init__(self) -> None:
        self.refunds: list[str] = []

    def agent(self, *steps: Any) -> Agent:
        @tool(kind="read")
        def find_order(order: str) -> dict[str, Any]:
            """Look an order up."""
            return {"order": order, "total": 93.5, "mail": CANARY, "key": KEY, "note": HOSTILE}

        @tool(kind="write", target="order", confirm=lambda order, **_: order in self.refunds)
        def refund(order: str, cents: int) -> str:
            """Pay it back."""
            self.refunds.append(order)
            return "ok"

        @tool(kind="write", target="order", approve=True, confirm=lambda order, **_: order in self.refunds)
        def erase(order: str, mail: str) -> str:
            """Erase a customer."""
            self.refunds.append(order)
            return f"erased {mail}"

        return Agent("support", ScriptedModel(*steps), [find_order, refund, erase], f"Help. {CANARY} {HOSTILE}")


GOOD = (
    calls(("find_order", {"order": "W-8181"}), text=f"I look for {CANARY} {HOSTILE}"),
    calls(("refund", {"order": "W-8181", "cents": 9350})),
    says(f"Refunded 93.50, {CANARY} knows. {HOSTILE}"),
)
LOOPING = (calls(("find_order", {"order": "W-77"})),)
ASKING = (calls(("erase", {"order": "W-9", "mail": CANARY})), says("Erased."))


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(f"sqlite:///{tmp_path}/log.db")


@pytest.fixture
def record(app: App, shop: Shop) -> Callable[..., str]:
    """Runs a script to its end and gives the run's id."""

    def run(*steps: Any, task: str = f"Refund W-8181 for {CANARY} {HOSTILE}", **more: Any) -> str:
        return app.run(shop.agent(*steps), task, **more).run

    return run


@pytest.fixture
def site(app: App, shop: Shop) -> Site:
    return site_for(app, (shop.agent(*GOOD),))


@pytest.fixture
def client(site: Site) -> Iterator[TestClient]:
    with TestClient(build(site), base_url="http://127.0.0.1:8321") as client:
        yield client


@pytest.fixture
def guarded(app: App, shop: Shop) -> Iterator[TestClient]:
    """The same with tokens."""
    site = site_for(app, (shop.agent(*GOOD),), tokens=tokens())
    with TestClient(build(site), base_url="http://127.0.0.1:8321") as client:
        yield client


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def mark_of(text: str) -> str:
    """The mark in the first form of a page."""
    found = re.search(r'name="mark" value="([0-9a-f]+)"', text)
    assert found is not None
    return found.group(1)
