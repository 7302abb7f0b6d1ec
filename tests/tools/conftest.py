"""What the tests of tools share: a pool that is closed at the end, a context, and a shortcut from JSON to a use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import pytest

from capataz.events.facts import JSON
from capataz.ports import RawCall
from capataz.tools.call import Used, use
from capataz.tools.define import Tool, ToolContext
from capataz.tools.toolset import Toolset
from capataz.tools.usercode import Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    pool = Threads(4, grace=0.05)
    yield pool
    pool.close()


@pytest.fixture
def context() -> ToolContext:
    return ToolContext("run-1", 3, "key-1", lambda words: None)


class Run(Protocol):
    def __call__(self, tool: Tool, arguments: str = "{}", *, seconds: float | None = None) -> Awaitable[Used]: ...


@pytest.fixture
def run(threads: Threads, context: ToolContext) -> Run:
    """Read a call of the tool and use it."""

    async def go(tool: Tool, arguments: str = "{}", *, seconds: float | None = None) -> Used:
        (call,) = Toolset([tool]).read([RawCall("c1", tool.name, arguments)], 3)
        assert call.problem is None, call.problem
        return await use(tool, call, context, threads=threads, seconds=seconds)

    return go


@pytest.fixture
def schema_of() -> Callable[[Tool], dict[str, JSON]]:
    return lambda tool: dict(tool.spec.schema)
