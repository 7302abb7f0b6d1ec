"""Workers are killed at twenty random instants on PostgreSQL and Temporal: nothing is lost, nothing silently doubled.

`python benchmarks/chaos_cluster.py --kills 500` is the same at length.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capataz.testing.servers import PostgresServer

TRIAL = Path(__file__).parents[2] / "benchmarks" / "chaos_cluster.py"


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("engine", "kills"), [("temporal", 20), ("local", 20)])
async def test_kill_9_at_random_instants(postgres: PostgresServer, temporal: str, engine: str, kills: int) -> None:
    words = [sys.executable, str(TRIAL), "--kills", str(kills), "--engine", engine, "--seed", "7"]
    done = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, text=True, timeout=380, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["wrong"] == []
    assert figures["crashes"] > 0, "some of the kills fell into a run"
