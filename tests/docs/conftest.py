"""A provider for the examples that name a real model: the local worker, behind the address a user would set.

The examples stay what a reader would write; only two variables of the environment say where the provider is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from capataz.testing.script import Script, say, use
from capataz.testing.worker import UnreliableWorker

START_SECONDS = 20

REFUNDS = Script(
    (use("find_order", order_id="81"), use("refund", order_id="81", cents=1250), say("Your lamp is refunded.")),
)
SCRIPTS = {"claude-sonnet-4-6": REFUNDS}
"""What each model named in the documentation does there."""


class Provider:
    """The worker in a thread of its own, since a page's code runs event loops itself."""

    def __init__(self) -> None:
        self.worker = UnreliableWorker(SCRIPTS)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    async def _serve(self) -> None:
        async with self.worker:
            self._ready.set()
            await self._over.wait()

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(START_SECONDS)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(START_SECONDS)
        self._loop.close()


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[UnreliableWorker]:
    """Requests that no real provider would take fail the test."""
    running = Provider()
    running.start()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", running.worker.url("anthropic"))
    monkeypatch.setenv("OPENAI_BASE_URL", running.worker.url("openai"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    try:
        yield running.worker
    finally:
        running.stop()
    assert not running.worker.violations
