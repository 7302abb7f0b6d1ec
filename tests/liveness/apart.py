"""Tools that run in a process of their own: they have to stand at the top of a module."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from capataz import ToolContext, ToolError, tool
from capataz.tools.define import Changed

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


@tool(kind="read", isolate=True, timeout=20)
def add(a: int, b: int, context: ToolContext) -> dict[str, int]:
    context.progress("adding")
    return {"sum": a + b, "process": os.getpid()}


@tool(kind="write", isolate=True, timeout=20)
async def later(order: str, context: ToolContext) -> Changed:
    return Changed(f"{order} {context.idempotency_key}", state_changed=False)


@tool(kind="read", isolate=True, timeout=20)
def wrong(order: str) -> str:
    raise ToolError(f"there is no order {order}")


@tool(kind="read", isolate=True, timeout=20)
def shell() -> str:
    """Prints, starts a sleeper in a session of its own that inherits the output, and returns."""
    os.write(1, b"READY\n")
    subprocess.Popen(SLEEPER, start_new_session=True)
    return "READY"


DAEMON = ["/bin/sh", "-c", 'env -i setsid sh -c "echo \\$\\$ >> $0; exec sleep 600" > /dev/null 2>&1 < /dev/null &']
"""With a file: a process that notes its number there, of which nothing tells any more where it came from."""


@tool(kind="write", isolate=True, timeout=20)
def hang(file: str) -> str:
    """Two grandchildren, one of them in another session, a great-grandchild that nobody knows any more; silence."""
    children = [subprocess.Popen(SLEEPER, start_new_session=each) for each in (False, True)]
    with open(file, "a") as notes:
        notes.write("".join(f"{child.pid}\n" for child in children) + f"{os.getpid()}\n")
    subprocess.run([*DAEMON, file], timeout=10, check=True)
    time.sleep(600)
    return "never"


@tool(kind="write", isolate=True, timeout=20)
def orphan(file: str) -> str:
    """Kills whoever looks after it, and hangs."""
    with open(file, "a") as notes:
        notes.write(f"{os.getpid()}\n")
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
    return "never"


@tool(kind="write", isolate=True, timeout=20)
def die() -> str:
    os.write(1, b"this is the end\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(kind="read", isolate=True, timeout=20)
def leave() -> str:
    os._exit(3)


@tool(kind="read", isolate=True, timeout=20, memory=512)
def swell() -> str:
    return "x" * 1_000_000_000


@tool(kind="read", isolate=True, timeout=20)
def large() -> list[int]:
    return list(range(200_000))
