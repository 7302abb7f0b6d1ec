"""The API: what is submitted once is done once, what goes on is followed, what does not fit is a problem in words."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from capataz.app import App
from capataz.events.facts import Event, RunStarted
from capataz.runtime.inbox import read_waiting
from capataz.web.openapi import OPERATIONS, document
from capataz.web.site import Site
from tests.web.conftest import ASKING, GOOD, Shop

Record = Callable[..., str]
TASK = {"agent": "support", "task": "Refund W-8181", "task_type": "refund"}


def submitted(client: TestClient, key: str | None = None, **more: Any) -> Any:
    headers = {} if key is None else {"idempotency-key": key}
    return client.post("/api/v1/runs", json={**TASK, **more}, headers=headers)


def work(app: App, shop: Shop) -> None:
    """A worker drives what is queued."""

    async def drive() -> None:
        async with App(app.store_url) as own:
            await own.worker(shop.agent(*GOOD)).work(until_idle=True)

    asyncio.run(drive())


def test_a_task_is_submitted_driven_and_followed_to_its_evidence(client: TestClient, app: App, shop: Shop) -> None:
    got = submitted(client)
    assert got.status_code == 202
    run = got.json()["run"]
    assert got.headers["location"] == f"/api/v1/runs/{run}"
    assert client.get(f"/api/v1/runs/{run}").json()["status"] == "queued"
    thread = threading.Thread(target=work, args=(app, shop))
    thread.start()
    thread.join(30)
    told = client.get(f"/api/v1/runs/{run}").json()
    assert (told["status"], told["outcome"], told["queue"]) == ("ended", "completed", "done")
    assert told["evidence"][0]["what"] == "effect"
    assert shop.refunds == ["W-8181"]
    stream = client.get(f"/api/v1/runs/{run}/events", headers={"accept": "text/event-stream"}).text
    assert "event: RunStarted" in stream
    assert stream.rstrip().endswith("data: {}")
    later = client.get(f"/api/v1/runs/{run}/events", headers={"accept": "text/event-stream", "last-event-id": "4"}).text
    assert "id: 4\n" not in later
    assert "id: 5\n" in later


def test_the_same_key_is_the_same_run_and_another_task_under_it_is_refused(client: TestClient) -> None:
    first = submitted(client, "k1").json()["run"]
    assert submitted(client, "k1").json()["run"] == first
    assert submitted(client, "k2").json()["run"] != first
    assert submitted(client).json()["run"] != first
    got = submitted(client, "k1", task="something else")
    assert got.status_code == 422
    assert first in got.json()["detail"]


@pytest.mark.parametrize("more", [{"priority": 5}, {"task_type": "other"}, {"agent": "helper"}])
def test_a_key_stands_for_all_that_was_asked(site: Site, client: TestClient, shop: Shop, more: dict[str, Any]) -> None:
    site.agents["helper"] = shop.agent(*GOOD)
    first = submitted(client, "k1", priority=1).json()["run"]
    assert submitted(client, "k1", priority=1, delay=5).json()["run"] == first
    got = submitted(client, "k1", **{"priority": 1, **more})
    assert (got.status_code, got.headers["content-type"]) == (422, "application/problem+json")
    assert first in got.json()["detail"]


def test_a_key_of_a_run_that_is_over_says_so_in_the_words_for_runs(client: TestClient, app: App, shop: Shop) -> None:
    off = submitted(client, "off").json()["run"]
    client.post(f"/api/v1/runs/{off}/cancel", json={})
    assert submitted(client, "off").json() == {"run": off, "status": "ended"}
    later = submitted(client, "later", delay=3600).json()
    assert later["status"] == "queued"
    done = submitted(client, "done").json()["run"]
    thread = threading.Thread(target=work, args=(app, shop))
    thread.start()
    thread.join(30)
    assert submitted(client, "done").json() == {"run": done, "status": "ended"}


def test_a_queued_run_is_called_off_once(client: TestClient) -> None:
    run = submitted(client).json()["run"]
    assert client.post(f"/api/v1/runs/{run}/cancel", json={}).status_code == 202
    told = client.get(f"/api/v1/runs/{run}").json()
    assert (told["status"], told["outcome"], told["reason"]) == ("ended", "aborted", "cancelled")
    again = client.post(f"/api/v1/runs/{run}/cancel", json={"reason": "once more"})
    assert again.status_code == 409
    assert "called off before" in again.json()["detail"]
    assert client.get(f"/api/v1/runs/{run}").json() == told


def test_a_run_that_no_worker_has_begun_is_followed_from_the_start(client: TestClient, app: App, shop: Shop) -> None:
    run = submitted(client).json()["run"]
    assert client.get(f"/api/v1/runs/{run}/events").json() == {"run": run, "events": [], "next": None}
    page = client.get(f"/runs/{run}").text
    assert "It waits in the queue" in page
    assert "Call it off" in page
    thread = threading.Timer(0.5, work, args=(app, shop))
    thread.start()
    stream = client.get(f"/api/v1/runs/{run}/events", headers={"accept": "text/event-stream"}).text
    thread.join(30)
    assert "event: RunStarted" in stream
    assert stream.rstrip().endswith("data: {}")
    assert "Call it off" not in client.get(f"/runs/{run}").text


def test_why_a_run_is_called_off_is_kept_and_shown(client: TestClient) -> None:
    run = submitted(client).json()["run"]
    assert client.post(f"/api/v1/runs/{run}/cancel", json={"reason": "asked twice"}).status_code == 202
    assert client.get(f"/api/v1/runs/{run}").json()["detail"] == "called off by local: asked twice"
    assert "asked twice" in client.get(f"/runs/{run}").text
    ended = client.get(f"/api/v1/runs/{run}/events", headers={"accept": "text/event-stream"}).text
    assert ended.startswith("id: -1\nevent: end")
    assert client.get("/api/v1/runs/nothing/events").status_code == 404


def test_a_run_nobody_submitted_is_not_offered_to_be_called_off(client: TestClient, app: App) -> None:
    async def begin() -> None:
        async with App(app.store_url) as own:
            await own.store.append(
                await own.store.claim("by-hand", "me"), 0, [Event(0, 1.0, RunStarted("by-hand", "a", "t"))]
            )

    asyncio.run(begin())
    page = client.get("/runs/by-hand").text
    assert "It has not ended" in page
    assert "Call it off" not in page


def test_an_answer_resumes_what_waits(client: TestClient, app: App, record: Record) -> None:
    run = record(*ASKING)
    [item] = client.get("/api/v1/inbox").json()["waiting"]
    assert item["approval"]["arguments"] == {"order": "W-9", "mail": "<EMAIL>"}
    wrong = client.post(f"/api/v1/inbox/{run}", json={"action": "retry"})
    assert wrong.status_code == 409
    good = client.post(f"/api/v1/inbox/{run}", json={"action": "approve", "digest": item["approval"]["digest"]})
    assert good.status_code == 200
    assert read_waiting(asyncio.run(app.store.read(run))) is None
    assert client.post(f"/api/v1/inbox/{run}", json={"action": "abort"}).status_code == 409
    assert client.get(f"/api/v1/inbox/{run}").status_code == 404


def test_events_are_paged(client: TestClient, record: Record) -> None:
    run, found, after = record(*GOOD), list[int](), -1
    while after is not None:
        page = client.get(f"/api/v1/runs/{run}/events?limit=3&after={after}").json()
        found += [event["seq"] for event in page["events"]]
        after = page["next"]
    assert found == list(range(client.get(f"/api/v1/runs/{run}").json()["events"]))


def test_turns_are_paged(client: TestClient, record: Record) -> None:
    run = record(*GOOD)
    page = client.get(f"/api/v1/runs/{run}/trace?turn=1&count=1").json()
    assert (page["of"], len(page["turns"]), page["turns"][0]["calls"][0]["tool"]) == (3, 1, "refund")


@pytest.mark.parametrize(
    ("method", "path", "given", "status"),
    [
        ("GET", "/api/v1/runs?limit=0", None, 422),
        ("GET", "/api/v1/runs?limit=x", None, 422),
        ("GET", "/api/v1/runs?outcome=nice", None, 422),
        ("GET", "/api/v1/runs?before=nan", None, 422),
        ("GET", "/api/v1/runs/none", None, 404),
        ("GET", "/api/v1/nothing", None, 404),
        ("DELETE", "/api/v1/runs", None, 405),
        ("POST", "/api/v1/runs", b"{", 400),
        ("POST", "/api/v1/runs", b"[]", 422),
        ("POST", "/api/v1/runs", {"agent": "support"}, 422),
        ("POST", "/api/v1/runs", {"agent": "support", "task": " "}, 422),
        ("POST", "/api/v1/runs", {"agent": "support", "task": "x", "mine": 1}, 422),
        ("POST", "/api/v1/runs", {"agent": "nobody", "task": "x"}, 422),
        ("POST", "/api/v1/runs", {"agent": "support", "task": "x", "priority": True}, 422),
        ("POST", "/api/v1/runs/none/cancel", {}, 404),
        ("POST", "/api/v1/inbox/none", {"action": "abort"}, 404),
        ("POST", "/api/v1/inbox/none", {"action": "fly"}, 422),
        ("POST", "/v1/traces", b"x", 400),
    ],
)
def test_what_does_not_fit_is_a_problem_in_words(
    client: TestClient, method: str, path: str, given: Any, status: int
) -> None:
    content = given if isinstance(given, bytes) else json.dumps(given).encode()
    got = client.request(method, path, content=content, headers={"content-type": "application/json"})
    assert got.status_code == status
    assert got.headers["content-type"] == "application/problem+json"
    told = got.json()
    assert told["status"] == status
    assert told["title"]
    assert "Traceback" not in got.text


def test_another_kind_of_content_is_refused(client: TestClient) -> None:
    assert client.post("/api/v1/runs", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    assert client.post("/v1/traces", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415


def test_the_document_names_every_operation_and_the_page_shows_them(client: TestClient) -> None:
    told = client.get("/api/openapi.json").json()
    assert told == json.loads(json.dumps(document()))
    page = client.get("/api").text
    for each in OPERATIONS:
        assert each.method.lower() in told["paths"][each.path]
        assert each.path in page


def test_diff_fork_value_metrics_and_alerts_are_there_for_programs(
    client: TestClient, record: Record, shop: Shop
) -> None:
    a = record(*GOOD)
    shop.refunds.clear()
    b = record(GOOD[0], GOOD[2])
    found = client.get(f"/api/v1/diff?a={a}&b={b}").json()
    assert found["rows"][found["divergence"]]["sign"] == "gone"
    assert client.get(f"/api/v1/runs/{a}/value?v=9350").json()["source"] is None
    assert client.get(f"/api/v1/runs/{a}/value?v=93.5").json()["source"] == 4
    assert client.get("/api/v1/metrics?by=tool").json()["tool"]["refund"]["calls"] == 1
    assert client.get("/api/v1/alerts").json()["alerts"]
    assert "capataz_runs_total" in client.get("/metrics").text
    forked = client.post(f"/api/v1/runs/{a}/fork", json={"step": 4, "result": None})
    assert forked.status_code == 202
    assert client.post(f"/api/v1/runs/{a}/fork", json={"step": 4000}).status_code == 422
    report = client.post("/api/v1/diagnose", content=b'{"messages": []}')
    assert report.status_code == 200
