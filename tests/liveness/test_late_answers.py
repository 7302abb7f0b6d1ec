"""A call that was given up on takes effect, and answers, much later: nothing is done twice, nothing is mixed up."""

from __future__ import annotations

import asyncio
import time

from capataz import Agent, Completed, Escalated, Partial, tool
from capataz.events.facts import EffectChecked, ModelReplied, ToolAnsweredLate, ToolFinished, ToolRefused, ToolStarted
from capataz.guards.catalogue import default_guards
from capataz.guards.watch import Watch
from capataz.kernel.evolve import fold
from capataz.kernel.state import Rules
from capataz.policy.policy import Policy
from capataz.ports import ModelRequest, Reply
from capataz.testing.scripted import ScriptedModel, calls, given, says
from tests.liveness.conftest import Yard


class Insisting(ScriptedModel):
    """Asks for the job, asks for it again, and then, after a while, says that it is there."""

    def __init__(self, pause: float) -> None:
        super().__init__(self.answer)
        self.pause = pause
        self.read: list[str] = []

    async def complete(self, request: ModelRequest, beat: object) -> Reply:
        turns = sum(message.role == "assistant" for message in request.history)
        self.read = [message.text for message in request.history]
        if turns == 2:
            await asyncio.sleep(self.pause)
        return calls(("create_job", {"name": "nightly"})) if turns < 2 else says("created")

    def answer(self, request: ModelRequest) -> Reply:
        return says("unused")


async def test_the_late_answer_belongs_to_the_first_call_and_there_is_one_job(yard: Yard) -> None:
    jobs: list[str] = []

    @tool(kind="write", target="name", timeout=0.1, settle=1.0, confirm=lambda name, **_: name in jobs)
    def create_job(name: str) -> str:
        time.sleep(0.4)
        jobs.append(name)
        return f"job {name}"

    outcome = await Agent("planner", Insisting(0.0), tools=[create_job]).arun("nightly job", app=yard.app)
    facts = await yard.facts(outcome.run)
    assert jobs == ["nightly"]
    assert isinstance(outcome, Completed)
    (first,) = (fact for fact in facts if isinstance(fact, ToolFinished))
    assert first.in_doubt
    assert "check before repeating" in str(first.result)
    (late,) = (fact for fact in facts if isinstance(fact, ToolAnsweredLate))
    assert (late.turn, late.position, late.tool, late.result) == (1, 0, "create_job", "job nightly")
    assert late.seconds >= 0.4
    assert [fact.reason for fact in facts if isinstance(fact, ToolRefused)] == ["ledger"]
    assert sum(isinstance(fact, ToolStarted) for fact in facts) == 1


async def test_without_a_read_back_the_repeat_is_held_and_a_person_decides(yard: Yard) -> None:
    jobs: list[str] = []

    @tool(kind="write", target="name", timeout=0.1)
    def create_job(name: str) -> str:
        time.sleep(1.5)
        jobs.append(name)
        return f"job {name}"

    outcome = await Agent("planner", Insisting(0.0), tools=[create_job]).arun("nightly job", app=yard.app)
    assert isinstance(outcome, Escalated)
    assert outcome.reason == "in-doubt"
    facts = await yard.facts(outcome.run)
    assert sum(isinstance(fact, ToolStarted) for fact in facts) == 1
    await asyncio.sleep(1.6)
    assert jobs == ["nightly"]
    late = [fact for fact in await yard.facts(outcome.run) if isinstance(fact, ToolAnsweredLate)]
    assert [fact.result for fact in late] == ["job nightly"], "it is told even while a person is asked"


async def test_the_model_is_told_of_the_late_answer_and_the_read_back_is_asked_again(yard: Yard) -> None:
    jobs: list[str] = []

    @tool(kind="write", target="name", timeout=0.1, confirm=lambda name, **_: name in jobs)
    def create_job(name: str) -> str:
        time.sleep(0.4)
        jobs.append(name)
        return f"job {name}"

    model = Insisting(0.6)
    outcome = await Agent("planner", model, tools=[create_job]).arun("nightly job", app=yard.app)
    assert jobs == ["nightly"]
    facts = await yard.facts(outcome.run)
    assert [fact.answer for fact in facts if isinstance(fact, EffectChecked)] == ["no", "no", "yes"]
    assert isinstance(outcome, Completed)
    assert sum(isinstance(fact, ToolAnsweredLate) for fact in facts) == 1


def test_a_note_of_a_late_answer_waits_for_the_end_of_the_batch() -> None:
    """Nothing may come between a call and its result, or a provider refuses the history."""
    from capataz.events.facts import Call, RunStarted

    old = Call(1, 0, "c1", "send", {}, kind="message")
    one, two = (Call(2, n, f"c{n + 2}", "look", {}, kind="read") for n in range(2))
    log = given(
        RunStarted("r", "a", "task"),
        ModelReplied(1, 0, "", (old,)),
        ToolStarted(1, 0, "send"),
        ToolFinished(old, {"error": "unknown"}, error=True, in_doubt=True),
        ModelReplied(2, 0, "", (one, two)),
        ToolStarted(2, 0, "look"),
        ToolFinished(one, "first"),
        ToolAnsweredLate(1, 0, "send", "sent"),
        ToolFinished(two, "second"),
    )
    state = fold(Rules(Policy(), Watch(default_guards())), log)
    told = [(message.role, message.text.splitlines()[0]) for message in state.transcript.messages[-2:]]
    assert told == [("tool", "first"), ("tool", "second")]
    assert "answered late: sent" in state.transcript.messages[-1].text
    assert state.ledger.acts[1, 0].standing == "unconfirmed"


async def test_a_late_error_frees_the_act(yard: Yard) -> None:
    tries: list[float] = []

    @tool(kind="write", target="name", timeout=0.1)
    def create_job(name: str) -> str:
        tries.append(time.monotonic())
        if len(tries) == 1:
            time.sleep(0.25)
            raise ValueError("there is no such queue")
        return "ok"

    model = ScriptedModel(
        calls(("create_job", {"name": "nightly"})),
        calls(("create_job", {"name": "other"})),
        calls(("create_job", {"name": "nightly"})),
        says("created"),
    )
    steps = iter((0.0, 0.0, 0.4, 0.0))
    real = model.complete

    async def slowly(request: ModelRequest, beat: object) -> Reply:
        await asyncio.sleep(next(steps, 0.0))
        return await real(request, beat)  # type: ignore[arg-type]

    model.complete = slowly  # type: ignore[method-assign]
    outcome = await Agent("planner", model, tools=[create_job]).arun("jobs", app=yard.app)
    assert isinstance(outcome, Partial | Escalated)
    assert len(tries) == 3, "after its late error the first one is known to have failed, and may be tried again"
