"""One run in figures: how it ended, what it used, how its tools and models did. A fold over its events.

Figures are what metrics and alerts are made of, live or over a store. They are a handful of numbers for each run,
whatever its length. Nothing here is judged: `completed` stands for what the runtime recorded with its evidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from capataz.events.facts import (
    ChildEnded,
    EscalationAnswered,
    Event,
    Fact,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunResumed,
    RunStarted,
    ToolFailed,
    ToolFinished,
    ToolRefused,
    Usage,
)
from capataz.lens.metrics.counts import Counting, Labels
from capataz.lens.metrics.sketch import Sketch
from capataz.lens.spans import names as n

MINUTE = 60.0


@dataclass(slots=True)
class ToolFigures:
    """How one tool did. `calls` counts every try; a refused call was not run and is not among them."""

    calls: int = 0
    errors: int = 0
    refused: int = 0
    in_doubt: int = 0
    seconds: Sketch = field(default_factory=Sketch)


@dataclass(slots=True)
class ModelFigures:
    """How one model at one endpoint did. `unpriced` counts replies whose price is not known."""

    calls: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: Decimal = Decimal(0)
    unpriced: int = 0
    seconds: Sketch = field(default_factory=Sketch)
    first_byte: Sketch = field(default_factory=Sketch)


@dataclass(slots=True)
class Figures:
    """A run in figures. Tokens and money are the run's own; `all_tokens` and `all_money` hold its sub-agents' too."""

    run: str = ""
    agent: str = ""
    task_type: str = ""
    role: str = "acting"
    model: str = ""
    version: str = ""
    """Digests of prompt, tools and policy, with their names: what the run was made with."""
    root: str = ""
    source: str = "capataz"
    started_at: float = 0.0
    at: float = 0.0
    """Time of the newest event."""
    outcome: str = ""
    """Empty while it runs."""
    reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    money: Decimal | None = Decimal(0)
    """None once any part has no known price."""
    all_tokens: int = 0
    all_money: Decimal | None = Decimal(0)
    counts: dict[tuple[str, Labels], int] = field(default_factory=dict[tuple[str, Labels], int])
    tools: dict[str, ToolFigures] = field(default_factory=dict[str, ToolFigures])
    models: dict[tuple[str, str], ModelFigures] = field(default_factory=dict[tuple[str, str], ModelFigures])
    """By model and endpoint."""
    minutes: dict[int, int] = field(default_factory=dict[int, int])
    """Tokens by minute since the epoch."""

    @property
    def over(self) -> bool:
        return bool(self.outcome)

    @property
    def is_task(self) -> bool:
        """Whether the run is the top of its task, and no sub-agent's part of one."""
        return self.root in ("", self.run)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def seconds(self) -> float:
        return max(0.0, self.at - self.started_at)

    @property
    def turns(self) -> int:
        return self.count(n.TURNS)

    @property
    def looped(self) -> bool:
        return self.count(n.LOOPS) > 0

    @property
    def tool_calls(self) -> int:
        return sum(tool.calls for tool in self.tools.values())

    @property
    def tool_errors(self) -> int:
        return sum(tool.errors for tool in self.tools.values())

    def count(self, name: str) -> int:
        """How often something of `spans.names.COUNTERS` was counted, whatever its labels."""
        return sum(number for (counted, _), number in self.counts.items() if counted == name)

    def worst_burst(self) -> int:
        """The most retries the run made after one class of error."""
        bursts: dict[str, int] = {}
        for (name, labels), number in self.counts.items():
            if name == n.RETRIES:
                error = dict(labels).get(n.ERROR_CLASS, "")
                bursts[error] = bursts.get(error, 0) + number
        return max(bursts.values(), default=0)


@dataclass(slots=True)
class Measuring:
    """Figures that grow event by event, for a run that is watched live. O(1) for each event."""

    figures: Figures = field(default_factory=Figures)
    _counting: Counting = field(default_factory=Counting)
    _endpoint: str = ""
    _begun: bool = False

    def fold(self, event: Event) -> None:
        figures = self.figures
        if not self._begun:
            figures.started_at, self._begun = event.at, True
        figures.at = event.at
        for count in self._counting.fold(event):
            key = (count.name, count.labels)
            figures.counts[key] = figures.counts.get(key, 0) + 1
        match event.fact:
            case RunStarted() as fact:
                self._started(event, fact)
            case ModelCallStarted(endpoint=endpoint):
                self._endpoint = endpoint
            case ModelReplied() | ModelCallFailed() as fact:
                self._model(event, fact)
            case ToolFinished() | ToolFailed() | ToolRefused() as fact:
                self._tool(fact)
            case ChildEnded(spend=spend):
                figures.all_tokens += spend.tokens
                figures.all_money = _sum(figures.all_money, spend.money)
            case fact:
                self._standing(fact)

    def _standing(self, fact: Fact) -> None:
        figures = self.figures
        match fact:
            case RunEnded(outcome=outcome, reason=reason):
                figures.outcome, figures.reason = outcome, reason
            case RunEscalated(reason=reason):
                figures.outcome, figures.reason = "escalated", reason
            case RunResumed() | EscalationAnswered():
                figures.outcome = figures.reason = ""
            case _:
                pass

    def _started(self, event: Event, fact: RunStarted) -> None:
        figures, versions = self.figures, fact.versions
        figures.run, figures.agent, figures.role = fact.run, fact.agent, fact.role
        figures.task_type, figures.model = fact.task_type or "", fact.model
        figures.root, figures.source, figures.started_at = fact.root or fact.run, fact.source, event.at
        pairs = (("prompt", versions.prompt), ("tools", versions.tools), ("policy", versions.policy))
        figures.version = " ".join(f"{name}:{digest}" for name, digest in pairs if digest)

    def _model(self, event: Event, fact: ModelReplied | ModelCallFailed) -> None:
        figures = self.figures
        provider = self._endpoint or figures.model.partition(":")[0]
        known = figures.models.setdefault((fact.model, provider), ModelFigures())
        known.calls += 1
        known.seconds.add(fact.seconds)
        if isinstance(fact, ModelCallFailed):
            known.failures += 1
            return
        self._used(known, fact.usage, event.at)
        if fact.first_byte is not None:
            known.first_byte.add(fact.first_byte)

    def _used(self, known: ModelFigures, usage: Usage, at: float) -> None:
        figures = self.figures
        known.input_tokens += usage.input
        known.output_tokens += usage.output
        known.unpriced += usage.money is None
        known.money += usage.money or Decimal(0)
        figures.input_tokens += usage.input
        figures.output_tokens += usage.output
        figures.all_tokens += usage.tokens
        figures.money, figures.all_money = _sum(figures.money, usage.money), _sum(figures.all_money, usage.money)
        minute = int(at // MINUTE)
        figures.minutes[minute] = figures.minutes.get(minute, 0) + usage.tokens

    def _tool(self, fact: ToolFinished | ToolFailed | ToolRefused) -> None:
        known = self.figures.tools.setdefault(fact.call.tool, ToolFigures())
        if isinstance(fact, ToolRefused):
            known.refused += 1
            return
        known.calls += 1
        known.errors += 1 if isinstance(fact, ToolFailed) else fact.error
        known.in_doubt += fact.in_doubt
        known.seconds.add(fact.seconds)


def figures_of(events: Iterable[Event]) -> Figures:
    """A whole log in figures."""
    measuring = Measuring()
    for event in events:
        measuring.fold(event)
    return measuring.figures


def _sum(a: Decimal | None, b: Decimal | None) -> Decimal | None:
    return None if a is None or b is None else a + b
