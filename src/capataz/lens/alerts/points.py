"""What an alert needs to know of a run: one small point each, so that thousands fit beside each other.

The metrics a rule may name are listed here, each with how it is judged. A rule on any other name is refused when it is
read: an alert on a figure nobody writes only looks like cover.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from capataz.lens.metrics.figures import Figures
from capataz.lens.spans import names as n

Judged = Literal["share", "tail", "mean", "total", "pace", "most"]
"""share: so many of so many. tail: a percentile, judged by the share of runs above the limit. mean: of a value of each
run, skewed. total: a sum over the window. pace: the busiest minute of the window. most: the worst single run."""


@dataclass(slots=True)
class Point:
    """A run, as alerts see it. Money in dollars (None: price not known), times in seconds."""

    run: str
    agent: str = ""
    task_type: str = ""
    at: float = 0.0
    """When it ended, or was last heard of."""
    started_at: float = 0.0
    outcome: str = ""
    acting: bool = True
    task: bool = True
    tokens: int = 0
    own_tokens: int = 0
    money: float | None = 0.0
    own_money: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    tools: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, "tuple[int, int]"])
    """Calls and errors by tool."""
    burst: int = 0
    minutes: Mapping[int, int] = field(default_factory=dict[int, int])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """What it was made with: model, prompt, tools, policy."""

    @property
    def over(self) -> bool:
        return bool(self.outcome)

    @property
    def good(self) -> bool:
        """Whether it ended as it should: verified for acting agents, with an answer for others."""
        return self.outcome == ("completed" if self.acting else "answered")


def point_of(figures: Figures) -> Point:
    """The point of a run's figures."""
    names = {name for name, _ in figures.counts}
    digests = (pair.split(":", 1) for pair in figures.version.split() if ":" in pair)
    return Point(
        run=figures.run,
        agent=figures.agent,
        task_type=figures.task_type,
        at=figures.at,
        started_at=figures.started_at,
        outcome=figures.outcome,
        acting=figures.role == "acting",
        task=figures.is_task,
        tokens=figures.all_tokens,
        own_tokens=figures.tokens,
        money=None if figures.all_money is None else float(figures.all_money),
        own_money=0.0 if figures.money is None else float(figures.money),
        steps=figures.turns,
        seconds=figures.seconds,
        counts={name: figures.count(name) for name in names},
        tools={name: (tool.calls, tool.errors) for name, tool in figures.tools.items()},
        burst=figures.worst_burst(),
        minutes=dict(figures.minutes),
        versions={"model": figures.model, **{what: digest for what, digest in digests}},
    )


Part: TypeAlias = "tuple[int, int]"


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that rules may name."""

    judged: Judged
    help: str
    unit: Literal["share", "tokens", "dollars", "seconds", "count"]
    part: Callable[[Point, str], Part] | None = None
    """For shares: how many of how many, in one run (the second argument is the rule's tool, or empty)."""
    value: Callable[[Point], float | None] | None = None
    tail: float = 0.0
    """For percentiles: the share of runs that may be above."""


def _runs_with(name: str) -> Callable[[Point, str], Part]:
    return lambda point, _: (int(point.counts.get(name, 0) > 0), 1)


def _tool_errors(point: Point, tool: str) -> Part:
    if tool:
        calls, errors = point.tools.get(tool, (0, 0))
        return errors, calls
    return sum(errors for _, errors in point.tools.values()), sum(calls for calls, _ in point.tools.values())


def _empty_turns(point: Point, _: str) -> Part:
    empty = point.counts.get(n.EMPTY_TURNS, 0)
    return empty, max(point.steps, empty)


def _good(point: Point, _: str) -> Part:
    return int(point.good), int(point.over)


def _count(name: str) -> Callable[[Point], float]:
    return lambda point: point.counts.get(name, 0)


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "loop_rate": Metric("share", "runs in which a loop was noticed", "share", part=_runs_with(n.LOOPS)),
        "tool_error_rate": Metric("share", "tool calls that failed", "share", part=_tool_errors),
        "empty_turn_rate": Metric(
            "share",
            "turns that only said something",
            "share",
            part=_empty_turns,
        ),
        "hang_rate": Metric("share", "runs in which a wait had to be cut", "share", part=_runs_with(n.KILLS)),
        "escalation_rate": Metric("share", "runs that needed a person", "share", part=_runs_with(n.ESCALATIONS)),
        "budget_rate": Metric("share", "runs that reached a ceiling", "share", part=_runs_with(n.REFUSALS)),
        "completion_rate": Metric("share", "runs that ended as they should", "share", part=_good),
        "latency_p95": Metric(
            "tail", "95th percentile of a run's time", "seconds", value=lambda p: p.seconds, tail=0.05
        ),
        "latency_p99": Metric(
            "tail", "99th percentile of a run's time", "seconds", value=lambda p: p.seconds, tail=0.01
        ),
        "latency_mean": Metric("mean", "time of a run", "seconds", value=lambda p: p.seconds),
        "steps": Metric("mean", "turns of a run", "count", value=lambda p: p.steps),
        "tokens_per_task": Metric("mean", "tokens of a run", "tokens", value=lambda p: p.tokens),
        "money_per_task": Metric("mean", "money of a run", "dollars", value=lambda p: p.money),
        "tokens_total": Metric("total", "tokens in the window", "tokens", value=lambda p: p.own_tokens),
        "money_total": Metric("total", "money in the window", "dollars", value=lambda p: p.own_money),
        "runs_total": Metric("total", "runs in the window", "count", value=lambda p: 1),
        "retries_total": Metric("total", "retries in the window", "count", value=_count(n.RETRIES)),
        "escalations_total": Metric("total", "escalations in the window", "count", value=_count(n.ESCALATIONS)),
        "watchdog_kills_total": Metric("total", "waits cut in the window", "count", value=_count(n.KILLS)),
        "effects_denied_total": Metric("total", "denied effects in the window", "count", value=_count(n.DENIED)),
        "tokens_per_minute": Metric("pace", "tokens in the busiest minute", "tokens"),
        "retry_burst": Metric("most", "retries after one class of error, in one run", "count", value=lambda p: p.burst),
    }
)
