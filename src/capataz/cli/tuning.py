"""What `capataz tune` reads: runs, and how each of them really went.

The record itself may say it, a table of the user's, or a function of the user's. In a store of our own a run that ended
completed went well; one that was answered says neither.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from capataz.cli.streams import aside
from capataz.events.facts import RunEnded
from capataz.guards.watch import Watch
from capataz.ingest.build import ImportedRun, Origin
from capataz.ingest.report import Report
from capataz.lens.tune.probe import Curves, Prober, Trial
from capataz.lens.words import counted
from capataz.mistakes import Misuse
from capataz.policy.policy import Policy
from capataz.policy.thresholds import enabled_guards
from capataz.tools.usercode import Trap

if TYPE_CHECKING:
    from capataz.ports import Store

Labeller = Callable[[ImportedRun], bool | None]
GOOD = frozenset(("1", "true", "yes", "good", "success", "succeeded", "completed", "passed", "pass", "ok"))
BAD = frozenset(("0", "false", "no", "bad", "failure", "failed", "partial", "aborted", "fail", "error"))
STDIN = Path("-")
_NAMED = 5
"""Runs that are named of those that are not there."""
_ENDS: Mapping[str, bool] = {"completed": True, "partial": False, "aborted": False, "escalated": False}


@dataclass(slots=True)
class Part:
    """What one worker fills. `policies` are texts; the curves are drawn under the first of them, where `probing`."""

    policies: tuple[str, ...]
    labels: str = ""
    probing: bool = True
    curves: Curves = field(default_factory=Curves)
    trials: list[Trial] = field(default_factory=list[Trial])
    met: set[str] = field(default_factory=set[str])
    """Runs that a table of labels names and that were read."""

    def __post_init__(self) -> None:
        self.trials = [Trial() for _ in self.policies]

    def merge(self, other: Part) -> None:
        """Add what another worker has filled."""
        self.curves.merge(other.curves)
        for trial, more in zip(self.trials, other.trials, strict=True):
            trial.merge(more)
        self.met |= other.met


def put(part: Part, run: ImportedRun) -> None:
    """Take one run in."""
    said = labeller(part.labels)
    label = said(run)
    if isinstance(said, Table) and run.id in said.known:
        part.met.add(run.id)
    if part.probing:
        part.curves.add(run.events, label, _prober(part.policies[0]))
    if label is None:
        return
    for text, trial in zip(part.policies, part.trials, strict=True):
        rules, watch = _rules(text)
        trial.add(run.source_format, run.events, label, watch, rules.modes)


@cache
def _rules(text: str) -> tuple[Policy, Watch]:
    rules = Policy.from_toml(text, "--policy") if text else Policy()
    return rules, Watch(enabled_guards(rules))


@cache
def _prober(text: str) -> Prober:
    rules, _ = _rules(text)
    return Prober(rules.thresholds, rules.modes)


@cache
def labeller(said: str) -> Labeller:
    """What says how a run went: the record ("", the default), a CSV file, or "module:function".

    Raises `Misuse` where the file or the function is not there or cannot be used.
    """
    if not said:
        return recorded
    if Path(said).suffix.lower() in (".csv", ".tsv") or Path(said).is_file():
        return _from_table(Path(said))
    return _asked(said)


def _asked(said: str) -> Labeller:
    """A function of the user's. Whatever it raises is their mistake, told with the run it was made over."""
    from capataz.cli.finding import failure, find_function

    found = find_function(said)

    def label(run: ImportedRun) -> bool | None:
        told: object = None
        with aside(), Trap() as trap:
            told = found(run)
        if trap.error is not None:
            raise Misuse(f"--label {said} failed over run {run.id!r} of {run.origin}: {failure(trap.error)}")
        if told is not None and not isinstance(told, bool):
            raise Misuse(f"{said} said {told!r} of run {run.id!r}: give True, False or None")
        return told

    return label


