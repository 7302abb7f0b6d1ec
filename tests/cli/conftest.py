"""A store with runs made by hand, and a module with agents whose models are scripted."""

import asyncio
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

from capataz.events.facts import (
    Call,
    Event,
    Evidence,
    Fact,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunStarted,
    ToolFinished,
    ToolStarted,
    Usage,
    VerdictGiven,
)
from capataz.stores.open import open_store

AGENTS = '''
from capataz import Agent, Budget, tool
from capataz.events.facts import Fault
from capataz.testing.scripted import ScriptedModel, calls, says

done = []

@tool(kind="write", target="order", confirm=lambda order: order in done)
def pay(order: str) -> str:
    """Pay an order."""
    done.append(order)
    return "paid"

@tool(kind="write", target="order", confirm=lambda order: False)
def pretend(order: str) -> str:
    """Pay an order, or not."""
    return "paid"

def model(*steps):
    return ScriptedModel(*steps)

completes = Agent("completes", model(calls(("pay", {"order": "81"})), says("Paid.")), [pay])
answers = Agent("answers", model(says("Hello.")), role="talking")
partial = Agent("partial", model(calls(("pretend", {"order": "81"})), says("Paid.")), [pretend])
escalates = Agent("escalates", model(Fault("auth", "key", "no such key", 401)), [pay])
aborts = Agent("aborts", model(Fault("contract", "shape", "nonsense", retries=0)), [pay])

def made():
    return answers

number = 7
'''


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of agents, as a user has one; it is the current folder."""
    (tmp_path / "crew.py").write_text(AGENTS)
    sys.modules.pop("crew", None)  # that of another test: its models have said what they had to say
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CAPATAZ_STORE", raising=False)
    return tmp_path


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


def finished(run: str, agent: str = "support") -> list[Event]:
    """A run that paid and was stopped when it paid again."""
    pay = Call(1, 0, "c1", "pay", {"order": "81"}, "write", "81")
    facts: Sequence[Fact] = (
        RunStarted(run, agent, "Pay order 81 [bold]now[/bold]", model="openai:m"),
        ModelCallStarted(1, 0, "m"),
        ModelReplied(1, 0, "I pay. \x1b[31mred", (pay,), usage=Usage(100, 20, money=Decimal("0.25")), seconds=0.5),
        ToolStarted(1, 0, "pay"),
        ToolFinished(pay, {"status": "paid"}, seconds=0.1),
        VerdictGiven("stop", "looping", "identical", "pay#81", (4,), 1, "the same payment again"),
        RunEnded(
            "partial", "identical", "the same payment again", "I paid.", 1, (Evidence("effect", "pay 81", "row 1", 4),)
        ),
    )
    return [Event(seq, 1_700_000_000.0 + seq, fact) for seq, fact in enumerate(facts)]


async def keep(url: str, runs: Sequence[tuple[str, Sequence[Event]]]) -> None:
    store = open_store(url)
    for run, events in runs:
        lease = await store.claim(run, "test")
        await store.append(lease, 0, events)
    await store.close()


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with three runs: two that ended, one still going on."""
    url = f"sqlite:///{tmp_path}/kept.db"
    running = finished("0198-cc", "other")[:4]
    asyncio.run(keep(url, [("0197-aa", finished("0197-aa")), ("0197-bb", finished("0197-bb")), ("0198-cc", running)]))
    return url
