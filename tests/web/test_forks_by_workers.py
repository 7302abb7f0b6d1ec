"""A fork asked for on a page or by a program is driven by a worker, as any other run, where there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from capataz import App
from capataz.events.facts import RunStarted
from capataz.runtime.handle import Handle, engine_of, queue_of
from capataz.runtime.shift import Terms
from capataz.runtime.watchdog import Pace
from capataz.testing.scripted import ScriptedModel, says
from capataz.web.build import build
from capataz.web.site import site_for
from tests.web.conftest import GOOD, Shop, mark_of

BRISK = Terms(2, pace=Pace(beat=0.2, poll=0.02, drain=5.0))


def with_worker(url: str, agent: Any, ask: Callable[[TestClient], list[str]]) -> list[str]:
    """Ask a server that has no agent of its own, while a worker with this one is at work; the runs it drove."""

    async def story() -> list[str]:
        async with App(url) as app:
            shift = app.worker(agent, terms=BRISK)
            working = asyncio.create_task(shift.work())
            while not await queue_of(app.store).workers():  # noqa: ASYNC110 - a thread of its own writes it
                await asyncio.sleep(0.02)
            runs = await asyncio.to_thread(served, url, ask)
            for run in runs:
                await Handle(run, app.store, engine_of(app.store)).await_(timeout=20)
            shift.stop()
            await working
        return runs

    return asyncio.run(story())


def served(url: str, ask: Callable[[TestClient], list[str]]) -> list[str]:
    site = site_for(App(url))
    site.closes = True
    with TestClient(build(site), base_url="http://127.0.0.1:8321") as client:
        return ask(client)


def test_a_worker_drives_forks_as_their_logs_say(tmp_path: Path, shop: Shop) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    run = App(url).run(shop.agent(*GOOD), "Refund W-8181").run
    shop.refunds.clear()
    agent = shop.agent(says("I refuse."))
    assert isinstance(agent.model, ScriptedModel)

    def ask(client: TestClient) -> list[str]:
        page = client.get(f"/runs/{run}/fork?step=4").text
        fields = {"mark": mark_of(page), "step": "4", "edit_instructions": "yes", "instructions": "Refuse."}
        by_page = client.post(f"/runs/{run}/fork", data=fields, follow_redirects=False)
        assert by_page.status_code == 303, by_page.text
        wanted = {"step": 4, "instructions": "Refuse.", "policy": '[guards]\nrepeating = "observe"\n'}
        by_api = client.post(f"/api/v1/runs/{run}/fork", json=wanted)
        assert by_api.status_code == 202, by_api.text
        wrong = client.post(f"/api/v1/runs/{run}/fork", json={"step": 4, "policy": "[nothing]\n"})
        assert wrong.status_code == 422
        return [by_page.headers["location"].rpartition("/")[2], by_api.json()["run"]]

    for fork in with_worker(url, agent, ask):
        started = asyncio.run(App(url).store.read(fork))[0].fact
        assert isinstance(started, RunStarted)
        assert started.fork is not None
        assert started.fork.dry
    assert {request.system for request in agent.model.requests} == {"Refuse."}
    assert shop.refunds == []


def test_without_a_worker_and_without_the_agent_it_says_what_is_missing(tmp_path: Path, shop: Shop) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    run = App(url).run(shop.agent(*GOOD), "Refund W-8181").run

    def ask(client: TestClient) -> list[str]:
        assert "no worker is there" in client.get(f"/runs/{run}/fork?step=4").text
        refused = client.post(f"/api/v1/runs/{run}/fork", json={"step": 4})
        assert refused.status_code == 422
        return [refused.json()["detail"]]

    assert "capataz worker" in served(url, ask)[0]
