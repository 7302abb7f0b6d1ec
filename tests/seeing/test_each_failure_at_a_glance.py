"""The four ways in which agents fail, one real run each: in spans, in metrics, on the run's page, and in an alert."""

from __future__ import annotations

import time
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from capataz import Agent, App, Budget, Deadlines, tool
from capataz.events.facts import Usage
from capataz.testing.script import Script, Trouble, say, status
from capataz.testing.scripted import FakeClock, ScriptedModel, calls, says
from capataz.testing.worker import UnreliableWorker
from tests.seeing.conftest import Seen


@tool(kind="read")
def look(order: str) -> str:
    """Look an order up."""
    return f"{order} is paid"


def of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_loop_without_end(seen: Seen) -> None:
    received, clock = seen.received, FakeClock(time.time() - 1200)

    async def story(app: App) -> str:
        well = ScriptedModel(calls(("look", {"order": "7"}), usage=Usage(300, 20)), says("paid", Usage(300, 20)))
        await app.arun(Agent("calm", well, [look], role="talking"), "Is 7 paid?")
        clock.move(600)
        again = ScriptedModel(calls(("look", {"order": "7"}), usage=Usage(30_000, 200)))
        return (await app.arun(Agent("clerk", again, [look], role="talking"), "Is 7 paid?")).run

    run = seen.record(story, clock=clock)

    # spans: turn after turn with the same call below it, the tokens beside each, and the verdict with its evidence
    turns = [of(span) for span in received.named("capataz.turn")]
    spent = {each: sum(turn["capataz.turn.tokens"] for turn in turns if (turn["capataz.run.id"] == run) is each)
             for each in (True, False)}  # fmt: skip
    assert spent[True] > 50 * spent[False]
    assert "repeating" in [verdict["capataz.guard"] for verdict in received.events("gen_ai.evaluation.result")]
    # metrics: a spike of tokens, and a loop of this agent alone
    used = [point.sum for labels, point in received.metric("gen_ai.client.token.usage")
            if labels["gen_ai.token.type"] == "input"]  # fmt: skip
    assert sum(used) > 90_000
    assert received.total("capataz.loops", gen_ai__agent__name="clerk") == 1
    assert received.total("capataz.loops", gen_ai__agent__name="calm") == 0
    # the page: that it was stopped, by whom, and how often it was seen
    told = seen.glance(run)
    assert told.startswith("partial · identical")
    assert "stopped · repeating" in told
    assert "1 loop noticed by the guard repeating" in told
    # alerts: the page, the command and the API say the same
    firing = seen.firing()
    assert set(firing) == {"a loop", "a spike"}
    assert "loop_rate over 5.0 % in 24 h, only agent clerk" in firing["a loop"]
    assert seen.told()["a loop"] == [run]
    assert run in seen.told()["a spike"]


def test_a_turn_that_hangs(seen: Seen) -> None:
    received = seen.received

    async def story(app: App) -> str:
        async with UnreliableWorker({"hangs": Script((Trouble("hang"), Trouble("hang"), say("there")))}) as provider:
            agent = Agent("clerk", "openai:hangs", role="talking", base_url=provider.url(), api_key="any",
                          deadlines=Deadlines(0.3, 0.3, 0.3, 0.5), budget=Budget(seconds=30))  # fmt: skip
            return (await app.arun(agent, "go")).run

    run = seen.record(story)

    # spans: two that never got an answer and were ended from outside; no span is left open
    cut = [span for span in received.named("chat") if of(span).get("error.type") == "timeout"]
    assert len(cut) == 2
    assert all(span.end_time for span in received.spans)
    assert len(received.named("invoke_agent")) == 1
    # metrics
    assert received.total("capataz.watchdog.kills", capataz__waiting_for="model") == 2
    # the page
    told = seen.glance(run)
    assert told.startswith("answered")
    assert "2 waits for the model cut: no sign of life" in told
    # alerts
    assert set(seen.firing()) == {"a hang"}
    assert seen.told() == {"a hang": [run]}


