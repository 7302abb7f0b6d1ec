"""The units for systemd that the pages show: systemd has nothing against them, and reads what they seem to say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.fences import ROOT, Fence, fences

UNITS = [
    pytest.param(fence, id=f"{page.name}:{fence.line}")
    for page in sorted((ROOT / "docs").glob("*.md"))
    for fence in fences(page.read_text())
    if fence.language == "ini"
]


@pytest.mark.parametrize("unit", UNITS)
def test_no_comment_stands_behind_a_value(unit: Fence) -> None:
    """systemd would take it for a part of the value."""
    assert [line for line in unit.body.splitlines() if "=" in line and " #" in line and not line.startswith("#")] == []


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_the_unit(unit: Fence, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze on this machine")
    file = tmp_path / "capataz-worker@.service"
    file.write_text(unit.body.replace("/srv/shop/.venv/bin/capataz", sys.executable))
    done = subprocess.run(
        [program, "verify", "--man=no", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if file.stem.rstrip("@") in line]) == (0, [])


def test_there_are_units() -> None:
    assert len(UNITS) == 2
