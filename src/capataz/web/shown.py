"""What pages share about showing: rows of lists masked, and long texts cut."""

from __future__ import annotations

from dataclasses import replace

from capataz.lens.masked import Shower as Shower
from capataz.ports import JobRow, RunRow

LONGEST = 4_000
"""Characters of one text on a page, before one asks for all of it."""


def masked_row(shower: Shower, row: RunRow) -> RunRow:
    """A line of the list of runs, as it may be shown."""
    return replace(row, task=shower.text(row.task), reason=shower.text(row.reason))


def masked_job(shower: Shower, row: JobRow) -> JobRow:
    """A job of the queue, as it may be shown."""
    return replace(row, job=replace(row.job, task=shower.text(row.job.task)), reason=shower.text(row.reason))


def clip(text: str, most: int = LONGEST) -> str:
    """The beginning of a long text; what is cut is counted."""
    whole = text.encode("utf-8", "replace").decode()
    return whole if len(whole) <= most else f"{whole[:most]}\n… {len(whole) - most:,} more characters"
