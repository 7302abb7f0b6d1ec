"""What the tests of reading share: where our own records are, and where public ones may be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from capataz.ingest.build import ImportedRun
from capataz.ingest.read import read_runs
from capataz.ingest.report import Limits, Report

ROOT = Path(__file__).parents[2]
Reads = Callable[..., tuple[list[ImportedRun], Report]]


@pytest.fixture
def records() -> Path:
    """Records of every format, written by hand."""
    return ROOT / "tests" / "data" / "records"


@pytest.fixture
def traces() -> Path:
    """Public records, where they are at hand."""
    shared = Path(os.environ.get("CAPATAZ_SHARED", ROOT.parent / "shared")) / "traces"
    if not shared.is_dir():
        pytest.skip(f"no public records at {shared}: set CAPATAZ_SHARED to the folder that holds traces/")
    return shared


@pytest.fixture
def read() -> Reads:
    """Read everything under some paths."""

    def reads(*paths: Path | str, limits: Limits | None = None) -> tuple[list[ImportedRun], Report]:
        report = Report()
        return list(read_runs(paths, report=report, limits=limits)), report

    return reads
