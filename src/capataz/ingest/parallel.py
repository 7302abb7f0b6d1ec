"""Reading many runs on all cores: each worker reads the same paths but only its share of the runs.

Nothing of a run crosses between processes; a worker folds its runs into one value and hands back only that. Lines are
shared out by number, so that one huge file keeps every core busy too.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from queue import Empty
from threading import Thread
from typing import Generic, TypeVar

from capataz.events.facts import Kind
from capataz.ingest.build import ImportedRun
from capataz.ingest.read import Share, read_runs
from capataz.ingest.report import Limits, Report

T = TypeVar("T")
_EVERY = 100
"""Runs between two words about progress."""


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """What to do with the runs: `start()` makes a worker's value, `step(value, run)` puts a run into it.

    Both must be importable functions, and the value must be picklable: it comes back from another process.
    """

    paths: Sequence[Path | str]
    start: Callable[[], T]
    step: Callable[[T, ImportedRun], None]
    limits: Limits = field(default_factory=Limits)
    kinds: Mapping[str, Kind] = field(default_factory=dict[str, Kind])


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fold_runs(work: Work[T], jobs: int, progress: Callable[[int], None] | None = None) -> list[tuple[T, Report]]:
    """Read all runs and give one value and one report per worker. `progress(n)` is told of runs read since last time.

    Standard input can be read only once, so with it there is one worker, in this process.
    """
    if jobs <= 1 or any(str(path) == "-" for path in work.paths):
        return [_share(work, Share(), progress)]
    context = multiprocessing.get_context()
    told: SimpleQueue[int] = context.SimpleQueue()
    with ProcessPoolExecutor(jobs, context, _adopt, (told,)) as pool:
        listener = Thread(target=_listen, args=(told, progress), daemon=True)
        listener.start()
        try:
            parts = [pool.submit(_share, work, Share(index, jobs)) for index in range(jobs)]
            return [part.result() for part in parts]
        finally:
            told.put(-1)
            listener.join(5)


_TOLD: list[SimpleQueue[int]] = []


def _adopt(told: SimpleQueue[int]) -> None:
    """In a new worker: where to tell of progress. Queues may only be handed over at its birth."""
    _TOLD[:] = [told]


def _listen(told: SimpleQueue[int], progress: Callable[[int], None] | None) -> None:
    try:
        while (count := told.get()) >= 0:
            if progress is not None:
                progress(count)
    except (EOFError, OSError, Empty):
        return


def _share(work: Work[T], share: Share, progress: Callable[[int], None] | None = None) -> tuple[T, Report]:
    say = progress or (_TOLD[0].put if _TOLD else None)
    report, value, count = Report(), work.start(), 0
    for run in read_runs(work.paths, report=report, limits=work.limits, kinds=work.kinds, share=share):
        work.step(value, run)
        count += 1
        if say is not None and count % _EVERY == 0:
            say(_EVERY)
    if say is not None:
        say(count % _EVERY)
    return value, report
