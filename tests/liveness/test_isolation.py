"""Tools in a process of their own: what comes back, what is killed, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capataz import tool
from capataz.events.facts import Call
from capataz.mistakes import ToolMisuse
from capataz.tools import group
from capataz.tools.call import Used, use
from capataz.tools.define import Tool
from capataz.tools.isolate import HELD, run_command
from capataz.tools.signature import ToolContext
from capataz.tools.usercode import Threads
from tests.engines.conftest import until
from tests.liveness import apart


async def used(what: Tool[..., Any], said: list[str] | None = None, **arguments: object) -> Used:
    call = Call(1, 0, "c", what.name, arguments, what.kind)  # type: ignore[arg-type]
    context = ToolContext("r", 1, "r:1:0", (said if said is not None else []).append)
    return await use(what, call, context, threads=Threads(1))


def count(notes: Path) -> int:
    return notes.read_text().count("\n") if notes.exists() else 0


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def left(notes: Path) -> list[int]:
    return [pid for pid in map(int, notes.read_text().split()) if alive(pid)]


async def test_a_value_comes_back_and_progress_on_the_way() -> None:
    said: list[str] = []
    result = (await used(apart.add, said, a=1, b=2)).result
    assert isinstance(result, dict)
    assert result["sum"] == 3
    assert result["process"] != os.getpid()
    assert said == ["adding"]


async def test_an_asynchronous_tool_gets_its_key_and_says_whether_it_changed_anything() -> None:
    done = await used(apart.later, order="81")
    assert (done.result, done.state_changed, done.error) == ("81 r:1:0", False, False)


async def test_an_error_of_the_tool_is_its_own_words() -> None:
    done = await used(apart.wrong, order="81")
    assert (done.result, done.error, done.in_doubt) == ({"error": "there is no order 81"}, True, False)
    assert done.fault is not None
    assert done.fault.row == "invalid_input"


def command(pid: str) -> bytes:
    try:
        return Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return b""


async def test_a_large_result_arrives_whole() -> None:
    done = await used(apart.large)
    assert done.full is not None
    assert done.full.endswith("199999]")


async def test_fifty_grandchildren_that_hold_the_output_hold_up_nobody() -> None:
    """In a session of their own, with the output inherited: no process group reaches them."""
    await used(apart.shell)
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    longest = 0.0
    for _ in range(50):
        begun = time.monotonic()
        ended = await run_command(["/bin/sh", "-c", "echo READY; setsid sleep 612 & exit 0"], 20)
        longest = max(longest, time.monotonic() - begun)
        assert (ended.code, ended.output, ended.note) == (0, "READY\n", HELD)
    assert (await used(apart.shell)).result == f"READY\n{HELD}"
    assert longest < 2.0
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert threading.active_count() == threads
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and command(pid) == b"sleep\x00612\x00"]


async def test_at_the_limit_the_whole_group_dies_and_what_has_left_it_too(tmp_path: Path) -> None:
    begun = time.monotonic()
    done = await used(replace(apart.hang, timeout=3.0), file=str(tmp_path / "pids"))
    assert time.monotonic() - begun < 3.0 + 1.0
    assert done.in_doubt
    assert done.fault is not None
    assert done.fault.reason == "timeout"
    assert count(tmp_path / "pids") == 4
    assert left(tmp_path / "pids") == []


async def test_a_killed_act_is_in_doubt_and_its_last_words_are_told() -> None:
    done = await used(apart.die)
    assert done.in_doubt
    assert done.result == {"error": "its process was killed by SIGKILL before it answered (this is the end)"}


async def test_a_tool_that_ends_its_process_has_not_answered() -> None:
    done = await used(apart.leave)
    assert (done.result, done.in_doubt) == ({"error": "its process ended with status 3 before it answered"}, False)


async def test_too_much_memory_is_the_tools_trouble_and_not_ours() -> None:
    done = await used(apart.swell)
    assert done.error
    assert "MemoryError" in str(done.result)


async def test_when_the_caller_is_cancelled_the_child_dies(tmp_path: Path) -> None:
    task = asyncio.create_task(used(apart.hang, file=str(tmp_path / "pids")))
    await until(lambda: count(tmp_path / "pids") == 4, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(tmp_path / "pids") == []


async def test_a_tool_that_kills_its_supervisor_dies_with_it(tmp_path: Path) -> None:
    done = await used(apart.orphan, file=str(tmp_path / "pids"))
    assert done.in_doubt
    assert "killed by SIGKILL" in str(done.result)
    assert count(tmp_path / "pids") == 1
    await until(lambda: left(tmp_path / "pids") == [], 5)


WORKER = """
import asyncio, sys
from tests.liveness.test_isolation import used
from tests.liveness import apart
asyncio.run(used(apart.hang, file=sys.argv[1]))
"""
COMMANDER = """
import asyncio, os, sys
from capataz.tools.isolate import run_command
from tests.liveness import apart
sh, c, daemon = apart.DAEMON
settled = " while [ ! -s $0 ]; do sleep 0.01; done"
script = 'echo $$ >> $0; setsid sleep 600 & echo $! >> $0; wait'
async def both():
    await run_command([sh, c, daemon + settled, sys.argv[1]], 20)
    await run_command([sh, c, script, sys.argv[1]], 600)
