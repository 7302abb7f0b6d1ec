"""An agent whose acting tools are only described: what a fork is driven with, unless its acts were allowed.

Nothing behind such a worker may change the world: acting functions are replaced, agents behind tools and supervisors
are left out. The description says that it is one, so that the model is not told an act has happened.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from capataz.events.facts import JSON
from capataz.runtime.worker import Worker
from capataz.tools.define import Tool
from capataz.tools.toolset import Toolset


def dried(worker: Worker) -> Worker:
    """The same worker without the power to act."""
    tools = [
        _described(tool) if tool.kind not in ("read", "search", "poll") or tool.agent else tool
        for tool in worker.toolset
    ]
    return replace(worker, toolset=Toolset(tools), supervise=None)


def _described(tool: Tool) -> Tool:
    return replace(
        tool,
        function=partial(_describe, tool.name),
        asynchronous=False,
        isolate=False,
        readback=None,
        approve=None,
        agent=None,
    )


def _describe(name: str, /, **arguments: Any) -> dict[str, JSON]:
    return {"dry_run": True, "note": f"{name} was not run: this is a fork without permission to act"}
