"""The list of runs: every run on one page of it and only one, whenever it began; and what no worker has begun yet."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from urllib.parse import urlencode

from starlette.testclient import TestClient

from capataz import App
from capataz.events.facts import Event, RunStarted
from capataz.ports import Job
from capataz.runtime.handle import queue_of
from capataz.stores.sqlite import SqliteStore
from tests.web.conftest import CANARY, as_caller


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


def queued(client: TestClient, **more: object) -> str:
    got = client.post("/api/v1/runs", json={"agent": "support", "task": "Refund W-8181", **more})
    assert got.status_code == 202
    return str(got.json()["run"])


def test_what_no_worker_has_begun_stands_on_top_as_queued(client: TestClient, tmp_path: Path) -> None:
    begun = recorded(tmp_path, 2)
    first, later = queued(client), queued(client, task_type="odd", delay=3600)
    told = client.get("/api/v1/runs").json()
    assert [row["run"] for row in told["runs"]] == begun[::-1]
    assert [(row["run"], row["status"]) for row in told["queued"]] == [(later, "queued"), (first, "queued")]
    text = client.get("/").text
    assert text.count('<span class="chip quiet">queued</span>') == 2
    assert text.count("not before") == 1
    assert text.index(later) < text.index(first) < text.index(begun[1])
    assert [row["run"] for row in client.get("/api/v1/runs?task_type=odd").json()["queued"]] == [later]
    assert [row["run"] for row in client.get("/api/v1/runs?limit=1").json()["queued"]] == [later]
    for asked in ("outcome=running", "before=1", "agent=other"):
        assert client.get(f"/api/v1/runs?{asked}").json()["queued"] == []


def test_a_run_that_was_called_off_or_has_a_log_is_not_queued(client: TestClient, app: App, tmp_path: Path) -> None:
    off, [begun, *_] = queued(client), recorded(tmp_path, 1)
    assert client.post(f"/api/v1/runs/{off}/cancel", json={}).status_code == 202
    asyncio.run(_enqueued(app.store_url, begun))
    assert client.get("/api/v1/runs").json()["queued"] == []


async def _enqueued(url: str, run: str) -> None:
    async with App(url) as own:
        await queue_of(own.store).enqueue(Job(run, "support", "t"))


def test_a_tenant_sees_its_own_queued_runs_alone(guarded: TestClient) -> None:
    theirs = guarded.post(
        "/api/v1/runs", json={"agent": "support", "task": f"secret of {CANARY}"}, headers=as_caller("worker")
    ).json()["run"]
    own = guarded.post("/api/v1/runs", json={"agent": "support", "task": "t"}, headers=as_caller("acme")).json()["run"]
    seen = guarded.get("/api/v1/runs", headers=as_caller("acme")).json()["queued"]
    assert [row["run"] for row in seen] == [own]
    told = guarded.get("/api/v1/runs", headers=as_caller("reader"))
    assert [row["run"] for row in told.json()["queued"]] == [own, theirs]
    assert CANARY not in told.text