def recorded(run: ImportedRun) -> bool | None:
    """What the record says: a label, or for a run of our own its outcome."""
    if run.label is not None or run.source_format != "capataz":
        return run.label
    ended = next((event.fact for event in reversed(run.events) if isinstance(event.fact, RunEnded)), None)
    return None if ended is None else _ENDS.get(ended.outcome)


@dataclass(frozen=True, slots=True)
class Table:
    """Outcomes by the id of the run, out of a file of the user's."""

    known: Mapping[str, bool]

    def __call__(self, run: ImportedRun) -> bool | None:
        return self.known.get(run.id)


def idle_labels(said: str, met: Container[str]) -> list[str]:
    """A line about the runs that a table labels and that were not among those read."""
    table = labeller(said)
    missing = [run for run in table.known if run not in met] if isinstance(table, Table) else []
    if not missing:
        return []
    named = ", ".join(missing[:_NAMED]) + (", ..." if len(missing) > _NAMED else "")
    return [
        f"{said} labels {counted(len(missing), 'run')} that {'is' if len(missing) == 1 else 'are'} not here: {named}"
    ]


def _from_table(path: Path) -> Table:
    """Run ids in the column `run` (or the first), outcomes in `label` (or the second)."""
    if not path.is_file():
        raise Misuse(f"--label: there is no file {path}")
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        rows = [(reader.line_num, row) for row in reader]
    head = [name.strip().lower() for name in rows[0][1]] if rows else []
    named = "run" in head and "label" in head
    run_at, label_at = (head.index("run"), head.index("label")) if named else (0, 1)
    known: dict[str, bool] = {}
    lines_of: dict[str, int] = {}
    for number, row in rows[named:]:
        if len(row) <= max(run_at, label_at):
            continue
        word = row[label_at].strip().lower()
        if word not in GOOD | BAD | {""}:
            raise Misuse(f"{path}:{number}: {word!r} is no outcome: write true or false (or leave it empty)")
        if not word:
            continue
        run, good = row[run_at].strip(), word in GOOD
        if known.setdefault(run, good) != good:
            raise Misuse(f"{path}:{number}: run {run!r} is {word} here and the opposite in line {lines_of[run]}")
        lines_of.setdefault(run, number)
    if not known:
        raise Misuse(f"{path} labels no run: give the columns run,label")
    return Table(known)


async def stored(store: Store, most: int) -> list[str]:
    """Ids of the newest runs of a store."""
    return [row.run for row in await store.runs(most)]


async def read_stored(store: Store, run: str) -> ImportedRun:
    """A run of a store as if it had been read from a file."""
    return ImportedRun(run, "capataz", Origin("store"), await store.read(run), times_known=True)


@contextmanager
def twice(paths: Sequence[Path]) -> Generator[list[Path]]:
    """The paths, with what comes on standard input laid aside in a file, so that it too can be gone through again."""
    if STDIN not in paths:
        yield list(paths)
        return
    with TemporaryDirectory(prefix="capataz-") as folder:
        kept = Path(folder) / "stdin"
        with kept.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield [kept if path == STDIN else path for path in dict.fromkeys(paths)]


def as_given(report: Report, paths: Sequence[Path], read: Sequence[Path]) -> Report:
    """The report with standard input under its own name, and not under that of the file it was laid aside in."""
    if STDIN in paths:
        kept = str(read[list(dict.fromkeys(paths)).index(STDIN)])
        report.notes = [replace(note, file=note.file.replace(kept, "<stdin>")) for note in report.notes]
    return report


def titled(paths: Sequence[Path]) -> str:
    """What a page about these is called."""
    names = ["standard input" if path == STDIN else path.resolve().name or str(path) for path in paths[:3]]
    return ", ".join(names) + (" and more" if len(paths) > 3 else "")


def share(text: str) -> float:
    """A share as people write it.

    >>> share("0.4%"), share("0.004")
    (0.004, 0.004)
    """
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().rstrip("%").strip()) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise Misuse(f"--max-killed {text!r}: write a share of the good runs, for example 0.4% or 0.004")
    return value
