"""Diagnosis of uploaded records. They are read in a folder of their own, looked through, and thrown away."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from capataz.events.facts import JSON, RunStarted
from capataz.ingest.read import read_runs
from capataz.ingest.report import Report
from capataz.lens.diagnose.as_json import report_json
from capataz.lens.diagnose.examine import Examiner
from capataz.lens.diagnose.findings import Subject
from capataz.lens.diagnose.page import page as report_page
from capataz.lens.diagnose.totals import Totals
from capataz.lens.masked import Shower
from capataz.mistakes import Misuse
from capataz.web.gate import require
from capataz.web.render import page
from capataz.web.site import site_of

MOST_RUNS = 5_000
PATIENCE = 60.0
"""Seconds a diagnosis may take; what was read until then is shown."""
_STYLE = "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-same-origin; frame-ancestors 'none'"


async def form(request: Request) -> Response:
    require(request, "operate")
    return page(request, "diagnose.html", wrong="")


async def take(request: Request) -> Response:
    """The report of the uploaded files, as a page of its own."""
    site = site_of(request)
    require(request, "operate")
    await site.gate.believe(request)
    with tempfile.TemporaryDirectory(prefix="capataz-") as folder:
        names = await _kept(request, Path(folder))
        if not names:
            return page(request, "diagnose.html", 422, wrong="Choose at least one file.")
        totals, report = await asyncio.to_thread(diagnosed, Path(folder), site_of(request).shower)
    shown = report_page(totals, report.as_json(), ", ".join(names[:3]) + (" and more" if len(names) > 3 else ""))
    return HTMLResponse(shown.encode("utf-8", "replace"), headers={"content-security-policy": _STYLE})


async def for_programs(request: Request) -> tuple[Totals, Report]:
    """The same for the API: the body is one record file."""
    body = await request.body()
    if not body:
        raise Misuse("send the records as the body: a file of any format that `capataz diagnose` reads")
    with tempfile.TemporaryDirectory(prefix="capataz-") as folder:
        (Path(folder) / "records").write_bytes(body)
        return await asyncio.to_thread(diagnosed, Path(folder), site_of(request).shower)


def as_json(totals: Totals, report: Report) -> JSON:
    return report_json(totals, report.as_json())


async def _kept(request: Request, folder: Path) -> list[str]:
    """The uploaded files in the folder, under names of our own."""
    names: list[str] = []
    async with request.form(max_files=20, max_fields=50) as given:
        for upload in given.getlist("records"):
            if not isinstance(upload, UploadFile) or not upload.size:
                continue
            shown = re.sub(r"[^\w.-]+", "_", upload.filename or "records")[-80:]
            with (folder / f"{len(names):02d}").open("wb") as file:
                while piece := await upload.read(1 << 20):
                    file.write(piece)
            names.append(shown)
    return names


def diagnosed(folder: Path, shower: Shower) -> tuple[Totals, Report]:
    """Everything found in the files of a folder, within bounds."""
    totals, report, examiner = Totals(), Report(), Examiner()
    until = time.monotonic() + PATIENCE
    for count, run in enumerate(read_runs([folder], report=report), 1):
        first = run.events[0].fact
        kind = (first.task_type or "") if isinstance(first, RunStarted) else ""
        origin = str(run.origin).replace(f"{folder}/", "")
        subject = Subject(
            run.id, run.source_format, origin, run.label, run.task_key, kind, run.usage_known, run.times_known
        )
        totals.add(examiner.examine(subject, run.events), run.events, shower)
        for name, guess in run.guesses.items():
            totals.tool(name, guess.kind, guess.target, guess.why)
        if count >= MOST_RUNS or time.monotonic() > until:
            report.warn("upload", 0, f"only the first {count:,} runs were read")
            break
    return totals, report


def routes() -> list[Route]:
    return [Route("/diagnose", form, methods=["GET"]), Route("/diagnose", take, methods=["POST"])]