asyncio.run(both())
"""


def started(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(words, cwd=Path(__file__).parents[2])


async def test_when_the_worker_is_killed_all_that_comes_from_it_dies(tmp_path: Path) -> None:
    """Also what has left the group, given up its output and its environment, and lost its parent."""
    notes = tmp_path / "pids"
    worker = started(WORKER, notes)
    await until(lambda: count(notes) == 4, 20)
    worker.kill()
    worker.wait(10)
    await until(lambda: left(notes) == [], 5)


async def test_when_the_worker_is_killed_its_commands_die_but_not_what_earlier_ones_let_go(tmp_path: Path) -> None:
    notes = tmp_path / "pids"
    worker = started(COMMANDER, notes)
    await until(lambda: count(notes) == 3, 20)
    worker.kill()
    worker.wait(10)
    independent, *others = map(int, notes.read_text().split())
    await until(lambda: not any(map(alive, others)), 5)
    assert alive(independent), "its command had ended in good order, and it holds nothing of it"
    os.kill(independent, signal.SIGKILL)


def test_what_another_process_could_not_find_is_refused_at_import() -> None:
    with pytest.raises(ToolMisuse, match="top of a module"):

        @tool(isolate=True)
        def inner() -> str:
            return ""

    with pytest.raises(ToolMisuse, match="at least 64 megabytes"):
        tool(isolate=True, memory=8)(alive)


async def test_a_command_comes_back_when_it_exits_whatever_it_started() -> None:
    script = "print READY in background"
    begun = time.monotonic()
    ended = await run_command(["/bin/sh", "-c", "echo READY; (sleep 600 &) ; exit 4", script], 20)
    assert time.monotonic() - begun < 1.0
    assert (ended.code, ended.output, ended.note) == (4, "READY\n", HELD)


async def test_a_command_at_its_limit_says_so_and_keeps_the_end_of_what_it_wrote() -> None:
    ended = await run_command(["/bin/sh", "-c", "yes | head -c 300000; echo last; sleep 600"], 0.5, most=1000)
    assert ended.code is None
    assert ended.output.endswith("last\n")
    assert len(ended.output) == 1000
    assert "killed after 0.5 s" in ended.note
    assert "bytes of its output are left out" in ended.note


async def test_a_command_that_is_not_there() -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        await run_command(["/no/such/command"], 1)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_the_supervisor_imports_little_since_it_is_started_for_every_program() -> None:
    look = "import sys; sys.path.append(sys.argv[1]); import supervisor; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-B", "-c", look, str(Path(group.__file__).parent)]
    imported = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert "supervisor" in imported
    assert imported.isdisjoint({"asyncio", "collections", "contextlib", "enum", "re", "signal", "subprocess", "typing"})
