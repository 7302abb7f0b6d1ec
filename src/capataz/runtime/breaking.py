"""The circuit breaker of a tool: what has failed in a burst is left alone for a while, and the model is told so.

The breaker guards the function behind the tool, so agents that share it share the breaker, and tools that only share
a name do not.
"""

from __future__ import annotations

from collections.abc import Iterator

from capataz.events.facts import BreakerClosed, BreakerOpened, Call, Fact, Fault, ToolFinished
from capataz.policy.policy import Policy
from capataz.policy.table import PASSING
from capataz.runtime.worker import Surroundings
from capataz.tools.define import Tool


def left_alone(call: Call, tool: Tool[..., object], around: Surroundings) -> ToolFinished | None:
    """The end of a call that is held back, in words for the model; None when it may go."""
    held = around.breakers.held(tool.function, around.clock.now())
    if held is None:
        return None
    words = (
        f"not run: {tool.name} has failed too often in a row and is left alone; it may be tried again in {held:.0f} s. "
        "Go on without it, or say that it could not be done."
    )
    # Waiting for it is the model's to decide: it may know another way.
    fault = Fault("transient", "breaker-open", words, wait=held, retries=0, origin="tool")
    return ToolFinished(call, {"error": words}, error=True, fault=fault)


def noticed(finished: ToolFinished, tool: Tool[..., object], around: Surroundings, policy: Policy) -> Iterator[Fact]:
    """What the end of a call says of the tool's health."""
    fault = finished.fault
    if fault is None or fault.row not in PASSING:
        if around.breakers.answered(tool.function):
            yield BreakerClosed("tool", tool.name)
        return
    rule = policy.breaker_of(tool=tool.name)
    if around.breakers.failed(tool.function, around.clock.now(), rule):
        yield BreakerOpened("tool", tool.name, rule.failures, rule.rest, fault.reason)
