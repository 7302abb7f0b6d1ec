"""Every page: masked, escaped, asking nothing of anyone else; and who may do what, from where."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from capataz import Agent, tool
from capataz.app import App
from capataz.events.facts import RunStarted
from capataz.lens.masked import Shower
from capataz.mistakes import Misuse
from capataz.models.hosts import is_loopback
from capataz.privacy.mask import Mask
from capataz.runtime.inbox import read_waiting
from capataz.testing.scripted import ScriptedModel, calls
from capataz.web.tokens import read_tokens
from tests.web.conftest import ASKING, CANARY, GOOD, HOSTILE, KEY, LOOPING, Shop, as_caller, mark_of, tokens

Record = Callable[..., str]
PAGES = ("/", "/inbox", "/metrics/view", "/alerts", "/diff", "/diagnose", "/api", "/login")


@pytest.fixture
def runs(record: Record, shop: Shop) -> list[str]:
    good = record(*GOOD)
    shop.refunds.clear()
    return [good, record(*LOOPING, task=f"Look at W-77 {CANARY}"), record(*ASKING, task=f"Erase {CANARY}")]


def addresses(runs: list[str]) -> list[str]:
    good, looping, asking = runs
    return [
        *PAGES,
        *(f"/runs/{run}{rest}" for run in runs for rest in ("", "/events/0", "/fork", "/value?v=W-8181", "/page")),
        f"/runs/{good}/events/4",
        f"/runs/{good}/fork?step=4",
        f"/runs/{good}/value?v={CANARY}",
        f"/runs/{good}/value?v=9350",
        f"/runs/{looping}?turn=last",
        f"/runs/{looping}/verdicts/1",
        f"/inbox/{asking}",
        f"/diff?a={good}&b={looping}",
        f"/?q={HOSTILE}&agent={HOSTILE}",
        f"/runs/{good}/value?v={HOSTILE}",
        "/runs/nothing-here",
        "/metrics",
        *(f"/api/v1/runs{rest}" for rest in ("", f"/{good}", f"/{good}/trace", f"/{good}/events", f"/{asking}")),
        *(
            f"/api/v1/{rest}"
            for rest in ("inbox", f"inbox/{asking}", "metrics", "alerts", f"diff?a={good}&b={looping}")
        ),
        f"/api/v1/runs/{good}/value?v={CANARY}",
    ]


def test_nothing_that_must_not_be_shown_is_shown_anywhere_and_nothing_hostile_is_markup(
    client: TestClient, runs: list[str]
) -> None:
    for address in addresses(runs):
        got = client.get(address)
        assert got.status_code in (200, 404), (address, got.status_code, got.text[:300])
        for form in (CANARY, "canary.bird", KEY):
            assert form not in html.unescape(got.text).replace(f"v={CANARY}", ""), address
        if "html" in got.headers["content-type"]:
            assert "<script>alert" not in got.text, address
            assert "<img" not in got.text, address


def test_live_events_are_masked_too(client: TestClient, runs: list[str]) -> None:
    for address in (f"/runs/{runs[0]}/live?after=0", f"/api/v1/runs/{runs[0]}/events"):
        got = client.get(address, headers={"accept": "text/event-stream"})
        assert got.headers["content-type"].startswith("text/event-stream")
        assert "event: end" in got.text
        assert CANARY not in html.unescape(got.text)
        assert KEY not in got.text


def test_pages_ask_nothing_of_any_other_server_and_hold_no_inline_script_or_style(
    client: TestClient, runs: list[str]
) -> None:
    for address in addresses(runs):
        got = client.get(address)
        if "html" not in got.headers["content-type"] or address.endswith("/page"):
            continue
        assert not re.search(r"""(src|href|action)=["'](https?:)?//""", got.text), address
        assert not re.search(r"<style|\sstyle=|\son\w+=\"", got.text), address
        assert set(re.findall(r"<script[^>]*>", got.text)) == {'<script src="/static/capataz.js" defer>'}
        policy = got.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    for file in ("/static/capataz.js", "/static/capataz.css"):
        assert not re.search(r"https?://(?!www\.w3\.org)", client.get(file).text)


