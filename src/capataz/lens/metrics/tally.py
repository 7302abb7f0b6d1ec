"""Many runs in figures: by agent, task type, tool, model and endpoint, or version, in bounded memory.

Rates say what they are a share of, and are None where that is nothing: no runs is not the same as no failures. The
completion rate is the verified one: runs of acting agents that ended `completed`, which takes a confirmed effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias, TypeVar

from capataz.events.facts import JSON
from capataz.lens.metrics.figures import Figures, ModelFigures, ToolFigures
from capataz.lens.metrics.sketch import Sketch
from capataz.lens.spans import names as n

By = Literal["agent", "task", "tool", "model", "version"]
BY: tuple[By, ...] = ("agent", "task", "tool", "model", "version")
MOST_GROUPS = 2000
"""Groups kept apart; what comes after them is counted together as "other"."""
OTHER = "other"
G = TypeVar("G")


@dataclass(slots=True)
class Runs:
    """A group of runs, added up. With `tasks_only`, what is said of each run is said of whole tasks: a sub-agent's run
    is part of one, and not counted again."""

    tasks_only: bool = False
    runs: int = 0
    over: int = 0
    acting: int = 0
    """Runs of acting agents that are over: those a completion rate is about."""
    outcomes: Counter[str] = field(default_factory=Counter[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    input_tokens: int = 0
    output_tokens: int = 0
    money: Decimal = Decimal(0)
    unpriced: int = 0
    """Runs of which some part has no known price; what is known of their money is not in `money`."""
    looped: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    turns: Sketch = field(default_factory=Sketch)
    seconds: Sketch = field(default_factory=Sketch)
    tokens_each: Sketch = field(default_factory=Sketch)
    """Tokens of each run that is over, with its sub-agents'."""
    money_each: Sketch = field(default_factory=Sketch)

    def add(self, figures: Figures) -> None:
        self.runs += 1
        self.input_tokens += figures.input_tokens
        self.output_tokens += figures.output_tokens
        if figures.money is None:
            self.unpriced += 1
        else:
            self.money += figures.money
        for (name, _), number in figures.counts.items():
            self.counts[name] += number
        self.looped += figures.looped
        self.tool_calls += figures.tool_calls
        self.tool_errors += figures.tool_errors
        if figures.over:
            self._ended(figures)

    def _ended(self, figures: Figures) -> None:
        self.over += 1
        self.acting += figures.role == "acting"
        self.outcomes[figures.outcome] += 1
        if self.tasks_only and not figures.is_task:
            return
        self.turns.add(figures.turns)
        self.seconds.add(figures.seconds)
        self.tokens_each.add(figures.all_tokens)
        if figures.all_money is not None:
            self.money_each.add(float(figures.all_money))

    @property
    def completion_rate(self) -> float | None:
        return _rate(self.outcomes["completed"], self.acting)

    @property
    def loop_rate(self) -> float | None:
        return _rate(self.looped, self.runs)

    @property
    def tool_error_rate(self) -> float | None:
        return _rate(self.tool_errors, self.tool_calls)

    def json(self) -> dict[str, JSON]:
        """As plain values: rates between 0 and 1, seconds, US dollars."""
        outcomes: dict[str, JSON] = dict(sorted(self.outcomes.items()))
        counts: dict[str, JSON] = {name.removeprefix("capataz."): self.counts[name] for name in n.COUNTERS}
        return {
            "runs": self.runs,
            "over": self.over,
            "outcomes": outcomes,
            "completion_rate": _round(self.completion_rate),
            "loop_rate": _round(self.loop_rate),
            "tool_calls": self.tool_calls,
            "tool_error_rate": _round(self.tool_error_rate),
            "steps": _round(self.turns.mean),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "tokens_per_task": _round(self.tokens_each.mean),
            "money": str(self.money) if not self.unpriced else None,
            "money_known": str(self.money),
            "runs_without_price": self.unpriced,
            "money_per_task": _round(self.money_each.mean) if not self.unpriced else None,
            "seconds": quantiles(self.seconds),
            "counts": counts,
        }


