"""Using a tool: from a read call to what the model is shown, within a time limit, whatever the tool does.

An exception never crosses this module and a stack trace never reaches the model. The one distinction that must not
be lost here: a tool that looks and gave no answer has failed; a tool that acts and gave no answer may have acted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from capataz.events.facts import ACTING, Call, Fault
from capataz.faults.classify import ToolFaults
from capataz.tools.define import Tool
from capataz.tools.faulting import fault_of, may_have_acted
from capataz.tools.isolate import Died, run_isolated
from capataz.tools.results import Changed, NoJson, ToolError, as_json, cut
from capataz.tools.signature import ToolContext
from capataz.tools.used import Used as Used
from capataz.tools.usercode import Ending, Raised, Returned, Threads, TimedOut, run_user_code
from capataz.tools.wording import BadArguments, short_error


async def use(
    tool: Tool,
    call: Call,
    context: ToolContext,
    *,
    threads: Threads,
    seconds: float | None = None,
    faults: ToolFaults | None = None,
    silence: float | None = None,
    late: Callable[[Used], None] | None = None,
) -> Used:
    """Run the tool with the call's arguments and come back within `tool.timeout`, or `seconds` if that is less.

    Never raises, except for the caller's own cancellation. Synchronous tools run in `threads`. `faults` are the
    user's own exceptions and their rows. With `silence`, the tool is also given up on after so many seconds without a
    sign of life (`ToolContext.progress`). `late` is told what a tool that was given up on came to after all.
    """
    limit = tool.timeout if seconds is None else min(seconds, tool.timeout)
    try:
        arguments = tool.signature.bind(call.arguments)
    except BadArguments as bad:
        return _failed(str(bad), Fault("invalid_input", "invalid-arguments", str(bad), origin="tool"))

    def ended_late(ending: Ending) -> None:
        if late is not None:
            late(_ended(tool, faults, ending))

    try:
        async with asyncio.timeout(silence or limit * 2) as quiet:
            alive = _beating(context, quiet, silence) if silence is not None else context
            if tool.signature.context is not None:
                arguments[tool.signature.context] = _from_any_thread(alive)
            if tool.isolate:
                return _apart(tool, await run_isolated(tool, call, alive, limit))
            ending = await run_user_code(
                tool.function,
                arguments,
                asynchronous=tool.asynchronous,
                limit=limit,
                threads=threads,
                late=ended_late,
            )
    except TimeoutError:
        ending = TimedOut(silence or limit)
    return _ended(tool, faults, ending)


def _apart(tool: Tool, ending: Used | TimedOut | Died) -> Used:
    """How a tool in a process of its own ended. One that was killed may have acted before."""
    match ending:
        case Died(words):
            return _in_doubt(tool, _failed(words, Fault("unknown", "process-died", words, origin="tool")))
        case TimedOut():
            return _timed_out(tool, ending)
        case used:
            return used


def _beating(context: ToolContext, quiet: asyncio.Timeout, silence: float) -> ToolContext:
    """The same context with a `progress` that moves the end of the allowed silence on."""
    tell = context.progress

    def progress(words: str) -> None:
        if not quiet.expired():
            quiet.reschedule(asyncio.get_running_loop().time() + silence)
        tell(words)

    return replace(context, progress=progress)


def _ended(tool: Tool, faults: ToolFaults | None, ending: Ending) -> Used:
    match ending:
        case Returned(value):
            return _returned(tool, value)
        case Raised(error):
            return _raised(tool, error, faults)
        case TimedOut():
            return _timed_out(tool, ending)


def _from_any_thread(context: ToolContext) -> ToolContext:
    """The same context with a `progress` that always reaches the runtime on its own loop."""
    loop, tell = asyncio.get_running_loop(), context.progress

    def progress(words: str) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone: a left-behind thread talks to nobody
            loop.call_soon_threadsafe(tell, words)

    return replace(context, progress=progress)


def _returned(tool: Tool, value: Any) -> Used:
    changed: bool | None = None
    if isinstance(value, Changed):
        value, changed = value.value, value.state_changed
    try:
        result, full = cut(as_json(value), tool.max_result)
    except NoJson as why:
        words = f"{tool.name} ran to its end but its result cannot be shown: {why}"
        fault = Fault("contract", "unserialisable-result", words, retries=0, origin="tool")
        # The act was done: treating it as failed would invite doing it again.
        return replace(_failed(words, fault), in_doubt=tool.kind in ACTING, state_changed=changed)
    return Used(result, full=full, state_changed=changed)


def _raised(tool: Tool, error: BaseException, faults: ToolFaults | None) -> Used:
    if isinstance(error, ToolError):
        words = str(error)
        fault = Fault(error.row, "tool-error", words, origin="tool")
        return _in_doubt(tool, _failed(words, fault)) if error.in_doubt else _failed(words, fault)
    words = short_error(error)
    fault = fault_of(error, words, faults)
    used = _failed(words, fault)
    return _in_doubt(tool, used) if may_have_acted(error, fault) else used


def _timed_out(tool: Tool, ending: TimedOut) -> Used:
    if not ending.started:
        words = f"not run: no time or no free thread within {ending.limit:g} s"
        return _failed(words, Fault("transient", "not-started", words, origin="tool"))
    if tool.kind in ACTING:
        words = f"outcome unknown: no answer within {ending.limit:g} s; check before repeating"
        return _in_doubt(tool, _failed(words, _hung(words)))
    words = f"no answer within {ending.limit:g} s"
    return _failed(words, _hung(words))


def _hung(words: str) -> Fault:
    """Once more at most: each try takes the tool's whole time, and a hung thread is never given back."""
    return Fault("transient", "timeout", words, retries=1, origin="tool")


def _failed(words: str, fault: Fault) -> Used:
    return Used({"error": words}, error=True, fault=fault)


def _in_doubt(tool: Tool, used: Used) -> Used:
    """Mark an act as possibly done; only a tool that declares repeating harmless may be tried again by itself."""
    if tool.kind not in ACTING:
        return used
    fault = used.fault if tool.idempotent or used.fault is None else replace(used.fault, retries=0)
    return replace(used, fault=fault, in_doubt=True)
