"""Reports of others, as tests: a reserve that does not fit, errors that look like successes, a no that was forgotten.

Everything here goes through the whole runtime; where it matters over real sockets, and into a real database.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capataz import Agent, App, Budget, Completed, Decision, Escalated, Partial, Policy, ToolError, tool
from capataz.events.facts import (
    ApprovalAsked,
    Event,
    MessageReceived,
    ModelCallFailed,
    OutputCapped,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    VerdictGiven,
)
from capataz.lens.trace.fold import trace
from capataz.policy.table import DEFAULT_TABLE, FaultTable, Rule
from capataz.runtime.inbox import answer, waiting
from capataz.stores.memory import MemoryStore
from capataz.testing.script import Ask, Script, Step, Trouble, Turn, say, status, use
from capataz.testing.scripted import ScriptedModel, calls, says
from capataz.testing.worker import UnreliableWorker
from tests.runtime.conftest import World

WIRES = ("openai", "anthropic")
QUICK = Policy(
    FaultTable({**DEFAULT_TABLE, "transient": Rule(3, "human", first=0.01), "rate_limit": Rule(5, "human", first=0.01)})
)


class Till:
    """Money in a real database. Each payment is a row, whoever made it and however often."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._do("create table paid (order_id text)")

    def _do(self, words: str, *values: str) -> list[Any]:
        with sqlite3.connect(self.path, timeout=10) as db:
            return db.execute(words, values).fetchall()

    def count(self, order: str) -> int:
        return int(self._do("select count(*) from paid where order_id = ?", order)[0][0])

    @property
    def pay(self) -> Any:
        @tool(kind="write", target="order", confirm=lambda order: self.count(order) > 0)
        def pay(order: str) -> str:
            """Pay the money of an order back."""
            self._do("insert into paid values (?)", order)
            return "paid"

        return pay


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path / "till.db")


def over(worker: UnreliableWorker, wire: Any, behaviour: Any, tools: list[Any], **settings: Any) -> Agent:
    name = worker.play("clerk", behaviour)
    return Agent("clerk", f"{wire}:{name}", tools, base_url=worker.url(wire), api_key="any", policy=QUICK, **settings)


# ── retrying repeats no call ─────────────────────────────────────────────────────────────────────────────

