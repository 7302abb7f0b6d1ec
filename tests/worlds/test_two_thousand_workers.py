"""Two thousand workers that misbehave in every known way, mixed, over HTTP in both wire formats, on a real shop.

Whatever they do: every run ends, within its ceilings, in one of the five outcomes; none is completed unless the shop's
own tables show the refund; and no request ever leaves that a strict provider would not take.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from capataz import Budget, Completed, Outcome
from capataz.app import App
from capataz.demo.clerk import clerk
from capataz.demo.shop import Gateway, Rows, Shop
from capataz.outcome import Aborted, Answered, Escalated, Partial
from capataz.ports import Deadlines
from capataz.stores.memory import MemoryStore
from capataz.testing.script import Ask, Script, Step, Trouble, Turn, say, status, use
from capataz.testing.scripted import FakeChance, FakeClock
from capataz.testing.worker import UnreliableWorker

TOGETHER = 40
"""Runs of one example, side by side: five times ten examples of them are two thousand."""
SHORT = Deadlines(connect=10.0, first_byte=0.25, silence=0.25, total=2.0)
LIMITS = Budget(turns=8, calls=12, tokens=40_000, seconds=600.0)

orders = st.sampled_from(["81", "82", "12345", ""])
amounts = st.sampled_from([1250, 1250.0, 100, -5, "many"])
turns = st.one_of(
    st.builds(lambda order, cents: use("refund", order_id=order, cents=cents), orders, amounts),
    st.builds(
        lambda order, text: use("send_message", order_id=order, text=text), orders, st.sampled_from(["sorry", "done"])
    ),
    st.builds(lambda order: use("get_order", order_id=order), orders),
    st.builds(lambda words: use("find_orders", query=words), st.sampled_from(["81", "lamp", "unicorn", ""])),
    st.sampled_from(
        [
            say("Order 81 has been refunded and the customer knows. It is done!"),
            say("I will refund the order now."),
            say(""),
            Turn(thinking="Perhaps it is done already."),
            say('```json\n{"name": "refund", "arguments": {"order_id": "81", "cents": 1250}}\n```'),
            use("issue_refund", order_id="81"),
            Turn(calls=(Ask("refund", '{"order_id": "81", "cents": 12'),)),
            Turn(calls=(Ask("refund", '{"order_id": "81", "cents": 12'),), stop="length"),
            Turn(calls=(Ask("refund", {"order_id": "81", "cents": 1250}),) * 2),
            Turn(calls=(Ask("get_order", {"order_id": "81"}, "x"), Ask("get_order", {"order_id": "82"}, "x"))),
            Turn("I must not do that.", stop="refusal"),
            Turn("This goes on and", stop="length"),
        ]
    ),
)
troubles = st.sampled_from(
    [
        *(status(code) for code in (400, 401, 403, 404, 408, 413, 422, 500, 503, 529)),
        status(429, wait=1.0),
        status(429, reason="insufficient_quota"),
        *(Trouble(kind) for kind in ("hang", "stall", "cut", "drop", "malformed", "stream-error")),
    ]
)
steps: st.SearchStrategy[Step] = st.one_of(turns, turns, turns, troubles)


@dataclass(frozen=True)
class Case:
    """One worker and the world it works in."""

    script: Script
    gateway: Gateway
    catalogue: bool
    checked: bool
    anthropic: bool


cases = st.builds(
    Case,
    st.builds(lambda first, after: Script(tuple(first), after), st.lists(steps, max_size=6), turns),
    st.sampled_from(["works", "pending", "declines"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


async def run_one(case: Case, number: int, worker: UnreliableWorker, app: App, folder: Path) -> tuple[Outcome, Rows]:
    shop = Shop.open(folder / f"{number}.db", gateway=case.gateway, catalogue=case.catalogue)
    wire: Literal["openai", "anthropic"] = "anthropic" if case.anthropic else "openai"
    name = worker.play(f"worker-{number}", case.script)
    agent = clerk(shop, f"{wire}:{name}", base_url=worker.url(wire), api_key="any", deadlines=SHORT)
    agent = replace(agent, budget=LIMITS, done_when=agent.done_when if case.checked else ())
    outcome = await agent.arun(f"Refund order 81, number {number}.", app=app)
    return outcome, shop.rows()


async def run_all(batch: Sequence[Case]) -> tuple[list[tuple[Outcome, Rows]], list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        async with UnreliableWorker() as worker, App(MemoryStore(), clock=FakeClock(), chance=FakeChance()) as app:
            runs = (run_one(case, number, worker, app, Path(folder)) for number, case in enumerate(batch))
            return list(await asyncio.gather(*runs)), worker.violations


@pytest.mark.parametrize("part", range(5))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.reuse, Phase.generate))
@given(batch=st.lists(cases, min_size=TOGETHER, max_size=TOGETHER))
def test_two_thousand_workers_and_not_one_false_completion(part: int, batch: list[Case]) -> None:
    ended, violations = asyncio.run(run_all(batch))
    assert violations == []
    for case, (outcome, rows) in zip(batch, ended, strict=True):
        assert isinstance(outcome, Completed | Answered | Partial | Escalated | Aborted)
        assert outcome.answer.strip()
        spend = outcome.spend
        assert spend.turns <= 8
        assert spend.calls <= 12
        assert spend.tokens <= 40_000
        assert rows.refunds <= 6, "one for each order and amount that the worker may ask for"
        if case.gateway != "works":
            assert rows.refunds == 0
        if isinstance(outcome, Completed):
            assert rows.refunds + rows.messages > 0
            if case.checked:
                assert rows.refunds > 0
                assert rows.messages > 0
        if isinstance(outcome, Answered):
            assert (rows.refunds, rows.messages) == (0, 0)