def test_why_it_ended_stands_on_top_with_evidence_and_decisions(client: TestClient, runs: list[str]) -> None:
    good = client.get(f"/runs/{runs[0]}").text
    assert good.index("completed") < good.index("Turn by turn")
    assert "evidence for the end" in good
    looping = client.get(f"/runs/{runs[1]}").text
    assert "was called 5 times in a row" in looping
    assert "evidence for verdict 2" in looping
    assert "The model was told:" in looping
    assert 'class="box bad"' in looping, "the decision is drawn where it happened"


def test_a_value_without_a_source_says_so(client: TestClient, runs: list[str]) -> None:
    assert "No source" in client.get(f"/runs/{runs[0]}/value?v=9350").text
    assert "First said from outside" in client.get(f"/runs/{runs[0]}/value?v=93.5").text


def test_the_list_is_filtered_and_paged(client: TestClient, runs: list[str]) -> None:
    assert client.get("/?outcome=partial").text.count('class="task"') == 1
    assert client.get("/?q=erase").text.count('class="task"') == 1
    assert client.get("/?agent=nobody").text.count('class="task"') == 0
    assert "No run" in client.get("/?before=1").text


# ── deeds ────────────────────────────────────────────────────────────────────────────────────────────────


def answered(client: TestClient, run: str, **fields: str) -> Any:
    mark = mark_of(client.get(f"/inbox/{run}").text)
    return client.post(f"/inbox/{run}", data={"mark": mark, **fields}, follow_redirects=False)


def said_on_top(page: str) -> str:
    [word] = re.findall(r'<p class="outcome[^"]*">([a-z]+)', page)
    return str(word)


def waiting(app: App, run: str) -> Any:
    return read_waiting(asyncio.run(app.store.read(run)))


def test_an_approval_is_given_for_exactly_the_call_that_is_shown(client: TestClient, app: App, runs: list[str]) -> None:
    run = runs[2]
    digest = waiting(app, run).approval.digest
    assert answered(client, run, action="approve", digest="of-another").status_code == 422
    assert waiting(app, run) is not None
    assert "waits for approval" in client.get(f"/runs/{run}").text
    assert answered(client, run, action="approve", digest=digest).status_code == 303
    assert said_on_top(client.get(f"/runs/{run}").text) == "running"
    assert waiting(app, run) is None


def test_masked_arguments_that_are_left_alone_stay_what_they_were(
    client: TestClient, app: App, runs: list[str]
) -> None:
    run = runs[2]
    wrong = answered(client, run, action="correct", arguments='{"order": "W-10", "mail": "<EMAIL> "}')
    assert wrong.status_code == 422
    assert "still hold a mask" in html.unescape(wrong.text)
    good = answered(client, run, action="correct", arguments='{"order": "W-10", "mail": "<EMAIL>"}')
    assert good.status_code == 303
    last = asyncio.run(app.store.read(run))[-1].fact
    assert getattr(last, "arguments", None) == {"order": "W-10", "mail": CANARY}


def test_a_call_that_reads_the_other_way_round_is_shown_as_it_is_and_corrected_exactly(
    client: TestClient, app: App
) -> None:
    """Nobody approves what a mark of direction makes of it."""

    @tool(kind="write", approve=True)
    def pay(to: str, cents: int) -> str:
        """Pay."""
        return f"paid {to}"

    turned = "W-\u202e001\u2066"
    agent = Agent("clerk \u202e", ScriptedModel(calls(("pay", {"to": turned, "cents": 5}))), [pay])
    run = app.run(agent, f"Pay {turned}").run
    for page in ("/", "/inbox", f"/runs/{run}", f"/inbox/{run}", f"/runs/{run}/page"):
        shown = client.get(page).text
        assert "W-\ufffd001" in shown
        assert not set(shown) & set("\u202e\u2066"), page
    asking = client.get(f"/inbox/{run}").text
    [shown] = re.findall(r'<textarea name="arguments"[^>]*>(.*?)</textarea>', asking, re.S)
    form = {"mark": mark_of(asking), "action": "correct", "arguments": html.unescape(shown)}
    client.post(f"/inbox/{run}", data=form)
    last = asyncio.run(app.store.read(run))[-1].fact
    assert getattr(last, "arguments", None) == {"to": turned, "cents": 5}


