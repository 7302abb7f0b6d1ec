"""A person's thread with an agent: what is remembered, whose turn it is, and that nothing said is lost or stuck."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capataz import Agent, Answered, App, Completed, Escalated, Misuse, tool
from capataz.events.facts import (
    ConversationRecalled,
    Fact,
    Fault,
    HistoryCompressed,
    RunStarted,
    Said,
    ToolRefused,
    Usage,
)
from capataz.memory.conversation import Arrived, Told
from capataz.memory.message import SUMMARY_MARK, Message
from capataz.mistakes import NotFound
from capataz.ports import ModelRequest, Reply
from capataz.runtime.inbox import answer
from capataz.runtime.supervise import Decision
from capataz.stores.memory import MemoryStore
from capataz.stores.sqlite import SqliteStore
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says

Step = Callable[[ModelRequest], Reply | Fault | str]


@tool(kind="read")
def page(n: int) -> str:
    """Read a page."""
    return f"PAGE-{n} " + "x" * 300


REFUNDED: list[str] = []


@tool(kind="write", target="order", confirm=lambda order, **_: order in REFUNDED)
def refund(order: str) -> str:
    """Give the money back."""
    REFUNDED.append(order)
    return "done"


@pytest.fixture(autouse=True)
def nothing_refunded() -> None:
    REFUNDED.clear()


def talker(*steps: Any, **given: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(*steps)
    return Agent("talker", model, given.pop("tools", [page]), role="talking", **given), model


def seen(request: ModelRequest) -> list[str]:
    return [f"{message.role}: {message.text}" for message in request.history]


async def facts_of(app: App, run: str) -> list[Fact]:
    return [event.fact for event in await app.store.read(run)]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryStore | SqliteStore:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "log.db")


# ── what is remembered ───────────────────────────────────────────────────────────────────────────────────────


async def test_the_next_run_sees_what_was_said_and_not_the_plumbing(store: MemoryStore | SqliteStore) -> None:
    agent, model = talker(calls(("page", {"n": 1}), text="I look."), "It says hello.", "You asked for page 1.")
    async with App(store) as app:
        await agent.arun("what is on page 1?", app=app, conversation="c")
        second = await agent.arun("what did I ask?", app=app, conversation="c")
        alone = await agent.arun("and now?", app=app)
        recalled = [fact for fact in await facts_of(app, second.run) if isinstance(fact, ConversationRecalled)]
    assert seen(model.requests[2]) == [
        "user: what is on page 1?",
        "assistant: It says hello.",
        "user: what did I ask?",
    ]
    assert "PAGE-1" not in str(model.requests[2:])
    assert seen(model.requests[3]) == ["user: and now?"]
    assert [item.role for item in recalled[0].said] == ["user", "assistant"]
    assert isinstance(alone, Answered)


async def test_receipts_of_effects_carry_into_the_conversation(store: MemoryStore | SqliteStore) -> None:
    steps = (calls(("refund", {"order": "81"})), "Refunded.", calls(("refund", {"order": "81"})), "Already done.")
    agent = Agent("clerk", ScriptedModel(*steps), [refund])
    async with App(store) as app:
        first = await agent.arun("refund 81", app=app, conversation="c")
        second = await agent.arun("refund 81 please", app=app, conversation="c")
        third = await agent.arun("refund 81 please", app=app, conversation="d")
        refused = [fact for fact in await facts_of(app, second.run) if isinstance(fact, ToolRefused)]
        started = (await facts_of(app, second.run))[0]
    assert isinstance(first, Completed)
    assert REFUNDED == ["81"]
    assert [fact.reason for fact in refused] == ["ledger"]
    assert isinstance(started, RunStarted)
    assert len(started.standing) == 1
    assert third.run != second.run


async def test_a_run_that_waits_for_a_person_does_not_hold_its_conversation_up(
    store: MemoryStore | SqliteStore,
) -> None:
    """And what was done meanwhile is not done again when it goes on."""
    denied = Fault("auth", "permission", "no", 403)
    agent, _ = talker(denied, calls(("refund", {"order": "9"})), "Refunded.", tools=[refund])
    async with App(store, clock=FakeClock(), chance=FakeChance()) as app:
        stuck = await agent.arun("refund 9", app=app, conversation="c")
        assert isinstance(stuck, Escalated)
        await agent.arun("any news?", app=app, conversation="c")
        assert REFUNDED == ["9"]
        again, model = talker(calls(("refund", {"order": "9"})), "It was refunded.", tools=[refund])
        await answer(app.store, FakeClock(), stuck.run, Decision("retry"), "ana")
        resumed = await app.aresume(again, stuck.run)
        thread, said = await app.conversations.read("c")
    assert isinstance(resumed, Answered)
    assert REFUNDED == ["9"]
    assert [item.text for item in said] == ["refund 9", "any news?", "Refunded.", "It was refunded."]
    assert thread.run is None
    assert len(model.requests) == 2


# ── whose turn it is ─────────────────────────────────────────────────────────────────────────────────────────


async def test_messages_that_arrive_meanwhile_are_answered_next_in_their_order(
    store: MemoryStore | SqliteStore,
) -> None:
    at_work = 0

    class Slow(ScriptedModel):
        async def complete(self, request: ModelRequest, beat: Any) -> Reply:
            nonlocal at_work
            at_work += 1
            assert at_work == 1, "two runs at work in one conversation"
            await asyncio.sleep(0.02)
            at_work -= 1
            return await super().complete(request, beat)

    model = Slow(lambda request: f"re {request.history[-1].text}")
    agent = Agent("talker", model, role="talking")
    async with App(store) as app:

        async def say(n: int) -> str:
            await asyncio.sleep(n * 0.005)
            return (await agent.arun(f"m{n}", app=app, conversation="c")).answer

        answers = await asyncio.gather(*(say(n) for n in range(6)))
        _, said = await app.conversations.read("c")
    assert answers == [f"re m{n}" for n in range(6)]
    assert [item.text for item in said] == [text for n in range(6) for text in (f"m{n}", f"re m{n}")]
    assert seen(model.requests[-1])[-3:] == ["user: m4", "assistant: re m4", "user: m5"]


async def test_submitted_messages_are_driven_one_at_a_time_by_several_workers(tmp_path: Path) -> None:
    await driven_one_at_a_time(f"sqlite:///{tmp_path / 'log.db'}")


async def driven_one_at_a_time(url: str) -> None:
    model = ScriptedModel(lambda request: f"re {request.history[-1].text}")
    agent = Agent("talker", model, role="talking")
    async with App(url, agents=[agent]) as one, App(url, agents=[agent]) as two:
        handles = [await agent.asubmit(f"m{n}", app=one, conversation="c", user="ana") for n in range(5)]
        shifts = [one.worker(), two.worker()]
        working = [asyncio.create_task(shift.work()) for shift in shifts]
        outcomes = [await handle.await_(30) for handle in handles]
        for shift in shifts:
            shift.stop()
        await asyncio.gather(*working)
        _, said = await one.conversations.read("c")
        (row,) = await one.accounts.spent("user")
    assert [outcome.answer for outcome in outcomes] == [f"re m{n}" for n in range(5)]
    assert [item.text for item in said] == [text for n in range(5) for text in (f"m{n}", f"re m{n}")]
    assert (row.name, row.calls) == ("ana", 5)


DIES = """
import asyncio, sys
from capataz import Agent, App, tool
from capataz.testing.scripted import ScriptedModel, calls

