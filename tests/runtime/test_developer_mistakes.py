"""A wrong kind of value is told where it is given, in words that say what to give instead."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from capataz import Agent, App, Budget, Misuse, tool
from capataz.mistakes import StoreError, ToolMisuse
from capataz.ports import Job
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import ScriptedModel, says


def look() -> str:
    """Look."""
    return "seen"


def wants(nothing: str) -> bool:
    return bool(nothing)


class Watching:
    """A guard of a user's."""

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self) -> int:
        return 0

    def step(self, state: int, event: object, /) -> tuple[int, None]:
        return state, None


def agent(**given: object) -> Agent:
    return Agent(**cast("dict[str, Any]", {"name": "support", "model": "openai:m", **given}))


def budget(**given: object) -> Budget:
    return Budget(**cast("dict[str, Any]", given))


def app(*places: object, **given: object) -> App:
    return App(*cast("tuple[Any, ...]", places), **cast("dict[str, Any]", given))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: agent(tools=look), "tools=[...]"),
        (lambda: agent(tools=tool(look)), "tools=[...]"),
        (lambda: agent(done_when=look), "done_when=[...]"),
        (lambda: agent(name=None), "needs a name, as text, not None"),
        (lambda: agent(name=" "), "needs a name"),
        (lambda: agent(instructions=None), "instructions=None: give text"),
        (lambda: agent(model=None), 'model=None: give "openai:NAME"'),
        (lambda: agent(model=""), "model=''"),
        (lambda: agent(model=ScriptedModel), "an object with a method `complete`"),
        (lambda: agent(summary_model=5), "summary_model=5"),
        (lambda: agent(guards=[object()]), "a guard is an object with `name`"),
        (lambda: agent(guards=[Watching("repeating")]), "'repeating' is the name of a built-in guard"),
        (lambda: agent(guards=[Watching("mine"), Watching("mine")]), "another of its guards"),
        (lambda: agent(answer=object()), "give the type of the answer"),
        (lambda: agent(budget=5), "give a Budget"),
        (lambda: agent(policy="policy.toml"), "App(policy=...) also takes a path"),
        (lambda: agent(deadlines=3), "give a Deadlines"),
        (lambda: budget(turns="5"), "Budget(turns='5'): give a whole number above 0"),
        (lambda: budget(turns=1.5), "Budget(turns=1.5): give a whole number"),
        (lambda: budget(calls=0.5), "Budget(calls=0.5)"),
        (lambda: budget(tokens=True), "Budget(tokens=True)"),
        (lambda: budget(money="1"), "Budget(money='1'): give a number above 0"),
        (lambda: budget(seconds=float("nan")), "Budget(seconds=nan)"),
        (lambda: budget(turns=0), "Budget(turns=0)"),
        (lambda: app(5), "App(5): give the URL of a store"),
        (lambda: app("memory:", prices={"m": "10"}), "App(prices={'m': '10'}): give two numbers"),
        (lambda: app("memory:", prices={"m": ("1", "2")}), "give two numbers"),
        (lambda: app("memory:", prices={"m": (-1, 2)}), "0 or more"),
        (lambda: app("memory:", agents=[agent(), agent()]), "two agents are called 'support'"),
        (lambda: app("memory:", agents=agent()), "agents=[...]"),
    ],
)
def test_what_is_described_wrongly_is_refused_when_it_is_made(make: Callable[[], object], told: str) -> None:
    with pytest.raises(Misuse) as refused:
        make()
    assert told in str(refused.value)


@pytest.mark.parametrize("answer", [int, list[int], int | None, dict[str, int], Any])
def test_every_form_of_a_type_is_one(answer: object) -> None:
    assert agent(answer=answer).answer is answer


def test_what_is_described_rightly_is_taken() -> None:
    assert agent(guards=[Watching("mine")], tools=(look,), done_when=[look]).name == "support"
    assert app("memory:", prices={"m": (0, 1.5)}).prices["m"][0] == 0


@pytest.mark.parametrize("task", [None, 5, b"", b"pay", ""])
async def test_a_task_is_words(task: Any) -> None:
    talking = Agent("talks", ScriptedModel(says("Hello.")), role="talking")
    async with App("memory:") as kept:
        with pytest.raises(Misuse, match="say"):
            await kept.arun(talking, task)
        with pytest.raises(Misuse, match="say"):
            await talking.asubmit(task, app=kept)


HALF = "caf\udce9"
"""What an undecodable byte becomes in a file's name."""


@pytest.mark.parametrize("name", ["tenant", "user", "task_type", "conversation", "key"])
@pytest.mark.parametrize(("value", "told"), [(HALF, "is half a character"), (5, "text")])
async def test_a_name_no_store_can_keep_is_refused_where_it_is_given(name: str, value: Any, told: str) -> None:
    talking = Agent("talks", ScriptedModel(says("Hello.")), role="talking")
    async with App("memory:") as kept:
        more: dict[str, Any] = {name: value}
        with pytest.raises(Misuse, match=f"^{name}=.*{told}"):
            await talking.asubmit("Greet.", app=kept, **more)
        if name != "key":
            with pytest.raises(Misuse, match=f"^{name}=.*{told}"):
                await kept.arun(talking, "Greet.", **more)
        assert await kept.store.runs() == []


async def test_half_a_character_is_refused_in_a_submitted_task_and_in_the_name_of_an_agent() -> None:
    talking = Agent("talks", ScriptedModel(says("Hello.")), role="talking")
    async with App("memory:") as kept:
        with pytest.raises(Misuse, match=r"^task=.*is half a character"):
            await talking.asubmit(HALF, app=kept)
    with pytest.raises(Misuse, match="is half a character"):
        agent(name=HALF)


async def test_what_a_queue_in_memory_cannot_keep_leaves_it_as_it_was() -> None:
    queue = MemoryStore().queue()
    for odd in (Job("r", "a", "t", priority=2**70), Job("r", "a", "t", tenant=HALF)):
        with pytest.raises(StoreError, match="in memory"):
            await queue.enqueue(odd)
    assert await queue.enqueue(Job("r", "a", "t")) == "r"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"timeout": None}, "timeout=None: give the seconds"),
        ({"timeout": "5"}, "timeout='5'"),
        ({"settle": "x"}, "settle='x': give seconds"),
        ({"max_result": "all"}, "max_result='all'"),
        ({"approve": 5}, "approve=5: give True"),
        ({"approve": wants}, "approve wants 'nothing'"),
        ({"confirm": wants}, "confirm wants 'nothing'"),
        ({"name": "a b"}, "tool 'a b'"),
    ],
)
def test_a_tool_that_is_declared_wrongly_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolMisuse) as refused:
        tool(look, **given)
    assert told in str(refused.value)
