"""What a run is driven from: the agent made ready, what is asked of it, and the place where runs are driven."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from capataz.events.facts import JSON, Ceilings, ConversationRecalled, Event, HandedOver, Role, Versions
from capataz.guards.base import Guard
from capataz.kernel.state import Rules
from capataz.ports import Observer, Store
from capataz.runtime.worker import Surroundings, Worker


@dataclass(frozen=True, slots=True)
class Spec:
    """An agent made ready to run: everything resolved, nothing opened."""

    name: str
    role: Role
    instructions: str
    worker: Worker
    rules: Rules
    ceilings: Ceilings
    versions: Versions
    overhead: int
    """Bytes of the instructions and tool declarations."""
    window: int | None = None
    keep_last: int = 8
    children: Mapping[str, Spec] = field(default_factory=dict[str, "Spec"])
    """Agents behind tools, by the tool's name."""
    guards: tuple[Guard[Any], ...] = ()
    """The user's own, which `rules` has too: a fork may be judged by another policy, but never without them."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of an agent, and where it belongs."""

    text: str
    task_type: str | None = None
    conversation: str | None = None
    root: str | None = None
    parent: str | None = None
    standing: tuple[str, ...] = ()
    run: str | None = None
    """Id of the run; drawn where none is given."""
    tenant: str = ""
    user: str = ""
    recalled: ConversationRecalled | None = None
    """What was said before in the conversation."""
    handed: tuple[HandedOver, ...] | None = None
    """Hand-offs between agents of the root so far, the one to this run last."""
    depth: int = 0
    """Runs above this one."""


@dataclass(frozen=True, slots=True)
class Yard:
    """Where runs are driven: the store, the surroundings, and who watches."""

    store: Store
    around: Surroundings
    owner: str
    on_event: Callable[[str, Event], None] | None = None
    on_escalation: Callable[[Mapping[str, JSON]], None] | None = None
    """Told when a run begins to wait for a person; may not block."""
    observers: tuple[Observer, ...] = ()
    """Those who watch every run of the App; `on_event` watches one."""
