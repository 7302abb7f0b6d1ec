"""`import capataz` is cheap and silent: no network, no file, no thread, no setting of the process changed.

Everything runs in a fresh process, since this one has imported far more than a user would.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

LIMIT_SECONDS = 0.250
"""CPU over the bare interpreter. Peers measured in November 2026 needed 0.4 to 5 s."""

TRIES = 5
HEAVY = (
    "aiohttp",
    "pydantic",
    "phonenumbers",
    "stdnum",
    "genai_prices",
    "rich",
    "jinja2",
    "click",
    "openai",
    "anthropic",
    "opentelemetry",
)

CPU = "import resource; used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime + used.ru_stime)"

LOOK = """
import atexit, json, locale, logging, os, signal, sys, threading, warnings

def settings():
    return {
        "threads": threading.active_count(),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "path": list(sys.path),
        "hooks": [repr(sys.excepthook), repr(sys.displayhook), repr(threading.excepthook)],
        "handlers": [repr(h) for h in logging.getLogger().handlers],
        "loggers' level": logging.getLogger().level,
        "signals": [repr(signal.getsignal(s)) for s in sorted(signal.valid_signals())],
        "at exit": atexit._ncallbacks(),
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion": sys.getrecursionlimit(),
    }

touched = []
def hear(event, details):
    writes = event == "open" and isinstance(details[1], str) and set(details[1]) & set("wax+")
    if writes or event.startswith(("socket.", "subprocess.", "os.", "shutil.", "sqlite3.", "urllib.", "tempfile.")):
        if event not in ("os.listdir", "os.scandir"):  # the import system's own
            touched.append(f"{event} {details!r}")

before = settings()
sys.addaudithook(hear)
import capataz
heard = list(touched)
after = settings()
changed = [name for name in before if before[name] != after[name]]
print(json.dumps({"touched": heard, "changed": changed, "modules": sorted(sys.modules)}))
"""


def run(code: str, *flags: str) -> str:
    command = [sys.executable, "-W", "error", *flags, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert not done.stderr
    return done.stdout


@cache
def look() -> Any:
    return json.loads(run(LOOK, "-B"))


def cpu(code: str) -> float:
    return min(float(run(code)) for _ in range(TRIES))


def test_importing_costs_little() -> None:
    cost = cpu(f"import capataz; {CPU}") - cpu(CPU)
    assert cost < LIMIT_SECONDS


def test_importing_touches_nothing() -> None:
    assert look()["touched"] == []


def test_importing_changes_nothing_of_the_process() -> None:
    assert look()["changed"] == []


def test_importing_leaves_the_heavy_modules_alone() -> None:
    loaded = set(look()["modules"])
    assert "capataz" in loaded
    assert not loaded & set(HEAVY)
