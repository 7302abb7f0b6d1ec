"""What leaves for a provider is masked; what comes back is whole again, for the person and for the tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from capataz import Agent, Answered, App, Completed, tool
from capataz.events.facts import Call, Fault, ModelCallFailed, ToolFinished, Usage
from capataz.memory.message import Message
from capataz.models.masking import LARGE, Masking
from capataz.ports import ModelRequest, Reply
from capataz.privacy.mask import Mask
from capataz.privacy.pseudonyms import Pseudonyms
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says
from tests.runtime.conftest import World

MAIL, PHONE = "iris.fletcher@example.org", "+34 612 345 678"
SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4"


def sent(model: ScriptedModel) -> str:
    """Everything that left, as text."""
    return "\n".join(
        request.system + "".join(f"{m.text}{m.thinking}{[c.arguments for c in m.calls]}" for m in request.history)
        for request in model.requests
    )


async def test_personal_data_leave_as_placeholders_and_come_back_in_arguments_and_answers(world: World) -> None:
    written: list[str] = []

    @tool(kind="message", target="to", confirm=lambda to: to in written)
    def mail(to: str) -> str:
        """Write to somebody."""
        written.append(to)
        return f"sent to {to}"

    model = ScriptedModel(calls(("mail", {"to": "<EMAIL_1>"})), says("I wrote to <email_1> for you."))
    outcome = await Agent("clerk", model, [mail]).arun(f"Write to {MAIL}, or call {PHONE}", app=world.app)
    assert isinstance(outcome, Completed)
    assert written == [MAIL]
    assert outcome.answer == f"I wrote to {MAIL} for you."
    assert MAIL not in sent(model)
    assert PHONE not in sent(model)
    assert "sent to <EMAIL_1>" in sent(model)


async def test_a_tool_that_refuses_them_gets_the_placeholders(world: World) -> None:
    seen: list[str] = []

    @tool(kind="read", restore=False)
    def remote(to: str) -> str:
        """Somebody else's service."""
        seen.append(to)
        return "ok"

    model = ScriptedModel(calls(("remote", {"to": "<EMAIL_1>"})), says("Done."))
    await Agent("clerk", model, [remote], role="talking").arun(f"Ask about {MAIL}", app=world.app)
    assert seen == ["<EMAIL_1>"]


async def test_secrets_never_come_back_to_anyone(world: World) -> None:
    model = ScriptedModel("Your key is <API_KEY>.")
    outcome = await Agent("clerk", model, role="talking").arun(f"My key is {SECRET}", app=world.app)
    assert isinstance(outcome, Answered)
    assert SECRET not in sent(model)
    assert SECRET not in outcome.answer


async def test_a_child_shares_the_placeholders_of_its_root(world: World) -> None:
    child_model = ScriptedModel("It is <EMAIL_1>.")
    child = Agent("child", child_model, role="talking")
    boss = ScriptedModel(calls(("child", {"task": "who is <EMAIL_1>?"})), says("<EMAIL_1>"))
    outcome = await Agent("boss", boss, [child.as_tool()], role="talking").arun(f"Who is {MAIL}?", app=world.app)
    assert outcome.answer == MAIL
    assert "who is <EMAIL_1>?" in sent(child_model)


