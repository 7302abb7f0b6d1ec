"""The list of runs: every run on one page of it and only one, whenever it began; and what no worker has begun yet."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from urllib.parse import urlencode

from starlette.testclient import TestClient

from capataz.events.facts import Event, RunStarted
from capataz.stores.sqlite import SqliteStore


async def _recorded(path: Path, count: int, agent: str) -> list[str]:
    """Runs that begin by threes at one moment."""
    store = SqliteStore(path)
    names = [f"{agent}{n:04}" for n in range(count)]
    for n, name in enumerate(names):
        store.append(await store.claim(name, "w"), 0, [Event(0, float(n // 3), RunStarted(name, agent, "t"))])
    await store.close()
    return names


def recorded(path: Path, count: int, agent: str = "a") -> list[str]:
    return asyncio.run(_recorded(path / "log.db", count, agent))


def walked(client: TestClient, limit: int, **asked: str) -> list[list[str]]:
    pages, cursor = list[list[str]](), dict[str, str]()
    while len(pages) < 50:
        told = client.get(f"/api/v1/runs?{urlencode({'limit': limit, **asked, **cursor})}").json()
        pages.append([row["run"] for row in told["runs"]])
        if told["next"] is None:
            break
        cursor = told["next"]
    return pages


def test_runs_begun_at_one_moment_are_neither_skipped_nor_told_twice(client: TestClient, tmp_path: Path) -> None:
    names = recorded(tmp_path, 20)
    pages = walked(client, 4)
    assert [len(page) for page in pages] == [4] * 5
    assert [run for page in pages for run in page] == names[::-1]
    assert [run for page in walked(client, 50) for run in page] == names[::-1]


def test_a_page_begins_strictly_before_a_bare_time(client: TestClient, tmp_path: Path) -> None:
    names = recorded(tmp_path, 9)
    assert [row["run"] for row in client.get("/api/v1/runs?before=2").json()["runs"]] == names[5::-1]
    assert client.get("/api/v1/runs?before_run=a0001").status_code == 422


def test_a_filter_that_few_of_many_fit_goes_on_where_looking_ended(client: TestClient, tmp_path: Path) -> None:
    [rare] = recorded(tmp_path, 1, "rare")
    recorded(tmp_path, 2_050, "b")
    asked = {"q": "rare"}
    first = client.get(f"/?{urlencode(asked)}").text
    assert rare not in first
    assert "among those looked through" in first
    older = re.search(r'href="(/\?[^"]*)" rel="next"', first)
    assert older is not None
    assert rare in client.get(older.group(1).replace("&amp;", "&")).text


def test_the_list_in_the_browser_has_every_run_once(client: TestClient, tmp_path: Path) -> None:
    names, seen, address = recorded(tmp_path, 120), list[str](), "/"
    while True:
        text = client.get(address).text
        seen += re.findall(r'<a href="/runs/(a\d+)"', text)
        older = re.search(r'href="(/\?[^"]*)" rel="next"', text)
        if older is None:
            break
        address = older.group(1).replace("&amp;", "&")
    assert seen == names[::-1]
