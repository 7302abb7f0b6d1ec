"""`capataz guards ...`: the guards by themselves, away from any run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import orjson

from capataz.cli.options import as_json as json_option
from capataz.events.facts import JSON
from capataz.ingest.files import UNPACKING, Source, members, sources
from capataz.ingest.report import Limits, Report
from capataz.mistakes import Misuse

if TYPE_CHECKING:
    from capataz.lens.cases.read import Case


@click.group()
def guards() -> None:
    """Try the guards on labelled histories before they may stop anything."""


@guards.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, exists=True, allow_dash=True)
)
@json_option
@click.option("--policy", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A policy file.")
def score(files: tuple[Path, ...], as_json: bool, policy: Path | None) -> None:
    """Run the guards over the labelled cases in FILE and say how good they are.

    Precision, recall and F1 over the kinds of loop, healthy and recovering runs that were killed, and the steps a
    loop went on for until the cut. FILE may be a folder or an archive too, or - for standard input. How to write
    cases of your own: docs/guards/cases.md.

    \b
      capataz guards score cases.json
      capataz guards score cases/ --policy policy.toml --json
      zcat cases.json.gz | capataz guards score -
    """
    from capataz.lens.score import score as score_cases
    from capataz.policy.policy import Policy

    rules = Policy() if policy is None else Policy.from_toml(policy.read_text(encoding="utf-8"), str(policy))
    report = score_cases(_cases(files), rules.thresholds, rules.modes).report()
    click.echo(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode() if as_json else _text(report))


def _cases(files: Sequence[Path]) -> list[Case]:
    """All cases. What stands in a folder or an archive beside the cases is left alone, by name."""
    from capataz.lens.cases.read import distinct, holds_cases, read_cases

    cases, report, limits = list["Case"](), Report(), Limits()
    for file in files:
        for source in sources([file], report, limits):
            beside = source.archive is not None or source.member or file.is_dir()
            for name, data in _contents(source, limits):
                if beside and not holds_cases(data):
                    click.echo(f"left alone, no cases: {name}", err=True)
                else:
                    cases += read_cases(data, name)
    if report.broken:
        raise Misuse(f"not everything could be read: {'; '.join(str(note) for note in report.notes[:5])}")
    if not cases:
        raise Misuse(f"there is no case in {', '.join(str(file) for file in files)}; see docs/guards/cases.md")
    distinct(cases, "together these files")
    return cases


def _contents(source: Source, limits: Limits) -> Iterator[tuple[str, bytes]]:
    """What is in a file, or in each of an archive's."""
    try:
        if source.archive is None:
            yield source.name, source.stream.read(limits.value_bytes)
            return
        for name, stream in members(source.archive, limits):
            yield f"{source.name}/{name}", stream.read(limits.value_bytes)
    except UNPACKING as problem:
        raise Misuse(f"{source.name} cannot be unpacked: {problem}") from problem


def _text(report: Mapping[str, JSON]) -> str:
    healthy, recovering = _held(report, "healthy"), _held(report, "recovering")
    lines = [
        f"precision {_figure(report['precision'])}   recall {_figure(report['recall'])}   f1 {_figure(report['f1'])}",
        f"healthy runs killed     {healthy['killed']} of {healthy['total']}",
        f"recovering runs killed  {recovering['killed']} of {recovering['total']}",
        f"mean steps to the cut   {_figure(report['mean_steps_to_cut'], 1)}",
        "",
        f"{'kind':14}{'cases':>6}{'caught':>8}{'missed':>8}{'early':>7}{'late':>6}{'steps':>7}",
    ]
    for kind, counts in cast(dict[str, dict[str, JSON]], report["by_kind"]).items():
        if counts["total"]:
            lines.append(
                f"{kind:14}{counts['total']:>6}{counts['caught']:>8}{counts['missed']:>8}{counts['early']:>7}"
                f"{counts['late']:>6}{_figure(counts['mean_steps'], 1):>7}"
            )
    wrong = [case for case in cast(list[dict[str, JSON]], report["cases"]) if case["verdict"] not in _RIGHT]
    if wrong:
        lines += ["", "not as labelled:"]
        lines += [f"  {case['id']}: {case['verdict']}, {_fired(case)}" for case in wrong]
    return "\n".join(lines)


_RIGHT = ("caught", "spared")


def _held(report: Mapping[str, JSON], name: str) -> dict[str, JSON]:
    return cast(dict[str, JSON], report[name])


def _figure(value: JSON, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if isinstance(value, int | float) else "-"


def _fired(case: Mapping[str, JSON]) -> str:
    return "never fired" if case["fired_at"] is None else f"{case['signal']} at {case['fired_at']}"
