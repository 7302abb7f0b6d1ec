"""`capataz diagnose PATH...`: what went wrong in recorded runs of any framework, how often, and what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

import click

from capataz.cli.finding import open_existing
from capataz.cli.masking import shower
from capataz.cli.options import OUTPUT, as_json as json_option
from capataz.cli.render import console, print_json, styled
from capataz.cli.tuning import read_stored, stored, titled
from capataz.events.facts import Kind, RunStarted, Usage
from capataz.guards.watch import Watch
from capataz.ingest.build import ImportedRun
from capataz.ingest.parallel import Work, cores, fold_runs
from capataz.ingest.report import Report
from capataz.lens.diagnose.as_json import report_json
from capataz.lens.diagnose.examine import Examiner
from capataz.lens.diagnose.findings import FAILURES, Subject
from capataz.lens.diagnose.page import BURST, page, percent, spent
from capataz.lens.diagnose.totals import Totals
from capataz.lens.words import counted
from capataz.policy.policy import Policy
from capataz.policy.thresholds import enabled_guards

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SQLITE = b"SQLite format 3\0"
_MOST_STORED = 1_000_000
"""Runs of a store, the newest ones."""
_NAMED = 20
"""Tools that are named to somebody who has named another."""
_SMALL = 4 << 20
"""Bytes below which a second process costs more than it brings."""


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, allow_dash=True))
@json_option
@click.option("--html", type=OUTPUT, help="Write a self-contained page to FILE.")
@click.option(
    "--kind", "kinds", multiple=True, metavar="NAME=CLASS", help="What a tool does, where the guess is wrong."
)
@click.option(
    "--policy",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A policy file: its thresholds and modes are replayed, and its fault table is applied.",
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes. Without it: one per core, one for small inputs.")
def diagnose(
    paths: tuple[Path, ...],
    as_json: bool,
    html: Path | None,
    kinds: tuple[str, ...],
    policy: Path | None,
    jobs: int | None,
) -> None:
    """Say what went wrong in the recorded runs under PATHS: files, folders, archives, or - for standard input.

    Records are recognised by content: chats, spans, sessions of coding agents, benchmark results, logs and stores of
    Capataz.
    The guards that watch live runs are replayed over them. Nothing is changed and nothing leaves this machine.

    \b
      capataz diagnose traces/ --html report.html
      zcat old.jsonl.gz | capataz diagnose - --json
      capataz diagnose traces/ --kind lookup_stock=read --policy policy.toml
    """
    text = "" if policy is None else policy.read_text(encoding="utf-8")
    examiner_for(text)  # a mistake in the file shows before anything is read
    stores = tuple(path for path in paths if _is_store(path))
    files = tuple(path for path in paths if path not in stores)
    work = Work(files, partial(_Part, text), _step, kinds=classes(kinds))
    screen = console(stderr=True)
    totals, report = _read(work, jobs or jobs_for(files), screen) if files else (Totals(), Report())
    notice(screen, idle_kinds(work.kinds, report.tools))
    for path in stores:
        totals.merge(asyncio.run(_of_store(path, text)).totals)
    reading = report.as_json()
    if html is not None:
        html.write_text(page(totals, reading, titled(paths)), encoding="utf-8", errors="replace")
        screen.print(f"wrote {html}", markup=False)
    if as_json:
        print_json(report_json(totals, reading))
    else:
        _print(totals, report, console())


@dataclass(slots=True)
class _Part:
    """What one worker fills, and the text of the policy it works under."""

    policy: str = ""
    totals: Totals = field(default_factory=Totals)


def _is_store(path: Path) -> bool:
    """A file of SQLite's, whatever it is called."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


async def _of_store(path: Path, policy: str) -> _Part:
    """The runs in a store of Capataz."""
    part, store = _Part(policy), open_existing(f"sqlite:///{path}")
    try:
        for run in await stored(store, _MOST_STORED):
            _step(part, await read_stored(store, run))
    finally:
        await store.close()
    return part


def _step(part: _Part, run: ImportedRun) -> None:
    first = run.events[0].fact
    subject = Subject(
        run.id,
        run.source_format,
        str(run.origin),
        run.label,
        run.task_key,
        (first.task_type or "") if isinstance(first, RunStarted) else "",
        run.usage_known,
        run.times_known,
    )
    part.totals.add(examiner_for(part.policy).examine(subject, run.events), run.events, shower())
    for name, guess in run.guesses.items():
        part.totals.tool(name, guess.kind, guess.target, guess.why)


@cache
def examiner_for(policy: str) -> Examiner:
    """One per process, with the numbers and modes of the policy of this text; the defaults where it is empty."""
    rules = Policy.from_toml(policy, "--policy") if policy else Policy()
    return Examiner(Watch(enabled_guards(rules)), rules.modes, rules.faults, _price)


_PROVIDERS = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini", "gemini"),
    ("deepseek", "deepseek"),
    ("mistral", "mistral"),
)