async def test_the_summary_of_a_long_history_is_masked_too(world: World) -> None:
    @tool(kind="read")
    def page(n: int) -> str:
        """Read."""
        return "x" * 900

    def step(request: ModelRequest) -> Reply:
        if not request.tools:
            return says("talked about <EMAIL_1>")
        usage = Usage(sum(len(message.text) for message in request.history) // 4, 10)
        if len(model.requests) > 10:
            return says("end", usage)
        return calls(("page", {"n": len(model.requests)}), text=f"note {MAIL}", usage=usage)

    model = ScriptedModel(step)
    agent = Agent("reader", model, [page], role="talking", window=1500, keep_last=3)
    await agent.arun(f"Read for {MAIL}", app=world.app)
    assert any(not request.tools for request in model.requests)
    assert MAIL not in sent(model)


async def test_errors_keep_no_secret_even_in_the_log(world: World) -> None:
    @tool(kind="read")
    def crm(name: str) -> str:
        """Ask the CRM."""
        raise RuntimeError(f"cannot connect to postgres://u:hunter2-LEAK@db/x with {SECRET}")

    echoed = Fault("transient", "server-error", f"bad header: Bearer {SECRET}")
    model = ScriptedModel(echoed, calls(("crm", {"name": "a"})), says("It does not work."))
    outcome = await Agent("clerk", model, [crm], role="talking").arun("look", app=world.app)
    facts = await world.facts(outcome.run)
    kept = repr([fact for fact in facts if isinstance(fact, (ToolFinished, ModelCallFailed))])
    assert "LEAK" not in kept
    assert SECRET not in kept
    assert "cannot connect" in kept


async def test_secrets_of_the_environment_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_TOKEN", "correct horse battery")
    model = ScriptedModel("ok")
    async with App(MemoryStore(), clock=FakeClock(), chance=FakeChance()) as app:
        await Agent("clerk", model, role="talking").arun("use correct horse battery", app=app)
    assert "correct horse battery" not in sent(model)


@pytest.mark.parametrize("mask", [False, Mask(classes=["phone"])])
async def test_a_mask_of_ones_own_or_none(mask: Any) -> None:
    model = ScriptedModel("ok")
    async with App(MemoryStore(), clock=FakeClock(), chance=FakeChance(), mask=mask) as app:
        await Agent("clerk", model, role="talking").arun(f"write to {MAIL}", app=app)
    assert MAIL in sent(model)


async def test_a_message_is_masked_once_and_stays_the_same_object(world: World) -> None:
    model = ScriptedModel(*[calls(("look", {"order": str(n)})) for n in range(4)], says("end"))
    await Agent("clerk", model, [world.look], role="talking").arun(f"about {MAIL}", app=world.app)
    first = [request.history[0] for request in model.requests]
    assert all(message is first[0] for message in first)


async def test_the_log_holds_originals_and_the_model_never_sees_its_own_arguments_unmasked(world: World) -> None:
    model = ScriptedModel(calls(("look", {"order": "<EMAIL_1>"})), says("seen"))
    outcome = await Agent("clerk", model, [world.look], role="talking").arun(f"look up {MAIL}", app=world.app)
    asked = next(fact for fact in await world.facts(outcome.run) if isinstance(fact, ToolFinished))
    assert isinstance(asked.call, Call)
    assert asked.call.arguments == {"order": MAIL}
    assert MAIL not in sent(model)


async def test_declarations_of_tools_and_parameters_are_masked_too(world: World) -> None:
    @tool(kind="read")
    def ask(who: str = MAIL) -> str:
        """Ask ana@example.com."""
        return "ok"

    seen: list[str] = []

    def step(request: ModelRequest) -> str:
        seen.append(repr(request.tools) + repr(request.extra))
        return "done"

    agent = Agent("clerk", ScriptedModel(step), [ask], role="talking", extra={"user": MAIL, "key": SECRET})
    await agent.arun("go", app=world.app)
    assert MAIL not in seen[0]
    assert "ana@example.com" not in seen[0]
    assert SECRET not in seen[0]


def asking(text: str) -> ModelRequest:
    return ModelRequest("small", "", [Message("user", text)])


async def test_a_huge_text_is_masked_while_the_event_loop_goes_on_beating() -> None:
    text = f"Nothing but words, 12 or 13 of them, and {MAIL}. " * 40_000
    assert len(text) > 20 * LARGE
    masking = Masking(Mask(), Pseudonyms())
    work = asyncio.create_task(masking.leaving(asking(text)))
    beats = 0
    while not work.done():
        await asyncio.sleep(0.005)
        beats += 1
    assert beats > 10  # on the loop it would be one
    assert (await work).history[0].text == Mask().text(text, Pseudonyms(), foreign=True)


async def test_placeholders_of_one_conversation_are_given_out_by_one_at_a_time() -> None:
    shared, turn = Pseudonyms(), asyncio.Lock()
    large = "".join(f"{number}@example.org says so. " for number in range(LARGE // 20))
    first = asyncio.create_task(Masking(Mask(), shared, (), turn).leaving(asking(large)))
    await asyncio.sleep(0)
    second = asyncio.create_task(Masking(Mask(), shared, (), turn).leaving(asking("last@example.org")))
    await asyncio.sleep(0)
    first.cancel()  # nobody waits for it any more, and it is finished all the same before the second begins
    assert (await second).history[0].text == f"<EMAIL_{LARGE // 20 + 1}>"
