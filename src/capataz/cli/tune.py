"""`capataz tune PATH...`: the limits of the guards, chosen from past runs of which it is known how they ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capataz.cli.diagnose import classes, idle_kinds, jobs_for, notice
from capataz.cli.finding import open_existing
from capataz.cli.options import OUTPUT, as_json as json_option
from capataz.cli.render import console, print_json
from capataz.cli.tuning import Part, as_given, idle_labels, labeller, put, read_stored, share, stored, titled, twice
from capataz.events.facts import Kind
from capataz.ingest.parallel import Work, fold_runs
from capataz.ingest.report import Report
from capataz.lens.tune.as_json import ALONE, EXACT, Tuned, percent, tuned_json
from capataz.lens.tune.choose import choose, chosen_thresholds, tools_with_enough_runs
from capataz.lens.tune.probe import Curve, Curves
from capataz.mistakes import Misuse
from capataz.policy.policy import Policy

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ROUNDS = 4
"""Times the choice is replayed and, where all limits together cut too much, made again."""
_MOST_STORED = 100_000
_BAR = 28


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True, allow_dash=True))
@click.option("--store", metavar="URL", help="Take the runs of this store: an outcome of completed is a success.")
@click.option("--label", "labels", default="", metavar="FILE.csv|MODULE:FUNC", help="What says how a run went.")
@click.option("--max-killed", default="0.4%", show_default=True, metavar="SHARE", help="Good runs that may be cut.")
@click.option(
    "--policy", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The policy to begin from."
)
@click.option("--write", type=OUTPUT, help="Write the tuned policy to FILE.")
@click.option("--html", type=OUTPUT, help="Write a self-contained page to FILE.")
@json_option
@click.option(
    "--kind", "kinds", multiple=True, metavar="NAME=CLASS", help="What a tool does, where the guess is wrong."
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes. Without it: one per core, one for small inputs.")
def tune(
    paths: tuple[Path, ...],
    store: str | None,
    labels: str,
    max_killed: str,
    policy: Path | None,
    write: Path | None,
    html: Path | None,
    as_json: bool,
    kinds: tuple[str, ...],
    jobs: int | None,
) -> None:
    """Choose the limits of the guards from the recorded runs under PATHS (- for standard input), or in a store.

    Every limit is tried at every count; drawn is, for each class of tool, the work saved against the good runs cut.
    Then the limits are chosen that save most while no more good runs are cut than allowed, and replayed together. A
    replay is exact up to the first firing. Runs of which nobody knows how they went are left out.

    \b
      capataz tune traces/ --max-killed 0.4% --write policy.toml
      capataz tune logs.jsonl --label outcomes.csv --html tuned.html
      capataz tune --store sqlite:///capataz.db --label checks:went_well
    """
    if bool(paths) == (store is not None):
        raise Misuse("say what to read: PATHS of records, or --store URL")
    most, rules = share(max_killed), Policy()
    if policy is not None:
        rules = Policy.from_toml(policy.read_text(encoding="utf-8"), str(policy))
    labeller(labels)  # a mistake in it shows before anything is read
    screen = console(stderr=True)
    with twice(paths) as held:
        runs = _Runs(held, store, labels, classes(kinds), jobs or jobs_for(held), screen)
        tuned, chosen, report = _tune(runs, rules, most)
        report = as_given(report, paths, held)
    _write(tuned, chosen, report, write, html, screen, paths)
    if as_json:
        print_json(tuned_json(tuned, report.as_json()))
    else:
        _print(tuned, console())


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs, which may be gone through more than once."""

    paths: Sequence[Path]
    store: str | None
    labels: str
    kinds: dict[str, Kind]
    jobs: int
    screen: Console

    def replay(self, words: str, policies: tuple[str, ...], probing: bool) -> tuple[Part, Report]:
        """One pass over all runs: what policies do as a whole, and with `probing` what each limit would do."""
        start = partial(Part, policies, self.labels, probing)
        with _bar(self.screen, words) as advance:
            if self.store is not None:
                parts = [(asyncio.run(_fold_store(self.store, start(), advance)), Report())]
            else:
                parts = fold_runs(Work(self.paths, start, put, kinds=self.kinds), self.jobs, advance)
        whole, report = start(), Report()
        for part, found in parts:
            whole.merge(part)
            report.merge(found)
        return whole, report


@contextmanager
def _bar(screen: Console, words: str) -> Generator[Callable[[int], None]]:
    """A line that counts runs, where a person looks."""
    if not screen.is_terminal:
        yield lambda count: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,.0f} runs"))
    with Progress(*columns, TimeElapsedColumn(), console=screen, transient=True) as bar:
        task = bar.add_task(words)
        yield lambda count: bar.advance(task, count)


async def _fold_store(url: str, part: Part, advance: Callable[[int], None]) -> Part:
    store = open_existing(url)
    try:
        for run in await stored(store, _MOST_STORED):
            put(part, await read_stored(store, run))
            advance(1)
    finally:
        await store.close()
    return part