def _price(model: str, usage: Usage) -> Decimal | None:
    """What the price list says of a usage the record reports; estimates are not priced."""
    if not usage.reported or not model:
        return None
    name = model.rsplit("/", 1)[-1].lower()
    provider = next((provider for prefix, provider in _PROVIDERS if name.startswith(prefix)), None)
    if provider is None:
        return None
    from capataz.models.prices import price

    return price(name, provider, usage)


def classes(said: Sequence[str]) -> dict[str, Kind]:
    known = get_args(Kind)
    found: dict[str, Kind] = {}
    for pair in said:
        name, _, kind = pair.rpartition("=")
        if not name or kind not in known:
            raise click.BadParameter(
                f"{pair!r}: write NAME=CLASS with a class out of {', '.join(known)}", param_hint="--kind"
            )
        if found.setdefault(name, cast(Kind, kind)) != kind:
            raise click.BadParameter(f"{name!r} is {found[name]} and {kind}: leave one out", param_hint="--kind")
    return found


def idle_kinds(said: Collection[str], guessed: Collection[str]) -> list[str]:
    """A line for each tool that somebody has named and no run has."""
    near = "no tool was guessed here: logs and stores of Capataz say themselves what their tools do"
    lines = list[str]()
    for name in sorted(set(said) - set(guessed)):
        if guessed:
            shown = get_close_matches(name, guessed, _NAMED, 0.0)
            more = f" and {len(guessed) - len(shown):,} more" if len(guessed) > len(shown) else ""
            near = f"no run has a tool of that name; there are {', '.join(shown)}{more}"
        lines.append(f"--kind {name} changes nothing: {near}")
    return lines


def notice(screen: Console, lines: Iterable[str]) -> None:
    """Tell a person what they may not have meant. The work goes on."""
    for line in lines:
        screen.print(styled(shower().text(line), "warn"), soft_wrap=True)


def jobs_for(paths: Sequence[Path]) -> int:
    """One process for a few small files; their start would take longer than the work."""
    if all(path.is_file() for path in paths) and sum(path.stat().st_size for path in paths) < _SMALL // 8:
        return 1
    return cores()


def _read(work: Work[_Part], jobs: int, screen: Console) -> tuple[Totals, Report]:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,.0f} runs"))
    bar = Progress(*columns, TimeElapsedColumn(), console=screen, transient=True) if screen.is_terminal else None
    with bar or nullcontext():
        task = None if bar is None else bar.add_task("reading")

        def advance(count: int) -> None:
            if bar is not None and task is not None:
                bar.advance(task, count)

        parts = fold_runs(work, jobs, advance)
    totals, report = Totals(), Report()
    for part, found in parts:
        totals.merge(part.totals)
        report.merge(found)
    return totals, report


def _print(totals: Totals, report: Report, out: Console) -> None:
    sums = totals.all
    if not sums.runs:
        out.print("No run was found in these records.")
    else:
        failing = sum(sums.failures.values())
        out.print(f"{failing:,} of {sums.runs:,} runs ({percent(failing, sums.runs)}) show one of the four failures.")
        out.print(_failures(totals))
        if sums.cut:
            share = percent(sums.after.calls, sums.spent.calls)
            out.print(
                f"The guards would have ended {sums.cut:,}. After that: {spent(sums.after)} ({share} of all calls)."
            )
            out.print(f"Good runs that would have been ended: {sums.good_cut:,} of {sums.good:,}.")
        out.print(_sources(totals))
    _reading(report, out)


def _failures(totals: Totals) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("failure", "runs", "kinds"):
        table.add_column(name, justify="right" if name == "runs" else "left")
    for failure, title in FAILURES.items():
        kinds = [(kind, sums.runs) for (owner, kind), sums in totals.kinds.items() if owner == failure]
        named = [f"{kind} {runs:,}" for kind, runs in sorted(kinds, key=lambda pair: -pair[1]) if kind != BURST]
        table.add_row(title, f"{totals.all.failures.get(failure, 0):,}", ", ".join(named))
    return table


def _sources(totals: Totals) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("source", "runs", "good", "failed", "would end", "good ended", "calls after, of failed runs'"):
        table.add_column(name, justify="left" if name == "source" else "right")
    for name, sums in sorted(totals.sources.items(), key=lambda pair: -pair[1].runs):
        table.add_row(
            name,
            f"{sums.runs:,}",
            f"{sums.good:,}",
            f"{sums.bad:,}",
            f"{sums.cut:,}",
            f"{sums.good_cut:,}",
            percent(sums.after_bad.calls, sums.spent_bad.calls),
        )
    return table


def _reading(report: Report, out: Console) -> None:
    for why, count in report.skipped.most_common():
        named = report.left_alone[why]
        more = ", ..." if count > len(named) else ""
        out.print(f"left alone (files): {why} {count:,} ({', '.join(named)}{more})", style="dim", markup=False)
    if report.broken:
        broken = counted(report.broken, "broken line or file", "broken lines or files")
        out.print(f"{broken}, the first of them:", style="yellow")
        for note in report.notes[:5]:
            out.print(f"  {note}", style="dim", markup=False)