@tool(kind="write", target="order")
def refund(order: str) -> str:
    print("at work", flush=True)
    import time; time.sleep(100)
    return "done"

async def main(path):
    async with App(f"sqlite:///{path}") as app:
        agent = Agent("clerk", ScriptedModel(calls(("refund", {"order": "81"}))), [refund])
        await agent.arun("refund 81", app=app, conversation="c")

asyncio.run(main(sys.argv[1]))
"""


def killed_at_work(path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", DIES, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "at work"
    os.kill(child.pid, signal.SIGKILL)
    child.wait(timeout=10)
    child.stdout.close()


async def test_a_killed_run_blocks_nobody_and_its_act_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.db"
    await asyncio.to_thread(killed_at_work, path)
    # Its lease ends half a minute after its last word.
    clock = FakeClock((await SqliteStore(path).runs())[0].started_at + 31)
    agent = Agent("clerk", ScriptedModel(calls(("refund", {"order": "81"})), "I cannot."), [refund])
    async with App(f"sqlite:///{path}", clock=clock) as app:
        (left,) = await app.store.runs()
        outcome = await agent.arun("well?", app=app, conversation="c")
        refused = [fact for fact in await facts_of(app, outcome.run) if isinstance(fact, ToolRefused)]
        _, said = await app.conversations.read("c")
        lease = await app.store.claim(left.run, "somebody")
    assert REFUNDED == []
    assert [fact.reason for fact in refused][:1] == ["ledger"]
    assert [item.text for item in said][:2] == ["refund 81", "well?"]
    assert lease.epoch == 3  # the killed run was shut out before anybody went on


async def test_a_message_nobody_stands_beside_any_more_is_seen_by_the_next_run(
    store: MemoryStore | SqliteStore,
) -> None:
    clock = FakeClock()
    agent, model = talker("Hello to both.")
    async with App(store, clock=clock) as app:
        await store.conversations(clock.now).arrive(Arrived("c", "gone", "talker", "is anybody there?", patience=30))
        (waiting,) = await app.conversations.list()
        assert (waiting.waiting, waiting.messages) == (1, 0)
        clock.move(31)
        await agent.arun("hello?", app=app, conversation="c")
    assert seen(model.requests[0]) == ["user: is anybody there?", "user: hello?"]


@pytest.mark.parametrize("after", [0.0, 0.005, 0.02, 0.1])
async def test_a_cancelled_caller_lets_the_next_one_in_at_once(store: MemoryStore | SqliteStore, after: float) -> None:
    class Hangs(ScriptedModel):
        async def complete(self, request: ModelRequest, beat: Any) -> Reply:
            if request.history[-1].text == "one":
                await asyncio.sleep(60)
            return await super().complete(request, beat)

    agent = Agent("talker", Hangs("Here I am."), role="talking")
    async with App(store) as app:
        first = asyncio.create_task(agent.arun("one", app=app, conversation="c"))
        waiting = asyncio.create_task(agent.arun("never", app=app, conversation="c"))
        await asyncio.sleep(after)
        for task in (waiting, first):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        second = await asyncio.wait_for(agent.arun("two", app=app, conversation="c"), 5)
    assert second.answer == "Here I am."


async def test_a_conversation_is_one_person_s_with_one_agent(store: MemoryStore | SqliteStore) -> None:
    agent, model = talker("hello")
    other = Agent("other", ScriptedModel("hi"), role="talking")
    async with App(store) as app:
        await agent.arun("my secret", app=app, conversation="c", tenant="acme", user="ana")
        for tenant, user in (("rival", "ana"), ("acme", "ben")):
            with pytest.raises(Misuse, match="with another"):
                await agent.arun("tell me", app=app, conversation="c", tenant=tenant, user=user)
        with pytest.raises(Misuse, match="with another agent"):
            await other.arun("tell me", app=app, conversation="c", tenant="acme", user="ana")
        for name in ("", " ", "x" * 201):
            with pytest.raises(Misuse, match="1 to 200"):
                await agent.arun("x", app=app, conversation=name)
            with pytest.raises(Misuse, match="1 to 200"):
                await agent.asubmit("x", app=app, conversation=name)
        with pytest.raises(Misuse, match="is text"):
            await agent.arun("x", app=app, conversation=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert len(model.requests) == 1


async def test_what_a_run_leaves_may_be_told_twice(store: MemoryStore | SqliteStore) -> None:
    talks = store.conversations(lambda: 5.0)
    await talks.arrive(Arrived("c", "r1", "a", "hi", patience=9))
    assert await talks.enter("c", "r1", 30) is not None
    for _ in range(2):
        await talks.leave("c", "r1", Told("hello", "", 0, ("k",)))
    await talks.arrive(Arrived("c", "r2", "a", "again", patience=9))
    entered = await talks.enter("c", "r2", 30)
    assert entered is not None
    assert entered.said == (Said("user", "hi", "r1"), Said("assistant", "hello", "r1"))
    assert entered.standing == ("k",)
    assert not await talks.stay("c", "r1", 30)
    with pytest.raises(NotFound):
        await talks.enter("nowhere", "r2", 30)


# ── long conversations ───────────────────────────────────────────────────────────────────────────────────────


class Chat:
    """A model that answers, and writes summaries; it keeps what it was given for them."""

    def __init__(self, summary: Any = None) -> None:
        self.summaries: list[str] = []
        self.summary = summary

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        text = request.history[-1].text
        if text.startswith("Summary so far:"):
            self.summaries.append(text)
            return self.summary or says(f"SUMMARY-{len(self.summaries)}", Usage(5, 5))
        return says(f"re {text}", Usage(7, 3))


def long(n: int) -> str:
    return f"<{n}> " + " ".join(f"word{n + k}" for k in range(30))


async def test_a_long_conversation_is_summarised_once_and_its_last_messages_are_the_same() -> None:
    chat = Chat()
    model = ScriptedModel(chat)
    agent = Agent("talker", model, role="talking", window=4000, keep_last=6)
    async with App(MemoryStore(), clock=FakeClock(), chance=FakeChance()) as app:
        for n in range(60):
            await agent.arun(long(n), app=app, conversation="c")
        thread, said = await app.conversations.read("c")
        sources = {row.name: row.calls for row in await app.accounts.spent("source")}
    last = model.requests[-1].history
    assert len(chat.summaries) >= 3
    assert sources == {"loop": 60, "compressor": len(chat.summaries)}
    for n in range(40):
        # Once as the person's words, once as the answer that repeats them.
        assert sum(text.count(f"user: <{n}> ") for text in chat.summaries) == 1
        assert sum(text.count(f"re <{n}> ") for text in chat.summaries) == 1
    assert f"Summary so far:\nSUMMARY-{len(chat.summaries) - 1}" in chat.summaries[-1]
    assert last[0].text == f"{SUMMARY_MARK}\nSUMMARY-{len(chat.summaries)}"
    kept = [Message(item.role, item.text) for item in said[thread.summarised : -1]]
    assert list(last[1:]) == kept
    assert thread.summary == f"SUMMARY-{len(chat.summaries)}"
    assert max(sum(len(m.text) for m in r.history) // 4 for r in model.requests) < 4000


@pytest.mark.parametrize("broken", [Fault("transient", "server-error", "x", 500), says(""), says("y" * 9000)])
async def test_a_summary_that_fails_keeps_the_old_one_and_the_conversation_goes_on(broken: Reply | Fault) -> None:
    chat = Chat()
    model = ScriptedModel(chat)
    agent = Agent("talker", model, role="talking", window=4000, keep_last=6)
    async with App(MemoryStore(), clock=FakeClock(), chance=FakeChance()) as app:
        for n in range(25):
            if len(chat.summaries) == 1:
                chat.summary = broken
            outcome = await agent.arun(long(n), app=app, conversation="c")
            assert isinstance(outcome, Answered)
        thread, _ = await app.conversations.read("c")
    assert len(chat.summaries) > 1
    assert thread.summary == "SUMMARY-1"
    assert f"{SUMMARY_MARK}\nSUMMARY-1" in model.requests[-1].history[0].text


async def test_a_summary_made_in_the_middle_of_a_run_serves_the_next_one() -> None:
    chat = Chat()

    def model(request: ModelRequest) -> Reply | Fault:
        text = request.history[-1].text
        if text.startswith("read") or (text.startswith("PAGE") and len(request.history) < 12):
            return calls(("page", {"n": len(request.history)}), text="note " + "n" * 200, usage=Usage(900, 10))
        return chat(request)

    agent = Agent("talker", ScriptedModel(model), [page], role="talking", window=1200, keep_last=4)
    async with App(MemoryStore(), clock=FakeClock(), chance=FakeChance()) as app:
        for n in range(3):
            await agent.arun(f"hello {n}", app=app, conversation="c")
        busy = await agent.arun("read the book", app=app, conversation="c")
        compressed = [fact for fact in await facts_of(app, busy.run) if isinstance(fact, HistoryCompressed)]
        thread, _ = await app.conversations.read("c")
        after = await agent.arun("and?", app=app, conversation="c")
        recalled = [fact for fact in await facts_of(app, after.run) if isinstance(fact, ConversationRecalled)]
    assert compressed
    assert thread.summarised == 6
    assert recalled[0].summary == compressed[-1].summary
    assert recalled[0].said[0].text == "read the book"
    assert "PAGE" not in str(recalled[0])


# ── listing and erasing ──────────────────────────────────────────────────────────────────────────────────────


def everything(folder: Path) -> bytes:
    return b"".join(found.read_bytes() for found in folder.iterdir())


async def test_an_erased_conversation_is_nowhere_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    helper = Agent("helper", ScriptedModel("HELPER-WORDS"), role="talking")
    steps = (calls(("helper", {"task": "SUBTASK-WORDS"})), "ANSWER-WORDS")
    agent = Agent("talker", ScriptedModel(*steps), [helper.as_tool()], role="talking")
    async with App(f"sqlite:///{path}") as app:
        await agent.arun("TASK-WORDS", app=app, conversation="c", tenant="acme")
        await Agent("talker", ScriptedModel("OTHER-WORDS"), role="talking").arun("x", app=app, conversation="d")
        before = everything(tmp_path)
        assert await app.conversations.erase("c") == 2
        (left,) = await app.conversations.list()
        (run,) = await app.store.runs()
        (row,) = await app.accounts.spent("tenant")
        with pytest.raises(NotFound):
            await app.conversations.read("c")
    after = everything(tmp_path)
    for word in (b"HELPER-WORDS", b"SUBTASK-WORDS", b"ANSWER-WORDS", b"TASK-WORDS"):
        assert word in before
        assert word not in after
    assert b"OTHER-WORDS" in after
    assert (left.conversation, run.conversation, row.calls) == ("d", "d", 3)


async def test_whoever_takes_an_erased_name_is_given_nothing_of_the_one_before(
    store: MemoryStore | SqliteStore,
) -> None:
    """The placeholders of a conversation live as long as it does, also in the memory of a worker."""
    agent = Agent("clerk", ScriptedModel("I have <EMAIL_1>."), role="talking")
    async with App(store) as app:
        for _ in range(2):
            first = await agent.arun("I am ana@example.com", app=app, conversation="talk", user="ana")
            assert first.answer == "I have ana@example.com."
        await app.conversations.erase("talk")
        second = await agent.arun("What do you have?", app=app, conversation="talk", user="ben")
        assert second.answer == "I have <EMAIL_1>."


async def test_a_conversation_is_not_erased_while_a_run_is_at_work(store: MemoryStore | SqliteStore) -> None:
    agent, _ = talker("hello")
    async with App(store) as app:
        await agent.arun("hi", app=app, conversation="c")
        talks = store.conversations()
        await talks.arrive(Arrived("c", "busy", "talker", "wait", patience=30))
        assert await talks.enter("c", "busy", 30) is not None
        with pytest.raises(Misuse, match="at work"):
            await app.conversations.erase("c")
        await talks.leave("c", "busy", Told())
        await app.conversations.erase("c")
        assert await app.conversations.list() == []
        assert await app.store.runs() == []
