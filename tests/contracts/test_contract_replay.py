"""The same log judged in another process gives the same signals, to the letter.

Python draws a new seed for `hash` in every process. A guard may use hashes to compare, but nothing that it says, and
no decision to say it, may depend on them: a resumed run would else take an old loop for a new one.
"""

from __future__ import annotations

import os
import subprocess
import sys

JUDGE = """
from capataz.events.facts import Call, ModelReplied, RunStarted, ToolFacts, ToolFinished, ToolStarted
from capataz.guards.catalogue import default_guards
from capataz.testing.scripted import given

KINDS = {"look": "read", "find": "search", "pay": "write", "shell": "exec"}
PATTERNS = [
    [("look", {"path": "a"}, "same", False)] * 8,
    [("find", {"q": f"words {n}"}, {"results": []}, False) for n in range(6)],
    [("look", {"path": "a"}, "1", False), ("look", {"path": "b"}, "2", False)] * 6,
    [("pay", {"order": "81", "cents": n}, "no change", False) for n in range(6)],
    [("shell", {"command": f"make {n}"}, {"error": "no rule to make target"}, True) for n in range(7)],
    [(tool, {"n": n}, str(n), False) for _ in range(4) for n, tool in enumerate(["look", "shell", "find"])],
]

def facts(pattern):
    yield RunStarted("r", "a", "t", root="r", tools=tuple(ToolFacts(n, k, target="order") for n, k in KINDS.items()))
    for turn, (tool, arguments, result, error) in enumerate(pattern, 1):
        call = Call(turn, 0, f"c{turn}", tool, arguments, KINDS[tool], arguments.get("order"))
        yield ModelReplied(turn, 0, "", (call,), "calls")
        yield ToolStarted(turn, 0, tool)
        yield ToolFinished(call, result, error)

for pattern in PATTERNS:
    for guard in default_guards():
        state = guard.start()
        for event in given(*facts(pattern)):
            state, signal = guard.step(state, event)
            if signal is not None:
                print(signal)
"""


def judged(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", JUDGE]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout


def test_signals_do_not_depend_on_the_process() -> None:
    first, *others = (judged(seed) for seed in ("0", "1", "4711"))
    assert first.count("Signal(") >= 5
    assert [other for other in others if other != first] == []