@dataclass(slots=True)
class Tally:
    """All of it. `add` takes the figures of one run; nothing of the run is kept."""

    all: Runs = field(default_factory=lambda: Runs(tasks_only=True))
    agents: dict[str, Runs] = field(default_factory=dict[str, Runs])
    tasks: dict[str, Runs] = field(default_factory=dict[str, Runs])
    versions: dict[str, Runs] = field(default_factory=dict[str, Runs])
    tools: dict[str, ToolFigures] = field(default_factory=dict[str, ToolFigures])
    models: dict[str, ModelFigures] = field(default_factory=dict[str, ModelFigures])
    labelled: Counter[tuple[str, str, tuple[tuple[str, str], ...]]] = field(
        default_factory=Counter[tuple[str, str, tuple[tuple[str, str], ...]]]
    )
    """Counts by name, agent and labels."""

    def add(self, figures: Figures) -> None:
        self.all.add(figures)
        _group(self.agents, figures.agent or "?", Runs).add(figures)
        _group(self.tasks, figures.task_type or "(none)", Runs).add(figures)
        _group(self.versions, f"{figures.agent} {figures.version}".strip() or "?", Runs).add(figures)
        for name, tool in figures.tools.items():
            _add_tool(_group(self.tools, name, ToolFigures), tool)
        for (model, endpoint), used in figures.models.items():
            _add_model(_group(self.models, f"{model} at {endpoint or '?'}", ModelFigures), used)
        for (name, labels), number in figures.counts.items():
            if len(self.labelled) < MOST_GROUPS or (name, figures.agent, labels) in self.labelled:
                self.labelled[name, figures.agent, labels] += number

    def by(self, what: By) -> dict[str, Runs] | dict[str, ToolFigures] | dict[str, ModelFigures]:
        match what:
            case "agent":
                return self.agents
            case "task":
                return self.tasks
            case "version":
                return self.versions
            case "tool":
                return self.tools
            case "model":
                return self.models

    def json(self, what: By | None = None) -> dict[str, JSON]:
        """Everything, and one grouping (all of them, where none is named)."""
        wanted = BY if what is None else (what,)
        groups: dict[str, JSON] = {
            by: {name: _json(found) for name, found in sorted(self.by(by).items())} for by in wanted
        }
        return {"all": self.all.json(), **groups}


def tally(runs: Iterable[Figures]) -> Tally:
    total = Tally()
    for figures in runs:
        total.add(figures)
    return total


def quantiles(sketch: Sketch) -> dict[str, JSON]:
    """Median, 95th and 99th percentile, and the mean; None without values."""
    shares = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    found: dict[str, JSON] = {name: _round(sketch.quantile(share)) for name, share in shares}
    return {"mean": _round(sketch.mean), **found}


Group: TypeAlias = "Runs | ToolFigures | ModelFigures"


def _json(found: Group) -> JSON:
    match found:
        case Runs():
            return found.json()
        case ToolFigures():
            return {
                "calls": found.calls,
                "errors": found.errors,
                "error_rate": _round(_rate(found.errors, found.calls)),
                "refused": found.refused,
                "in_doubt": found.in_doubt,
                "seconds": quantiles(found.seconds),
            }
        case ModelFigures():
            return {
                "calls": found.calls,
                "failures": found.failures,
                "failure_rate": _round(_rate(found.failures, found.calls)),
                "input_tokens": found.input_tokens,
                "output_tokens": found.output_tokens,
                "money": str(found.money) if not found.unpriced else None,
                "seconds": quantiles(found.seconds),
                "first_byte": quantiles(found.first_byte),
            }


def _group(groups: dict[str, G], name: str, make: type[G]) -> G:
    if name not in groups and len(groups) >= MOST_GROUPS:
        name = OTHER
    return groups.setdefault(name, make())


def _add_tool(into: ToolFigures, found: ToolFigures) -> None:
    into.calls += found.calls
    into.errors += found.errors
    into.refused += found.refused
    into.in_doubt += found.in_doubt
    into.seconds.merge(found.seconds)


def _add_model(into: ModelFigures, found: ModelFigures) -> None:
    into.calls += found.calls
    into.failures += found.failures
    into.input_tokens += found.input_tokens
    into.output_tokens += found.output_tokens
    into.money += found.money
    into.unpriced += found.unpriced
    into.seconds.merge(found.seconds)
    into.first_byte.merge(found.first_byte)


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
