"""A tally in Prometheus' text format, for a scraper: counters that only grow, and histograms of what takes time.

Names and help are fixed here, and the rules shipped beside the exporter are held against them by a test. A label is
never made from what a person or a model wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from capataz.lens.metrics.sketch import Sketch
from capataz.lens.metrics.tally import Tally
from capataz.lens.spans import names as n

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Seconds: upper bounds of the buckets, for runs, tools and model calls alike."""

COUNTERS: Mapping[str, str] = {
    "capataz_runs_started_total": "Runs begun.",
    "capataz_runs_total": "Runs that are over, by outcome.",
    "capataz_runs_looping_total": "Runs in which a loop was noticed.",
    "capataz_acting_runs_total": "Runs of acting agents that are over: what completion is a share of.",
    "capataz_tokens_total": "Tokens, by direction.",
    "capataz_cost_dollars_total": "Money, in US dollars, of calls whose price is known.",
    "capataz_unpriced_runs_total": "Runs with a call whose price is not known.",
    "capataz_tool_calls_total": "Tool calls that were run, every try.",
    "capataz_tool_errors_total": "Tool calls that failed, every try.",
    "capataz_tool_refusals_total": "Tool calls that were not run.",
    "capataz_model_calls_total": "Model calls, every try.",
    "capataz_model_failures_total": "Model calls that failed, every try.",
    "capataz_turns_total": "Turns of the model's.",
    "capataz_turns_empty_total": "Turns failed for doing nothing.",
    "capataz_retries_total": "Tries after a failure, by class of error.",
    "capataz_escalations_total": "Runs suspended until someone else decides.",
    "capataz_loops_total": "Loops noticed, by guard.",
    "capataz_watchdog_kills_total": "Waits cut because no sign of life came.",
    "capataz_budget_refusals_total": "What was not begun because a ceiling was reached.",
    "capataz_effects_confirmed_total": "Acts whose effect was confirmed.",
    "capataz_effects_denied_total": "Acts whose effect was denied.",
}
HISTOGRAMS: Mapping[str, str] = {
    "capataz_run_seconds": "How long runs take.",
    "capataz_run_turns": "Turns of a run.",
    "capataz_tool_seconds": "How long tools take.",
    "capataz_model_seconds": "How long model calls take.",
}
NAMES = (*COUNTERS, *HISTOGRAMS)
"""Every series there is; a rule on any other is a rule on nothing."""
_LABELS: Mapping[str, str] = {
    n.ERROR_CLASS: "error_class",
    n.GUARD: "guard",
    n.WAITING_FOR: "waiting_for",
    n.TOOL_NAME: "tool",
}
_TURNS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)


def exposition(total: Tally) -> str:
    """The text a scraper reads. Every name is there from the start, so that no rule ever watches nothing."""
    lines: dict[str, list[str]] = {name: [] for name in NAMES}
    for name, line in _lines(total):
        lines[name].append(line)
    return "".join(_family(name, found) for name, found in lines.items())


def _family(name: str, found: list[str]) -> str:
    kind = "counter" if name in COUNTERS else "histogram"
    words = COUNTERS.get(name) or HISTOGRAMS[name]
    body = "".join(f"{line}\n" for line in found) or (f"{name} 0\n" if kind == "counter" else "")
    return f"# HELP {name} {words}\n# TYPE {name} {kind}\n{body}"


def _lines(total: Tally) -> Iterator[tuple[str, str]]:
    yield from _of_agents(total)
    yield from _of_tools(total)
    yield from _of_models(total)
    counted: dict[tuple[str, str], int] = {}
    for (name, agent, labels), number in total.labelled.items():
        told = {"agent": agent, **{_LABELS.get(key, key.rpartition(".")[2]): value for key, value in labels}}
        series = f"{name.replace('.', '_')}_total"
        line = f"{series}{_braces(told)}"
        counted[series, line] = counted.get((series, line), 0) + number
    for (series, line), number in sorted(counted.items()):
        yield series, f"{line} {number}"


def _of_agents(total: Tally) -> Iterator[tuple[str, str]]:
    for agent, runs in sorted(total.agents.items()):
        who = {"agent": agent}
        for outcome, number in sorted(runs.outcomes.items()):
            yield _counter("capataz_runs_total", number, {**who, "outcome": outcome})
        yield _counter("capataz_runs_started_total", runs.runs, who)
        yield _counter("capataz_runs_looping_total", runs.looped, who)
        yield _counter("capataz_acting_runs_total", runs.acting, who)
        yield _counter("capataz_tokens_total", runs.input_tokens, {**who, "direction": "input"})
        yield _counter("capataz_tokens_total", runs.output_tokens, {**who, "direction": "output"})
        yield _counter("capataz_cost_dollars_total", float(runs.money), who)
        yield _counter("capataz_unpriced_runs_total", runs.unpriced, who)
        yield from _histogram("capataz_run_seconds", runs.seconds, who, BOUNDS)
        yield from _histogram("capataz_run_turns", runs.turns, who, _TURNS)


def _of_tools(total: Tally) -> Iterator[tuple[str, str]]:
    for tool, found in sorted(total.tools.items()):
        what = {"tool": tool}
        yield _counter("capataz_tool_calls_total", found.calls, what)
        yield _counter("capataz_tool_errors_total", found.errors, what)
        yield _counter("capataz_tool_refusals_total", found.refused, what)
        yield from _histogram("capataz_tool_seconds", found.seconds, what, BOUNDS)


def _of_models(total: Tally) -> Iterator[tuple[str, str]]:
    for named, found in sorted(total.models.items()):
        model, _, endpoint = named.partition(" at ")
        what = {"model": model, "endpoint": endpoint}
        yield _counter("capataz_model_calls_total", found.calls, what)
        yield _counter("capataz_model_failures_total", found.failures, what)
        yield from _histogram("capataz_model_seconds", found.seconds, what, BOUNDS)


def _counter(name: str, value: float, labels: Mapping[str, str]) -> tuple[str, str]:
    return name, f"{name}{_braces(labels)} {value!r}"


def _histogram(
    name: str, sketch: Sketch, labels: Mapping[str, str], bounds: Iterable[float]
) -> Iterator[tuple[str, str]]:
    for bound in bounds:
        yield name, f"{name}_bucket{_braces({**labels, 'le': f'{bound:g}'})} {sketch.below(bound)}"
    yield name, f"{name}_bucket{_braces({**labels, 'le': '+Inf'})} {sketch.count}"
    yield name, f"{name}_sum{_braces(labels)} {sketch.total:.6f}"
    yield name, f"{name}_count{_braces(labels)} {sketch.count}"


def _braces(labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
