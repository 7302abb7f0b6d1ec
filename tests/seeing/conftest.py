"""One recorded run, looked at in every way there is: spans, metrics, the pages of the real site, and alerts."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from capataz import App
from capataz.cli.main import main
from capataz.lens.alerts.rules import read
from capataz.web.build import build
from capataz.web.site import site_for
from tests.telemetry.conftest import Received, received

__all__ = ["received"]

RULES = """
[[rules]]
name = "a loop"
metric = "loop_rate"
over = 0.05
at_least = 1
agent = "clerk"

[[rules]]
name = "a spike"
metric = "tokens_per_minute"
over = 50_000

[[rules]]
name = "a hang"
metric = "hang_rate"
over = 0.02
at_least = 1

[[rules]]
name = "talk"
metric = "empty_turn_rate"
over = 0.0
at_least = 3

[[rules]]
name = "a burst"
metric = "retry_burst"
over = 2
"""
"""Rules of a user's own: those that are built in wait for fifty runs."""


class Seen:
    """A store on disk, what a receiver of spans got, and what people and programs are shown afterwards."""

    def __init__(self, folder: Path, received: Received) -> None:
        self.url, self.rules, self.received = f"sqlite:///{folder / 'runs.db'}", folder / "rules.toml", received
        self.rules.write_text(RULES, encoding="utf-8")

    def record(self, story: Callable[[App], Awaitable[str]], **settings: Any) -> str:
        """Live through a story in an App of its own; the id of the run it is about."""

        async def live() -> str:
            async with App(self.url, telemetry=self.received.watch(), **settings) as app:
                return await story(app)

        return asyncio.run(live())

    def get(self, address: str) -> str:
        """A page of the site, which has only the store and the rules to go by."""
        site = site_for(App(self.url), rules=read(self.rules.read_text(encoding="utf-8")))
        site.closes = True
        with TestClient(build(site), base_url="http://127.0.0.1:8321") as client:
            answer = client.get(address)
        assert answer.status_code == 200
        return answer.text

    def glance(self, run: str) -> str:
        """What stands in the first box of a run's page, above everything else, as text."""
        [box] = re.findall(r'<section class="why.*?</section>', self.get(f"/runs/{run}"), re.DOTALL)
        return _text(box)

    def firing(self) -> dict[str, str]:
        """The rules that fire, each with its words and runs, as the page of alerts has them."""
        articles = re.findall(r'<article class="wait .*?</article>', self.get("/alerts"), re.DOTALL)
        assert len(articles) == len(read(RULES))
        told = [_text(article) for article in articles]
        return {name: words for name in re.findall(r'name = "(.*?)"', RULES) for words in told
                if words.startswith(f"firing {name} ")}  # fmt: skip

    def told(self) -> dict[str, list[str]]:
        """The rules that fire, with their runs, as `capataz alerts` and the API have them."""
        words = ("alerts", "list", "--store", self.url, "--rules", str(self.rules), "--json")
        done = CliRunner().invoke(main, list(words))
        assert done.exit_code == 0, done.output
        by_command, by_api = json.loads(done.stdout), json.loads(self.get("/api/v1/alerts"))["alerts"]
        firing = [one for one in by_command if one["state"] == "firing"]
        assert [one["rule"] for one in by_api if one["state"] == "firing"] == [one["rule"] for one in firing]
        return {one["rule"]: one["runs"] for one in firing}


def _text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


@pytest.fixture
def seen(tmp_path: Path, received: Received) -> Seen:
    return Seen(tmp_path, received)