@pytest.mark.parametrize("action", ["reject", "abort"])
def test_other_answers_reach_the_log(client: TestClient, app: App, runs: list[str], action: str) -> None:
    assert answered(client, runs[2], action=action, text="no").status_code == 303
    assert waiting(app, runs[2]) is None


@pytest.mark.parametrize("fields", [{}, {"action": "dance"}, {"action": "correct", "arguments": "{"}])
def test_an_answer_that_does_not_fit_is_said_on_the_page(
    client: TestClient, app: App, runs: list[str], fields: dict[str, str]
) -> None:
    got = answered(client, runs[2], **fields)
    assert got.status_code == 422
    assert "said-bad" in got.text
    assert waiting(app, runs[2]) is not None


def test_a_fork_from_the_page_is_driven_and_does_not_act(
    client: TestClient, app: App, shop: Shop, runs: list[str]
) -> None:
    shop.refunds.clear()
    page = client.get(f"/runs/{runs[0]}/fork?step=4").text
    fields = {"mark": mark_of(page), "step": "4", "edit_result": "yes", "result": '{"state": "unpaid"}'}
    got = client.post(f"/runs/{runs[0]}/fork", data=fields, follow_redirects=False)
    assert got.status_code == 303, got.text
    new = got.headers["location"].rpartition("/")[2]
    until = time.monotonic() + 20
    while client.get(f"/api/v1/runs/{new}").json()["status"] == "running" and time.monotonic() < until:
        time.sleep(0.05)
    shown = client.get(f"/runs/{new}").text
    assert "acts are dry-run" in shown
    assert "dry_run" in shown
    assert shop.refunds == []
    started = asyncio.run(app.store.read(new))[0].fact
    assert isinstance(started, RunStarted)
    assert started.fork is not None
    assert started.fork.step == 4


def test_uploaded_records_are_diagnosed(client: TestClient) -> None:
    chat = '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "done"}]}'
    fields = {"mark": mark_of(client.get("/diagnose").text)}
    got = client.post("/diagnose", data=fields, files={"records": ("../../x.json", chat)})
    assert got.status_code == 200
    assert "sandbox" in got.headers["content-security-policy"]
    assert client.post("/diagnose", data=fields).status_code == 422


# ── rights ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1.evil.example.com", "", "localhost.evil:8321"])
def test_another_name_for_this_server_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost:1", "[::1]:8321", "10.0.0.7"])
def test_addresses_and_loopback_are_this_server(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example.com"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_what_another_page_makes_a_browser_send_is_refused(
    client: TestClient, runs: list[str], headers: dict[str, str]
) -> None:
    for address in (f"/inbox/{runs[2]}", "/api/v1/runs", "/v1/traces", "/diagnose"):
        assert client.post(address, headers=headers, json={}).status_code == 403


def test_a_form_without_the_mark_of_this_browser_is_refused(client: TestClient, app: App, runs: list[str]) -> None:
    mark = mark_of(client.get(f"/inbox/{runs[2]}").text)
    client.cookies.clear()
    for given in ("", "0" * 64, mark):
        got = client.post(f"/inbox/{runs[2]}", data={"action": "approve", "mark": given})
        assert got.status_code == 403
    assert waiting(app, runs[2]) is not None


def test_without_a_token_there_is_only_the_door(guarded: TestClient, runs: list[str]) -> None:
    for address in addresses(runs):
        if address == "/login":
            continue
        got = guarded.get(address, follow_redirects=False)
        assert got.status_code == 401, address
    got = guarded.get("/", headers={"accept": "text/html"}, follow_redirects=False)
    assert (got.status_code, got.headers["location"]) == (303, "/login")
    assert guarded.get("/login").status_code == 200