def test_a_turn_that_only_talks(seen: Seen) -> None:
    received, paid = seen.received, set[str]()

    @tool(kind="write", target="order", confirm=lambda order, **_: order in paid)
    def refund(order: str) -> str:
        """Pay back."""
        paid.add(order)
        return "ok"

    async def story(app: App) -> str:
        model = ScriptedModel(says("I have refunded it."), calls(("refund", {"order": "8"})), says("Refunded."))
        return (await app.arun(Agent("clerk", model, [refund]), "Refund 8")).run

    run = seen.record(story)

    # spans: a turn that asked for nothing, with no tool below it, and the verdict on it
    children = {turn: [span.name for span in received.spans if received.parent(span) is turn]
                for turn in received.named("capataz.turn")}  # fmt: skip
    for turn, names in children.items():
        assert sum(name.startswith("execute_tool") for name in names) == of(turn)["capataz.turn.tool_calls"]
    failed = [turn for turn in children for event in turn.events
              if (event.attributes or {}).get("capataz.verdict.action") == "fail-turn"]  # fmt: skip
    assert [of(turn)["capataz.turn.tool_calls"] for turn in failed] == [0]
    # metrics
    assert received.total("capataz.turns.empty") == 1
    assert received.total("capataz.effects.confirmed") == 1
    # the page
    told = seen.glance(run)
    assert told.startswith("completed")
    assert "turn refused" in told
    assert "1 turn that did nothing" in told
    # alerts
    assert set(seen.firing()) == {"talk"}
    assert seen.told() == {"talk": [run]}


def test_an_error_that_could_be_taken_for_another(seen: Seen) -> None:
    """Three that pass by themselves and one limit: each is counted, shown and alarmed for under its own class."""
    received = seen.received
    troubles = (status(529), status(500), status(503), status(429, wait=0.05))

    async def story(app: App) -> str:
        async with UnreliableWorker({"busy": Script(troubles, say("there"))}) as provider:
            agent = Agent("clerk", "openai:busy", role="talking", base_url=provider.url(), api_key="any")
            return (await app.arun(agent, "go")).run

    run = seen.record(story, clock=FakeClock(time.time()))

    # spans: below one turn, each failure with its class; the waits between them
    failed = [span for span in received.named("chat") if "capataz.error.class" in of(span)]
    classes = [of(span)["capataz.error.class"] for span in failed]
    assert classes == ["transient", "transient", "transient", "rate_limit"]
    assert len({span.parent.span_id for span in failed if span.parent}) == 1
    assert len(received.events("capataz.wait")) == 4
    # metrics: a burst on one class
    for name, times in (("transient", 3), ("rate_limit", 1)):
        assert received.total("capataz.retries", capataz__error__class=name) == times
    # the page
    told = seen.glance(run)
    assert told.startswith("answered")
    assert "3 retries of the model after an error of class transient" in told
    assert "1 retry of the model after an error of class rate_limit" in told
    # alerts
    assert set(seen.firing()) == {"a burst"}
    assert seen.told() == {"a burst": [run]}


def test_doing_nothing_is_never_shown_in_green(seen: Seen) -> None:
    """An agent that is there to act looked once and then claims: whatever it says, nothing on a page says "well"."""

    @tool(kind="write", target="order", confirm=lambda order, **_: True)
    def refund(order: str) -> str:
        """Pay back."""
        return "ok"

    async def story(app: App) -> str:
        model = ScriptedModel(calls(("look", {"order": "7"})), says("Order 7 is paid."))
        outcome = await app.arun(Agent("clerk", model, [look, refund]), "Refund 7")
        assert (outcome.name, outcome.reason) == ("answered", "no-action")
        return outcome.run

    run = seen.record(story)
    assert '<section class="why plain"' in seen.get(f"/runs/{run}")
    for page in ("/", f"/diff?a={run}&b={run}"):
        assert 'class="chip plain">answered' in seen.get(page)
