"""Capataz: the harness that makes AI agents safe to put in front of customers.

The runtime, never the model, decides when to stop, what is alive, what is done and what an error means.
Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capataz.agent import Agent, Budget
    from capataz.app import App
    from capataz.events.facts import Event, Evidence, Fault
    from capataz.guards.base import Guard, Signal
    from capataz.mistakes import CapatazError, Misuse
    from capataz.outcome import Aborted, Answered, Completed, Escalated, Outcome, Partial
    from capataz.policy.policy import Policy
    from capataz.ports import Deadlines
    from capataz.runtime.supervise import Decision, Escalation
    from capataz.tools.define import Changed, ToolContext, ToolError, tool

_HOMES = {
    "Agent": "capataz.agent",
    "Budget": "capataz.agent",
    "App": "capataz.app",
    "Event": "capataz.events.facts",
    "Evidence": "capataz.events.facts",
    "Fault": "capataz.events.facts",
    "Guard": "capataz.guards.base",
    "Signal": "capataz.guards.base",
    "CapatazError": "capataz.mistakes",
    "Misuse": "capataz.mistakes",
    "Aborted": "capataz.outcome",
    "Answered": "capataz.outcome",
    "Completed": "capataz.outcome",
    "Escalated": "capataz.outcome",
    "Outcome": "capataz.outcome",
    "Partial": "capataz.outcome",
    "Policy": "capataz.policy.policy",
    "Deadlines": "capataz.ports",
    "Decision": "capataz.runtime.supervise",
    "Escalation": "capataz.runtime.supervise",
    "Changed": "capataz.tools.define",
    "ToolContext": "capataz.tools.define",
    "ToolError": "capataz.tools.define",
    "tool": "capataz.tools.define",
}

__all__ = [
    "Aborted",
    "Agent",
    "Answered",
    "App",
    "Budget",
    "CapatazError",
    "Changed",
    "Completed",
    "Deadlines",
    "Decision",
    "Escalated",
    "Escalation",
    "Event",
    "Evidence",
    "Fault",
    "Guard",
    "Misuse",
    "Outcome",
    "Partial",
    "Policy",
    "Signal",
    "ToolContext",
    "ToolError",
    "tool",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'capataz' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
