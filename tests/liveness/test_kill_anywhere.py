"""Workers killed at random instants: nothing is lost, nothing silently done twice. `make chaos` does 500."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_twenty_kills(tmp_path: Path) -> None:
    words = [sys.executable, "benchmarks/chaos.py", "--kills", "20", "--seed", "3", "--folder", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["wrong"] == []
    assert figures["crashes"] > 0, "some of them hit a run"
    assert figures["runs"] >= 8
