"""A run whose own runtime says it ended well, over what went wrong in it: shown in words, and nowhere green."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from capataz.cli.main import main
from capataz.cli.render import ending_text
from capataz.events.facts import RunEnded, RunStarted
from capataz.ingest.receiver import tell
from capataz.lens.trace.fold import trace
from capataz.lens.words import tone_of
from capataz.web.site import Site
from tests.web.test_received_spans import TRACE, A, B, model, post, span, spans_of, used

BAD = {"code": 2, "message": "gateway said no"}


def refund(id: str, start: int, order: str = "81", **more: Any) -> Any:
    return span(
        id, "0b", start, gen_ai__operation__name="execute_tool", gen_ai__tool__name="refund_order",
        gen_ai__tool__call__id=f"call-{id}", gen_ai__tool__call__arguments=json.dumps({"order": order, "cents": 900}),
        **more,
    )  # fmt: skip


SAYS = model("cf", "0b", 12, text="Both are refunded.")
FAILED = (A, B, model("c1", "0b", 2), refund("d1", 3, status=BAD), refund("d2", 5, "82", status=BAD), SAYS)


def ended(*spans: Any) -> RunEnded:
    fact = tell(TRACE, spans_of(post(*spans)))[-1].fact
    assert isinstance(fact, RunEnded)
    return fact


def test_acts_that_failed_are_counted_in_the_words_of_the_end() -> None:
    end = ended(*FAILED)
    assert (end.outcome, end.reason, end.answer) == ("answered", "acts-failed", "Both are refunded.")
    assert end.detail == (
        "its own runtime ended it, but 2 acts failed; guards noted: finishing (false-done); "
        "whether it did what it says was not checked"
    )
    assert tone_of(end.outcome, end.reason) == "warn"


def test_an_act_that_was_done_at_last_has_not_failed() -> None:
    done = refund("d3", 7, gen_ai__tool__call__result='{"refunded": true}')
    end = ended(A, B, model("c1", "0b", 2), refund("d1", 3, status=BAD), model("c2", "0b", 6), done, SAYS)
    assert (end.outcome, end.reason) == ("answered", "source-ended")
    assert tone_of(end.outcome, end.reason) == "good"


def test_a_look_that_failed_is_no_act() -> None:
    end = ended(A, B, model("c1", "0b", 2), used("d1", "0b", 3, status=BAD), SAYS)
    assert end.reason == "source-ended"


def test_what_guards_noted_speaks_against_a_good_end() -> None:
    end = ended(A, B, *(used(f"{n:02x}", "0b", n) for n in range(2, 12)), SAYS)
    assert (end.outcome, end.reason) == ("answered", "noted")
    assert "but guards noted: repeating (identical)" in end.detail
    assert tone_of(end.outcome, end.reason) == "warn"


def test_an_agent_that_failed_under_a_root_that_did_not_is_told() -> None:
    inner = {**B, "status": BAD, "attributes": A["attributes"]}
    end = ended(span("0a", "", 0, 20, name="POST /chat"), inner, model("c1", "0b", 2, text="Hello."))
    assert (end.outcome, end.reason) == ("answered", "noted")
    assert "1 agent in it failed" in end.detail


def test_a_last_model_call_that_failed_is_told() -> None:
    end = ended(A, B, model("c1", "0b", 2, text="I look."), model("c2", "0b", 4, status=BAD))
    assert (end.outcome, end.reason) == ("answered", "noted")
    assert "its last model call failed" in end.detail


def test_it_is_green_neither_in_the_list_nor_on_its_page_nor_in_the_terminal(
    client: TestClient, site: Site, tmp_path: Path
) -> None:
    assert client.post("/v1/traces", json=post(*FAILED)).status_code == 200
    receiver = site.receiver
    assert receiver is not None
    asyncio.run(receiver.tell(TRACE))
    row = re.search(r"<tr>\s*<td>(.*?)</td>", client.get("/").text, re.DOTALL)
    assert row is not None
    assert 'chip warn">answered' in row.group(1)
    assert "acts-failed" in row.group(1)
    for address in (f"/runs/{TRACE}", f"/runs/{TRACE}/page"):
        shown = client.get(address).text
        assert '<section class="why warn"' in shown
        assert "but 2 acts failed" in shown
    [listed] = client.get("/api/v1/runs").json()["runs"]
    assert (listed["outcome"], listed["reason"]) == ("answered", "acts-failed")
    told = CliRunner().invoke(main, ["runs", "--store", f"sqlite:///{tmp_path}/log.db", "--json"])
    assert json.loads(told.output)[0]["reason"] == "acts-failed"
    text = ending_text(trace(tell(TRACE, spans_of(post(*FAILED)))))
    assert "yellow" in str(text.spans[0].style)


@pytest.mark.parametrize(
    ("outcome", "reason", "tone"), [("answered", "answered", "good"), ("partial", "noted", "warn")]
)
def test_only_answers_are_weighed(outcome: str, reason: str, tone: str) -> None:
    assert tone_of(outcome, reason) == tone


MESSAGES = json.dumps(
    [
        {"role": "system", "parts": [{"type": "text", "content": "Help."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Refund 81"}]},
    ]
)
PLAIN = json.dumps({"messages": [{"role": "user", "content": "Refund 81"}]})


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ({"gen_ai__operation__name": "invoke_agent"}, {"gen_ai__input__messages": MESSAGES}),
        ({"gen_ai__operation__name": "invoke_agent"}, {"gen_ai__prompt": "Refund 81"}),
        ({"openinference__span__kind": "AGENT"}, {"input__value": "Refund 81"}),
        ({"openinference__span__kind": "AGENT"}, {"input__value": PLAIN}),
        ({"openinference__span__kind": "CHAIN"}, {"input__value": json.dumps({"input": {"question": "Refund 81"}})}),
        ({"traceloop__span__kind": "workflow"}, {"traceloop__entity__input": '{"inputs": {"task": "Refund 81"}}'}),
        ({"ai__operationId": "ai.generateText"}, {"ai__prompt": json.dumps({"prompt": "Refund 81"})}),
        ({"ai__operationId": "ai.streamText"}, {"ai__prompt": PLAIN}),
    ],
)  # fmt: skip
def test_a_task_that_stands_only_on_the_frame_is_read_from_there(kind: dict[str, str], said: dict[str, str]) -> None:
    [started, *_] = tell(
        TRACE, spans_of(post(span("0a", "", 0, 20, **kind, **said), model("c1", "0a", 2, text="Done.")))
    )
    assert isinstance(started.fact, RunStarted)
    assert started.fact.task == "Refund 81"


def test_what_the_model_was_told_goes_before_what_the_frame_says_and_a_step_inside_is_no_task() -> None:
    agent = span("0a", "", 0, 20, gen_ai__operation__name="invoke_agent", gen_ai__prompt="{}")
    inner = span("0b", "0a", 1, 9, openinference__span__kind="RETRIEVER", input__value="orders of last week")
    told = model("c1", "0b", 2, text="Done.", gen_ai__input__messages=MESSAGES)
    [started, *_] = tell(TRACE, spans_of(post(agent, inner, told)))
    assert isinstance(started.fact, RunStarted)
    assert started.fact.task == "Refund 81"
    [started, *_] = tell(TRACE, spans_of(post(agent, inner, model("c1", "0b", 2, text="Done."))))
    assert isinstance(started.fact, RunStarted)
    assert started.fact.task == ""
