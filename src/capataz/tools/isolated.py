"""The other side of an isolated tool: a process that runs one call, answers on a pipe and ends.

That it never outlives whoever started it is the supervisor's to see to (`supervisor.py`): a tool may hold up everything
in here, a thread that watches too.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import resource
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import reduce
from types import ModuleType
from typing import Any, cast

import orjson

from capataz.events.facts import Call
from capataz.tools.call import use
from capataz.tools.define import Tool
from capataz.tools.signature import ToolContext
from capataz.tools.used import Used
from capataz.tools.usercode import Threads

_SPARE = 5.0
"""Seconds by which the limits inside are wider: the one outside shall act first, since it sees everything."""


def main() -> None:
    """Arguments: the descriptors of the request and of the answers."""
    asked, answers = (int(word) for word in sys.argv[1:3])
    os.set_inheritable(answers, False)  # what the tool starts must not hold it
    with os.fdopen(asked, "rb") as file:
        request: dict[str, Any] = orjson.loads(file.read())
    lock = threading.Lock()

    def say(message: Mapping[str, Any]) -> None:
        with lock:
            os.write(answers, orjson.dumps(message) + b"\n")

    tool = _find(request)
    _limit(request)

    def progress(words: str) -> None:
        say({"progress": words})

    used = asyncio.run(_use(tool, request, progress))
    _whole(answers, orjson.dumps(asdict(used)) + b"\n")
    # Threads of the tool's own must not hold up the answer.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _whole(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _limit(request: Mapping[str, Any]) -> None:
    memory = int(request["memory"]) * 1024 * 1024
    seconds = int(request["limit"] + _SPARE) + 1
    for what, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (limit if hard < 0 else min(limit, hard), hard))


def _find(request: Mapping[str, Any]) -> Tool[..., Any]:
    module = _module(request["module"], request["file"])
    names: list[str] = request["function"].split(".")
    found = reduce(getattr, names, cast("Any", module))
    if not isinstance(found, Tool):
        tools = (cast("Any", value) for value in vars(module).values() if isinstance(value, Tool))
        found = next(tool for tool in tools if tool.name == request["tool"])
    return replace(cast("Tool[..., Any]", found), isolate=False)


def _module(name: str, file: str | None) -> ModuleType:
    """By its name; a script, or a file that no path leads to, by its place."""
    if name != "__main__":
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            if file is None:
                raise
    if file is None:
        raise ModuleNotFoundError(f"{name} stands in no file, so another process cannot find it")
    name = "__capataz_main__" if name == "__main__" else name
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


async def _use(tool: Tool[..., Any], request: Mapping[str, Any], progress: Any) -> Used:
    turn, position, identity = request["call"]
    call = Call(turn, position, identity, tool.name, request["arguments"], tool.kind)
    context = ToolContext(request["run"], turn, request["key"], progress)
    wider = replace(tool, timeout=request["limit"] + _SPARE)
    return await use(wider, call, context, threads=Threads(1))


if __name__ == "__main__":
    main()
