"""Tools in a process of their own, which can be killed with all that comes from it; and commands, in the same way.

A thread that hangs stays for ever; a process does not. The price is the start of an interpreter and the import of the
tool's module for each call, and that arguments and results travel as JSON. A child that was killed before it answered
says nothing about the world: whoever reads the end of an act has to take it as in doubt.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import orjson

from capataz.events.facts import Call, Fault
from capataz.tools.define import Tool
from capataz.tools.group import Ended, run_group
from capataz.tools.signature import ToolContext
from capataz.tools.used import Used
from capataz.tools.usercode import TimedOut


@dataclass(frozen=True, slots=True)
class Died:
    """The process ended before it answered. `words` say how, for the model."""

    words: str


async def run_isolated(tool: Tool[..., Any], call: Call, context: ToolContext, limit: float) -> Used | TimedOut | Died:
    """Use the tool in a child process, for at most `limit` seconds. Never raises but for the caller's cancellation.

    The child and its descendants are gone when this returns.
    """
    answers: list[dict[str, Any]] = []

    def told(line: bytes) -> None:
        message: dict[str, Any] = orjson.loads(line)
        if "progress" in message:
            context.progress(str(message["progress"]))
        else:
            answers.append(message)

    with tempfile.TemporaryFile() as request:
        request.write(_request(tool, call, context, limit))
        request.flush()
        request.seek(0)
        asked = os.dup(request.fileno())
    reader, writer = os.pipe()
    words = [sys.executable, "-m", "capataz.tools.isolated", str(asked), str(writer)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        ended = await run_group(
            words,
            limit,
            environment={**os.environ, "PYTHONPATH": path},
            inherit=(asked, writer),
            report=(reader, told),
        )
    except OSError as error:
        return Died(f"its process could not be started: {error.strerror}")
    finally:
        os.close(reader)
    if answers:
        return _noted(_used(answers[-1]), ended)
    return TimedOut(limit) if ended.timed_out else Died(_how(ended))


def _request(tool: Tool[..., Any], call: Call, context: ToolContext, limit: float) -> bytes:
    module, name = str(tool.function.__module__), str(cast("Any", tool.function).__qualname__)
    file: object = getattr(sys.modules.get(module), "__file__", None)
    return orjson.dumps(
        {
            "module": module,
            "file": str(Path(file).resolve()) if isinstance(file, str) else None,
            "function": name,
            "tool": tool.name,
            "arguments": dict(call.arguments),
            "call": [call.turn, call.position, call.id],
            "run": context.run,
            "key": context.idempotency_key,
            "limit": limit,
            "memory": tool.memory,
        }
    )


def _used(message: dict[str, Any]) -> Used:
    fault = message["fault"]
    return Used(
        message["result"],
        message["error"],
        None if fault is None else Fault(**cast("dict[str, Any]", fault)),
        message["in_doubt"],
        message["full"],
        message["state_changed"],
    )


def _noted(used: Used, ended: Ended) -> Used:
    """A text says itself that something was left behind; any other value is left as it is."""
    if not ended.held or not isinstance(used.result, str):
        return used
    return Used(f"{used.result}\n{HELD}", used.error, used.fault, used.in_doubt, used.full, used.state_changed)


HELD = "[note: something it had started was still running and held its output; it was ended]"


def _how(ended: Ended) -> str:
    said = ended.output.decode(errors="replace").strip().splitlines()
    last = f" ({said[-1][:200]})" if said else ""
    if ended.code < 0:
        try:
            name = signal.Signals(-ended.code).name
        except ValueError:
            name = f"signal {-ended.code}"
        return f"its process was killed by {name} before it answered{last}"
    return f"its process ended with status {ended.code} before it answered{last}"


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """What came of a command. `code` is its exit status, minus the signal that killed it, or None at the limit."""

    code: int | None
    output: str
    """What it wrote, standard output and errors together; the end of it where it was too long."""
    note: str = ""
    """What a reader should know besides."""


async def run_command(
    words: Sequence[str], seconds: float, *, folder: str | Path | None = None, most: int = 100_000
) -> CommandEnded:
    """Run a program for a tool, and come back when it exits or after `seconds`, whatever it has started.

    What is still running of it then is killed. `most` are the bytes of output that are kept. Raises `OSError` when it
    cannot be started.
    """
    ended = await run_group(words, seconds, folder=folder, most=most)
    notes = [HELD] if ended.held else []
    if ended.timed_out:
        notes.append(f"[note: it was killed after {seconds:g} s, with all it had started]")
    if ended.lost:
        notes.append(f"[note: the first {ended.lost} bytes of its output are left out]")
    output = ended.output.decode(errors="replace")
    return CommandEnded(None if ended.timed_out else ended.code, output, "\n".join(notes))
