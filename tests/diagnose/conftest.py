"""Runs for the tests of diagnosis, written as lists of what happened."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from capataz.events.facts import JSON, Event, Kind
from capataz.ingest.build import Asked, ImportedRun, Origin, RunBuilder
from capataz.lens.diagnose.findings import Subject

ROOT = Path(__file__).parents[2]
Step = tuple[str, JSON, JSON]
"""(tool, arguments, result); a result that begins with "Error" is one."""
Told = Callable[..., ImportedRun]


def _kinds(tool: str) -> Kind:
    return "write" if tool.startswith(("refund", "cancel", "book")) else "read"


@pytest.fixture
def tell() -> Told:
    """A run from steps: `tell(steps, answer=..., task=..., label=...)`."""

    def told(
        steps: Sequence[Step],
        answer: str | None = "Done.",
        task: str = "Do it",
        label: bool | None = None,
        id: str = "r",
    ) -> ImportedRun:
        builder = RunBuilder("test", Origin("here"), {}, id=id, task=task, role="acting", task_key=task)
        for tool, arguments, result in steps:
            given = arguments if isinstance(arguments, dict) else {}
            (call,) = builder.reply("", (Asked(tool, given, kind=_kinds(tool)),))
            builder.settle(call, result, error=isinstance(result, str) and result.startswith("Error"))
        if answer is not None:
            builder.reply(answer)
        if label is not None:
            builder.label(label, "test")
        run = builder.finish()
        assert run is not None
        return run

    return told


@pytest.fixture
def subject() -> Callable[[ImportedRun], Subject]:
    """What a diagnosis is told of a run."""
    return lambda run: Subject(run.id, run.source_format, str(run.origin), run.label, run.task_key)


@pytest.fixture
def traces() -> Path:
    """Public records, where they are at hand."""
    shared = Path(os.environ.get("CAPATAZ_SHARED", ROOT.parent / "shared")) / "traces"
    if not shared.is_dir():
        pytest.skip(f"no public records at {shared}: set CAPATAZ_SHARED to the folder that holds traces/")
    return shared


@pytest.fixture
def at() -> Callable[[list[Event], Sequence[float]], list[Event]]:
    """The same events at other times."""
    return lambda events, times: [Event(e.seq, t, e.fact) for e, t in zip(events, times, strict=True)]