def _tune(runs: _Runs, rules: Policy, most: float) -> tuple[Tuned, Policy, Report]:
    """Choose, replay the choice as a whole, and choose more carefully while it still cuts too much."""
    text = rules.to_toml()
    tried, report = runs.replay("trying every limit", (text,), True)
    notice(runs.screen, [*idle_kinds(runs.kinds, report.tools), *idle_labels(runs.labels, tried.met)])
    curves, (now,) = tried.curves, tried.trials
    allowed = room = int(most * curves.good)
    rounds = 0
    while True:
        rounds += 1
        choices = choose(curves, rules.thresholds, room)
        thresholds = chosen_thresholds(rules.thresholds, choices)
        policy = rules if thresholds == rules.thresholds else replace(rules, thresholds=thresholds)
        if policy is rules:
            return Tuned(curves, choices, most, now, now), rules, report
        replayed, _ = runs.replay("replaying the choice", (policy.to_toml(),), False)
        (trial,) = replayed.trials
        tuned = Tuned(curves, choices, most, now, trial)
        if tuned.kept or room <= 0 or rounds >= _ROUNDS:
            return tuned, policy, report
        room = max(0, room - max(1, trial.good_cut - allowed))


def _write(
    tuned: Tuned,
    policy: Policy,
    report: Report,
    write: Path | None,
    html: Path | None,
    screen: Console,
    paths: Sequence[Path],
) -> None:
    if write is not None:
        if not tuned.curves.good or not tuned.curves.failed:
            raise Misuse(
                "there are no good or no failed runs among these records: a policy tuned on them means nothing"
            )
        write.write_text(policy.to_toml(), encoding="utf-8")
        screen.print(f"wrote {write}", markup=False)
    if html is not None:
        from capataz.lens.tune.page import page

        html.write_text(page(tuned, report.as_json(), titled(paths) or "a store"), encoding="utf-8", errors="replace")
        screen.print(f"wrote {html}", markup=False)


# ── on the terminal ──────────────────────────────────────────────────────────────────────────────────────


def _print(tuned: Tuned, out: Console) -> None:
    curves = tuned.curves
    out.print(
        f"{curves.good:,} good and {curves.failed:,} failed runs; {curves.unknown:,} of unknown outcome left out."
    )
    if not curves.good + curves.failed:
        out.print("No run says how it ended: give --label.")
        return
    stops = {one.setting: (one.now.stop, one.chosen.stop) for one in tuned.choices}
    for kind in sorted({kind for _, kind in curves.by_class}):
        for (setting, owner), curve in sorted(curves.by_class.items()):
            if owner == kind:
                out.print(f"\n[bold]{kind or 'no tool'}[/bold] · {setting}")
                out.print(_plot(curve, curves, *stops[setting]))
    for setting in tools_with_enough_runs(curves):
        if setting in stops:
            out.print(f"\none tool · {setting}", style="bold", markup=False)
            out.print(_plot(curves.whole[setting], curves, *stops[setting]))
    out.print()
    out.print(_chosen(tuned))
    _together(tuned, out)


def _plot(curve: Curve, curves: Curves, now: int, chosen: int) -> Table:
    """A line for each count: a bar for the work saved, another for the good runs cut, each as long as its share."""
    from rich.table import Table
    from rich.text import Text

    most_saved = max(point.saved for point in curve.values()) or 1
    most_good = max(point.good for point in curve.values()) or 1
    table = Table(box=None, pad_edge=False, show_header=False)
    for count, point in sorted(curve.items()):
        mark = ("now " if count == now else "") + ("chosen" if count == chosen else "")
        table.add_row(
            Text(f"  cut at {count:2}", style="bold" if count == chosen else ""),
            Text("█" * round(_BAR * point.saved / most_saved), style="green"),
            Text(f"{percent(point.saved, curves.calls)} saved"),
            Text("█" * round(_BAR // 2 * point.good / most_good), style="red"),
            Text(f"{point.good:,} good cut ({percent(point.good, curves.good)})"),
            Text(mark.strip(), style="cyan"),
        )
    return table


def _chosen(tuned: Tuned) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("limit", "told, cut now", "as chosen", "good runs cut", "calls saved", "why"):
        table.add_column(name, justify="left" if name in ("limit", "why") else "right")
    for one in tuned.choices:
        changed = one.chosen != one.now
        table.add_row(
            one.setting,
            f"{one.now.nudge}, {one.now.stop}",
            f"{one.chosen.nudge}, {one.chosen.stop}",
            f"{one.before.good:,} → {one.after.good:,}" if changed else f"{one.before.good:,}",
            f"{one.before.saved:,} → {one.after.saved:,}" if changed else f"{one.before.saved:,}",
            one.why,
            style="bold" if changed else "",
        )
    return table


def _together(tuned: Tuned, out: Console) -> None:
    out.print("\nAll guards together, replayed:")
    for name, trial in (("as it is", tuned.now), ("as chosen", tuned.chosen)):
        out.print(
            f"  {name:9}  {trial.good_cut:,} of {trial.good:,} good runs cut ({percent(trial.good_cut, trial.good)}), "
            f"{percent(trial.saved, trial.calls)} of the calls of failed runs saved",
            markup=False,
        )
    if not tuned.kept:
        out.print(
            f"  That is more than the {100 * tuned.max_killed:g} % allowed: guards without a count cut the rest.",
            style="yellow",
        )
    out.print(EXACT, style="dim", markup=False)
    out.print(ALONE, style="dim", markup=False)
