"""`capataz guards ...`: the guards by themselves, away from any run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import click
import orjson

from capataz.cli.options import as_json as json_option
from capataz.events.facts import JSON


@click.group()
def guards() -> None:
    """Try the guards on labelled histories before they may stop anything."""


@guards.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@json_option
@click.option("--policy", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A policy file.")
def score(files: tuple[Path, ...], as_json: bool, policy: Path | None) -> None:
    """Run the guards over the labelled cases in FILE and say how good they are.

    Precision, recall and F1 over the kinds of loop, healthy and recovering runs that were killed, and the steps a
    loop went on for until the cut. How to write cases of your own: docs/guards/cases.md.

    \b
      capataz guards score cases.json
      capataz guards score cases.json --policy policy.toml --json
    """
    from capataz.lens.cases import read_cases
    from capataz.lens.score import score as score_cases
    from capataz.policy.policy import Policy

    rules = Policy() if policy is None else Policy.from_toml(policy.read_text(encoding="utf-8"), str(policy))
    cases = [case for file in files for case in read_cases(file.read_bytes(), str(file))]
    report = score_cases(cases, rules.thresholds, rules.modes).report()
    click.echo(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode() if as_json else _text(report))


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
