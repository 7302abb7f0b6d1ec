"""The agent of the demo: a clerk of the shop, with four tools, a budget, and checks that say when it is done."""

from __future__ import annotations

from capataz.agent import Agent, Budget
from capataz.checks import Check, CheckContext
from capataz.demo.shop import Shop
from capataz.demo.worker import CENTS, ORDER
from capataz.ports import Deadlines
from capataz.tools.define import Tool, tool

TURNS = 12
"""The ceiling of both loops, the naive one and ours."""

INSTRUCTIONS = (
    "You are a clerk of a small shop. Work with the tools, one step after the other: get the order, refund it, send "
    "the message. When all of it is done, say so in one sentence."
)


def tools(shop: Shop) -> tuple[Tool, ...]:
    """The shop's functions as tools: what each does to the world, on what, and how its effect is read back."""
    return (
        tool(shop.find_orders, kind="search"),
        tool(shop.get_order, kind="read", target="order_id"),
        tool(shop.refund, kind="write", target="order_id", timeout=10, confirm=shop.has_refund),
        tool(shop.send_message, kind="message", target="order_id", timeout=10, confirm=shop.has_message),
    )


def clerk(
    shop: Shop, model: str, *, base_url: str | None, api_key: str | None = None, deadlines: Deadlines | None = None
) -> Agent:
    """An agent that refunds order 81 and tells its customer, on this shop, with this model."""

    def refunded(context: CheckContext) -> tuple[bool, str]:
        done = shop.has_refund(ORDER, CENTS)
        return done, f"the shop's books have {'a' if done else 'no'} refund of {CENTS} cents on order {ORDER}"

    def told(context: CheckContext) -> tuple[bool, str]:
        done = shop.rows().messages > 0
        return done, f"{'a' if done else 'no'} message was sent to the customer"

    return Agent(
        "clerk",
        model=model,
        tools=tools(shop),
        instructions=INSTRUCTIONS,
        budget=Budget(turns=TURNS, tokens=200_000, seconds=900),
        done_when=[Check(f"refund of order {ORDER}", refunded), Check("message to the customer", told)],
        deadlines=deadlines or Deadlines(),
        temperature=0,
        base_url=base_url,
        api_key=api_key,
    )
