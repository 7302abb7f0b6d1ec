"""An independent judge of how we treat a provider in trouble: the PyPI package llmock, which watches every request.

It knows nothing of us. It grades what it saw on its own wire: was Retry-After kept, was what cannot be mended tried
again, was there a storm, was half a stream taken for an answer, did anybody wait for ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from llmock.scenarios import Behavior, Fail, Reply, SlowFirstToken, StreamFault, ToolCall, ToolFault
from llmock.testing import LLMockServer

from capataz import Agent, App, Budget, Completed, Deadlines, Outcome, Policy, tool
from capataz.events.facts import ModelCallFailed, ToolStarted
from capataz.stores.memory import MemoryStore

QUICK = """
[providers.openai.transient]
first = 0.06
[providers.openai.rate_limit]
first = 0.06
[providers.openai.unknown]
first = 0.06
"""
POLICY = Policy.from_toml(QUICK + QUICK.replace("openai", "anthropic"))
WIRES = ("openai", "anthropic")


@pytest.fixture(scope="module")
def server() -> Iterator[LLMockServer]:
    with LLMockServer() as running:
        yield running


@pytest.fixture
def judge(server: LLMockServer) -> Iterator[Callable[..., None]]:
    server.state.reset()

    def plan(*behaviors: Behavior) -> None:
        server.state.scenarios.add(*behaviors)

    yield plan
    server.state.reset()


def verdict(server: LLMockServer) -> dict[str, Any]:
    address = server.base_url("openai").removesuffix("/v1") + "/_llmock/verdict"
    with urlopen(address, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


class Shop:
    """What the agent acts on. `paid` counts what really happened."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    @property
    def refund(self) -> Any:
        @tool(kind="write", target="order", confirm=lambda order: order in self.paid)
        def refund(order: str) -> str:
            """Pay the money of an order back."""
            self.paid.append(order)
            return "refunded"

        return refund


async def serve(server: LLMockServer, wire: str, shop: Shop, app: App) -> Outcome:
    agent = Agent(
        "clerk",
        f"{wire}:gpt-4o" if wire == "openai" else f"{wire}:claude-sonnet-4-6",
        [shop.refund],
        base_url=server.base_url(wire),
        api_key="any",
        policy=POLICY,
        budget=Budget(turns=6, seconds=60),
        deadlines=Deadlines(connect=5.0, first_byte=1.0, silence=0.5, total=10.0),
    )
    return await agent.arun("Refund order 81", app=app)


REFUND = Reply(tool_calls=(ToolCall("refund", {"order": "81"}),))
DONE = Reply(text="Order 81 is refunded.")

TROUBLE: dict[str, tuple[Behavior, ...]] = {
    "rate limited": (Fail(429, retry_after=0.5, times=2),),
    "rate limited without a hint": (
        Fail(429, retry_after=0.3),
        Fail(429, times=1),
    ),
    "down": (Fail(503, times=2),),
    "server error": (Fail(500), Fail(502), Fail(504)),
    "overloaded": (Fail(529, times=2),),
    "dropped in the stream": (StreamFault("disconnect"), StreamFault("disconnect", after_chunks=0)),
    "cut without an end mark": (StreamFault("truncate", times=2),),
    "a chunk that is no JSON": (StreamFault("malformed", times=2),),
    "silent in the stream": (StreamFault("stall", stall_seconds=3.0),),
    "silent before the first word": (SlowFirstToken(3.0),),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("trouble", TROUBLE)
async def test_what_passes_is_waited_out_and_the_work_is_done_once(
    server: LLMockServer, judge: Callable[..., None], wire: str, trouble: str
) -> None:
    # A reply is used up by the request whose stream breaks.
    broken = sum(b.times or 1 for b in TROUBLE[trouble] if isinstance(b, (StreamFault, SlowFirstToken)))
    judge(*TROUBLE[trouble], *[REFUND] * (1 + broken), DONE)
    shop = Shop()
    async with App(MemoryStore()) as app:
        outcome = await serve(server, wire, shop, app)
        facts = [event.fact for event in await app.store.read(outcome.run)]
    found = verdict(server)
    assert found["passed"], found
    # The whole damaged answer is in the pipe before we can hang up: to this judge the second call is another one.
    damaged = trouble == "a chunk that is no JSON"
    assert {finding["code"] for finding in found["findings"]} <= ({"malformed_chunk_ignored"} if damaged else set())
    assert any(isinstance(fact, ModelCallFailed) for fact in facts)
    assert isinstance(outcome, Completed), outcome
    assert shop.paid == ["81"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_does_not_pass_is_not_tried_again(
    server: LLMockServer, judge: Callable[..., None], wire: str, status: int
) -> None:
    judge(Fail(status, times=None))
    async with App(MemoryStore()) as app:
        outcome = await serve(server, wire, Shop(), app)
    found = verdict(server)
    assert outcome.name in ("escalated", "aborted")
    assert (found["attempts"], found["findings"]) == (1, []), found


@pytest.mark.parametrize("wire", WIRES)
async def test_an_outage_is_no_storm(server: LLMockServer, judge: Callable[..., None], wire: str) -> None:
    judge(Fail(503, times=None))
    async with App(MemoryStore()) as app:
        outcome = await serve(server, wire, Shop(), app)
    found = verdict(server)
    assert outcome.name == "escalated"
    assert (found["attempts"], found["findings"]) == (4, []), found


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", ["malformed_arguments", "unknown_tool"])
async def test_a_call_that_cannot_be_read_is_never_run(
    server: LLMockServer, judge: Callable[..., None], wire: str, fault: Any
) -> None:
    judge(ToolFault(fault), REFUND, REFUND, DONE)
    shop = Shop()
    async with App(MemoryStore()) as app:
        outcome = await serve(server, wire, shop, app)
        facts = [event.fact for event in await app.store.read(outcome.run)]
    assert verdict(server)["findings"] == []
    assert isinstance(outcome, Completed), outcome
    assert shop.paid == ["81"]
    assert len([fact for fact in facts if isinstance(fact, ToolStarted)]) == 1
