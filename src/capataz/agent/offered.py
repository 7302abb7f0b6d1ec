"""An agent as a tool of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capataz.events.facts import Kind

if TYPE_CHECKING:
    from capataz.agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """An agent offered to another as a tool: its outcome comes back as data, and only `completed` confirms it."""

    agent: Agent | Callable[[], Agent]
    name: str
    description: str
    kind: Kind