def test_a_browser_signs_in_and_out(guarded: TestClient, runs: list[str]) -> None:
    mark = mark_of(guarded.get("/login").text)
    assert guarded.post("/login", data={"mark": mark, "token": "wrong"}).status_code == 403
    got = guarded.post("/login", data={"mark": mark, "token": "reader-token-000000000"}, follow_redirects=False)
    assert got.status_code == 303
    cookie = got.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    page = guarded.get("/")
    assert page.status_code == 200
    assert guarded.post("/logout", data={"mark": mark_of(page.text)}).status_code == 200
    assert guarded.get("/").status_code == 401


def test_scopes_bound_what_a_token_may_do(guarded: TestClient, runs: list[str]) -> None:
    reader, worker, master = (as_caller(name) for name in ("reader", "worker", "master"))
    task = {"agent": "support", "task": "x"}
    assert guarded.post("/api/v1/runs", headers=reader, json=task).status_code == 403
    assert guarded.post("/api/v1/runs", headers=worker, json=task).status_code == 202
    assert guarded.post("/v1/traces", headers=reader, json={}).status_code == 403
    assert guarded.post("/v1/traces", headers=worker, json={}).status_code == 200
    answer = {"action": "abort"}
    assert guarded.post(f"/api/v1/inbox/{runs[2]}", headers=reader, json=answer).status_code == 403
    acting = {"step": 4, "allow_acts": True}
    assert guarded.post(f"/api/v1/runs/{runs[0]}/fork", headers=worker, json=acting).status_code == 403
    assert guarded.post(f"/api/v1/runs/{runs[0]}/fork", headers=master, json=acting).status_code == 202


def test_a_tenants_token_sees_its_own_runs_and_no_others(guarded: TestClient, runs: list[str]) -> None:
    acme, master = as_caller("acme"), as_caller("master")
    mine = guarded.post("/api/v1/runs", headers=acme, json={"agent": "support", "task": "mine"}).json()["run"]
    assert guarded.get(f"/api/v1/runs/{mine}", headers=acme).json()["status"] == "queued"
    assert guarded.get("/api/v1/runs", headers=acme).json()["runs"] == []
    assert len(guarded.get("/api/v1/runs", headers=master).json()["runs"]) == 3
    for address in addresses(runs):
        if any(run in address for run in runs):
            assert guarded.get(address, headers=acme).status_code == 404, address
    assert guarded.get("/api/v1/inbox", headers=acme).json() == {"waiting": []}
    assert guarded.get("/api/v1/metrics", headers=acme).json()["runs"] == 0
    assert "support" not in guarded.get("/metrics", headers=acme).text
    for run in runs:
        assert guarded.post(f"/api/v1/inbox/{run}", headers=acme, json={"action": "abort"}).status_code == 404
        assert guarded.post(f"/api/v1/runs/{run}/cancel", headers=acme, json={}).status_code == 404
        assert guarded.post(f"/api/v1/runs/{run}/fork", headers=acme, json={"step": 4}).status_code == 404


def test_tokens_are_read_strictly_and_never_told() -> None:
    for text in ("short read", "x" * 30, f"{'x' * 30} fly", f"{'x' * 30} read a/b", f"{'x' * 30} read a b c"):
        with pytest.raises(Misuse, match="line 1") as refused:
            read_tokens(text, "file")
        assert "x" * 30 not in str(refused.value)
    assert not tokens().caller("reader")
    assert "reader-token" not in repr(tokens())


@pytest.mark.parametrize(
    ("host", "alone"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("db", False)]
)
def test_only_loopback_is_this_machine(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


def test_too_much_is_refused(client: TestClient) -> None:
    got = client.post("/v1/traces", content=b"", headers={"content-length": str(1 << 40)})
    assert got.status_code == 413


def test_masking_keeps_every_real_log_readable() -> None:
    from pathlib import Path

    from capataz.events.codec import from_line

    shower = Shower(Mask())
    seen = 0
    for path in (Path(__file__).parent.parent / "data" / "logs").glob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            event = from_line(line)
            masked = shower.event(event)
            assert (masked.seq, type(masked.fact)) == (event.seq, type(event.fact))
            seen += 1
    assert seen > 30