LATE: dict[str, Trouble] = {
    kind: Trouble(kind, status=503) for kind in ("status", "cut", "drop", "malformed", "stream-error")
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("kind", LATE)
async def test_a_late_failure_repeats_no_call_that_succeeded(till: Till, wire: str, kind: str) -> None:
    """Three payments succeed, one a turn; each following turn fails twice before it comes through."""
    trouble = LATE[kind]
    orders = ("81", "82", "83")
    steps: list[Step] = []
    for order in orders:
        steps += [use("pay", order=order), trouble, trouble]
    async with UnreliableWorker() as worker, App(MemoryStore()) as app:
        outcome = await over(worker, wire, Script((*steps, say("All paid."))), [till.pay]).arun("pay", app=app)
        facts = [event.fact for event in await app.store.read(outcome.run)]
        assert worker.violations == []
    assert isinstance(outcome, Completed), outcome
    assert [till.count(order) for order in orders] == [1, 1, 1]
    assert len([fact for fact in facts if isinstance(fact, ModelCallFailed)]) == 6


@pytest.mark.parametrize("wire", WIRES)
async def test_nor_does_a_restart_after_that_failure(till: Till, wire: str, tmp_path: Path) -> None:
    """The retries are used up, a person has it tried again, in another App on the same file."""
    url = f"sqlite:///{tmp_path}/runs.db"
    script = Script((use("pay", order="81"), *[status(503)] * 4, say("Paid.")))
    async with UnreliableWorker() as worker:
        agent = over(worker, wire, script, [till.pay])
        async with App(url) as app:
            first = await agent.arun("pay", app=app)
            assert isinstance(first, Escalated)
        async with App(url) as app:
            await answer(app.store, app.yard().around.clock, first.run, Decision("retry"), "ana")
            final = await app.aresume(agent, first.run)
    assert isinstance(final, Completed)
    assert till.count("81") == 1


# ── nothing is run that was not understood ───────────────────────────────────────────────────────────────

WRITTEN = 'I will. ```json\n{"name": "pay", "arguments": {"order": "81"}}\n```'
BROKEN: dict[str, Step] = {
    "cut in the arguments": Turn(calls=(Ask("pay", '{"order": "8'),), stop="length"),
    "whole arguments, but the answer was cut": Turn(calls=(Ask("pay", {"order": "81"}),), stop="length"),
    "arguments that are no JSON": Turn(calls=(Ask("pay", "order: 81"),)),
    "a comma too much": Turn(calls=(Ask("pay", '{"order": "81",}'),)),
    "a quote missing": Turn(calls=(Ask("pay", '{"order": "81}'),)),
    "another type": Turn(calls=(Ask("pay", {"order": ["81"]}),)),
    "an argument nobody asked for": Turn(calls=(Ask("pay", {"order": "81", "cents": 5}),)),
    "a name that is almost right": Turn(calls=(Ask("Pay", {"order": "81"}),)),
    "the stream ends in the call": Trouble("cut", turn=Turn(calls=(Ask("pay", {"order": "81"}),))),
    "the line drops in the call": Trouble("drop", turn=Turn(calls=(Ask("pay", {"order": "81"}),))),
    "written as text": say(WRITTEN),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("what", BROKEN)
async def test_no_act_is_run_from_a_broken_call(till: Till, wire: str, what: str) -> None:
    async with UnreliableWorker() as worker, App(MemoryStore()) as app:
        script = Script((BROKEN[what],), after=say("I could not."))
        outcome = await over(worker, wire, script, [till.pay], budget=Budget(turns=6)).arun("pay 81", app=app)
        facts = [event.fact for event in await app.store.read(outcome.run)]
    assert till.count("81") == 0
    assert not [fact for fact in facts if isinstance(fact, ToolStarted)]
    assert outcome.name in ("partial", "escalated", "aborted")


# ── an output reserve that does not fit ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wire", WIRES)
async def test_a_reserve_that_does_not_fit_is_made_smaller_once_and_nothing_is_compressed(wire: str) -> None:
    words = {
        "openai": "This model's maximum context length is 32768 tokens. However, you requested 16384 output tokens and "
        "your prompt contains 16385 input tokens.",
        "anthropic": "input length and `max_tokens` exceed context limit: 16385 + 16384 > 32768, decrease input length "
        "or `max_tokens` and try again",
    }
    from capataz.faults.http import classify_http
    from capataz.ports import ModelRequest

    refused = classify_http(400, {}, {"error": {"message": words[wire], "type": "invalid_request_error"}}, wire)
    caps: list[int | None] = []

    def model(request: ModelRequest) -> Any:
        caps.append(request.max_output)
        return refused if (request.max_output or 99_999) > 16_383 else says("fine")

    async with App(MemoryStore()) as app:
        agent = Agent("clerk", ScriptedModel(model), role="talking", max_output=16_384, window=32_768)
        outcome = await agent.arun("summarise", app=app)
        facts = [event.fact for event in await app.store.read(outcome.run)]
    assert outcome.answer == "fine"
    assert len(caps) == 2
    [capped] = [fact for fact in facts if isinstance(fact, OutputCapped)]
    assert caps == [16_384, capped.cap]
    assert 256 <= capped.cap <= 16_383
    assert not [fact for fact in facts if type(fact).__name__ == "HistoryCompressed"]


# ── an error is an error and a success a success, everywhere ─────────────────────────────────────────────


def closing(result: Any) -> Any:
    @tool(kind="write", target="id", confirm=lambda id, **_: None)
    def close_ticket(id: int) -> Any:
        """Close a ticket, as the tool of a server elsewhere would."""
        if isinstance(result, BaseException):
            raise result
        return result

    return close_ticket


CLOSE = calls(("close_ticket", {"id": 7}))


async def test_the_error_of_a_tool_is_kept_as_one_everywhere(world: World) -> None:
    model = ScriptedModel(CLOSE, says("Ticket closed."))
    denied = closing(ToolError("permission denied", row="auth"))
    outcome = await Agent("clerk", model, [denied]).arun("close 7", app=world.app)
    assert isinstance(outcome, Escalated)
    assert (outcome.reason, outcome.evidence) == ("auth", ())
    events = await world.events(outcome.run)
    [finished] = [event.fact for event in events if isinstance(event.fact, ToolFinished)]
    assert finished.error
    assert finished.fault is not None
    assert finished.fault.row == "auth"
    assert model.requests[1].history[-1].error, "in the history"
    assert [call.state for call in trace(events).calls.values()] == ["failed"], "in the trace"
    assert len([event for event in events if isinstance(event.fact, ToolStarted)]) == 1, "never repeated by itself"


async def test_the_same_error_again_is_seen_by_the_guard(world: World) -> None:
    denied = closing(ToolError("permission denied", row="auth"))
    outcome = await Agent("clerk", ScriptedModel(CLOSE), [denied]).arun("close 7", app=world.app)
    verdicts = [fact for fact in await world.facts(outcome.run) if isinstance(fact, VerdictGiven)]
    assert verdicts
    assert outcome.name in ("partial", "escalated")
    assert not outcome.evidence


async def test_a_result_that_only_begins_with_the_word_is_a_success(world: World) -> None:
    article = closing("Error: is the title of this article")
    outcome = await Agent("clerk", ScriptedModel(CLOSE, says("Read.")), [article]).arun("close 7", app=world.app)
    events = await world.events(outcome.run)
    [finished] = [event.fact for event in events if isinstance(event.fact, ToolFinished)]
    assert not finished.error
    assert finished.fault is None
    assert [call.state for call in trace(events).calls.values()] == ["done"]


# ── a person's no ────────────────────────────────────────────────────────────────────────────────────────


def filing(filed: list[str]) -> Any:
    @tool(kind="write", target="q", approve=True, confirm=lambda q, **_: q in filed)
    def file_report(q: str, note: str = "") -> str:
        """File the report of a quarter."""
        filed.append(q)
        return "filed"

    return file_report


ASKS = (
    calls(("file_report", {"q": "Q2"})),
    calls(("file_report", {"q": "Q2", "note": "please reconsider"})),
    calls(("file_report", {"note": "last try", "q": "Q2"})),
    says("Filed."),
)


async def rejected(world: World, filed: list[str], *more: Any) -> tuple[Agent, str]:
    agent = Agent("clerk", ScriptedModel(*ASKS, *more), [filing(filed)])
    run = (await agent.arun("file Q2", app=world.app)).run
    await answer(world.app.store, world.clock, run, Decision("reject", "not before the audit"), "ana")
    return agent, run


async def test_a_no_holds_for_the_effect_in_whatever_words_it_is_asked_again(world: World) -> None:
    filed: list[str] = []
    agent, run = await rejected(world, filed)
    outcome = await world.app.aresume(agent, run)
    assert isinstance(outcome, Partial)
    assert (outcome.reason, filed) == ("rejected", [])
    facts = await world.facts(run)
    refused = [fact for fact in facts if isinstance(fact, ToolRefused)]
    assert [fact.reason for fact in refused] == ["rejected"] * 3
    assert all("not before the audit" in fact.message for fact in refused)
    assert all(fact.fault is None for fact in refused), "no error for retries or rates"
    assert len([fact for fact in facts if isinstance(fact, ApprovalAsked)]) == 1, "nobody was bothered again"


async def test_a_no_to_one_target_is_no_answer_about_another(world: World) -> None:
    filed: list[str] = []
    model = ScriptedModel(ASKS[0], calls(("file_report", {"q": "Q3"})), says("Filed."))
    agent = Agent("clerk", model, [filing(filed)])
    run = (await agent.arun("file", app=world.app)).run
    await answer(world.app.store, world.clock, run, Decision("reject"), "ana")
    second = await world.app.aresume(agent, run)
    assert isinstance(second, Escalated)
    asked = [fact for fact in await world.facts(run) if isinstance(fact, ApprovalAsked)]
    assert [fact.shown.split(",")[0] for fact in asked] == ['file_report(q="Q2"', 'file_report(q="Q3"']


async def heard(world: World, role: Any) -> tuple[Agent, str, list[str]]:
    """A run in which the no was given and told to the model; then "file it after all" is heard, from this side."""
    filed: list[str] = []
    agent, run = await rejected(world, filed)
    await world.app.aresume(agent, run)
    events = await world.events(run)
    cut = next(event.seq for event in events if isinstance(event.fact, ToolRefused)) + 1
    lease = await world.app.store.claim("run-heard", "conversation")
    said = Event(cut, events[cut].at, MessageReceived(role, "file it after all"))
    await world.app.store.append(lease, 0, [*events[:cut], said])
    again = replace(agent, model=ScriptedModel(calls(("file_report", {"q": "Q2"})), says("Filed.")))
    return again, "run-heard", filed


async def test_a_new_word_of_the_person_opens_it_again(world: World) -> None:
    agent, run, filed = await heard(world, "user")
    second = await world.app.aresume(agent, run)
    assert isinstance(second, Escalated)
    assert (second.reason, filed) == ("approval", [])
    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.requests[0].history[-1].text == "file it after all"
    store = world.app.store
    waits = [item for item in await waiting(store) if item.run == second.run or item.approval is not None]
    assert len(waits) == 1
    await answer(store, world.clock, run, Decision("approve"), "ana")
    final = await world.app.aresume(agent, run)
    assert isinstance(final, Completed)
    assert filed == ["Q2"]


async def test_a_word_of_the_runtime_does_not(world: World) -> None:
    agent, run, filed = await heard(world, "runtime")
    assert isinstance(await world.app.aresume(agent, run), Partial)
    assert filed == []


async def test_an_approval_that_was_answered_with_something_else_is_asked_for_again(world: World) -> None:
    """Whatever opened it again, the person finds the whole question in the inbox, not half of it."""
    filed: list[str] = []
    agent, run = await rejected(world, filed)
    events = await world.events(run)
    lease = await world.app.store.claim(run, "conversation")
    said = Event(events[-1].seq + 1, events[-1].at, MessageReceived("user", "file it after all"))
    await world.app.store.append(lease, said.seq, [said])
    await world.app.aresume(agent, run)
    [item] = await waiting(world.app.store)
    assert item.approval is not None
    assert item.call is not None
    assert item.call.arguments["q"] == "Q2"


async def test_what_is_said_while_calls_are_open_stands_behind_their_results(world: World) -> None:
    """A provider refuses a history in which anything comes between a call and its result."""
    filed: list[str] = []
    agent, run = await rejected(world, filed)
    events = await world.events(run)
    lease = await world.app.store.claim(run, "conversation")
    said = Event(events[-1].seq + 1, events[-1].at, MessageReceived("user", "and hurry"))
    await world.app.store.append(lease, said.seq, [said])
    await world.app.aresume(agent, run)
    await answer(world.app.store, world.clock, run, Decision("approve"), "ana")
    other = replace(agent, model=ScriptedModel(says("Filed.")))
    assert isinstance(await world.app.aresume(other, run), Completed)
    assert isinstance(other.model, ScriptedModel)
    history = other.model.requests[0].history
    assert [(message.role, bool(message.calls)) for message in history[-3:]] == [
        ("assistant", True),
        ("tool", False),
        ("user", False),
    ]
    assert history[-1].text == "and hurry"
