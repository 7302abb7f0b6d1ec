"""What to watch for: rules, the ones that are built in, and the file a project keeps its own in.

    [[rules]]
    metric = "loop_rate"        # what to watch: see METRICS
    over = 0.05                 # or: under, rises (a share more than before), times (so many times the usual)
    agent = "support"           # only its runs; likewise task_type, and tool for tool_error_rate
    window = "24h"              # or runs = 300: the newest so many

A name that means nothing is refused when the file is read, with the nearest one that would. This module reads no file.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from difflib import get_close_matches
from math import isfinite
from typing import Any, Literal, cast

from capataz.lens.alerts.points import METRICS, Judged, Metric, Point
from capataz.mistakes import Misuse

Severity = Literal["warning", "critical"]
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
DAY = 86_400.0
_WINDOWS: dict[Judged, float] = {"pace": 900.0, "mean": 7 * DAY}
_LEAST: dict[Judged, int] = {"share": 50, "tail": 100, "mean": 300, "total": 1, "pace": 1, "most": 1}
_WAYS: dict[Judged, tuple[str, ...]] = {
    "share": ("over", "under"),
    "tail": ("over",),
    "mean": ("rises",),
    "total": ("over", "under"),
    "pace": ("over", "times"),
    "most": ("over",),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing to be told of. Exactly one of `over`, `under`, `rises` and `times` is set."""

    metric: str
    name: str = ""
    over: float | None = None
    under: float | None = None
    rises: float | None = None
    """0.2 finds a rise of 20 %: it fires when a rise is sure and its estimate is at least half of that."""
    times: float | None = None
    """So many times what is usual at that hour of the day."""
    agent: str = ""
    task_type: str = ""
    tool: str = ""
    window: float = 0.0
    """Seconds back from now. For `rises` the windows are counted in runs, and the newest has to be this recent."""
    runs: int = 300
    """For `rises`: how many runs are recent. Up to seven times as many before them are what they are held against."""
    at_least: int = 0
    """How many runs (or calls, or turns) there have to be before anything is said."""
    flat: str = ""
    """"completion_rate": a rise of cost matters where completion has not risen with it."""
    clear: float = 0.9
    """It is over when the value is below this share of the limit, not as soon as it is below the limit."""
    cooldown: float = 6 * 3600.0
    """Seconds in which the same is not told again."""
    severity: Severity = "warning"

    @property
    def what(self) -> Metric:
        return METRICS[self.metric]

    @property
    def limit(self) -> float:
        given = [value for value in (self.over, self.under, self.rises, self.times) if value is not None]
        return given[0]

    def covers(self, point: Point) -> bool:
        """Whether the rule is about this run."""
        return (
            (not self.agent or point.agent == self.agent)
            and (not self.task_type or point.task_type == self.task_type)
            and (not self.tool or self.tool in point.tools)
        )


def seconds_of(text: str) -> float:
    """A stretch of time in words: a number and s, m, h, d or w.

    >>> seconds_of("90m"), seconds_of("7d")
    (5400.0, 604800.0)
    """
    number, unit = text.strip()[:-1], text.strip()[-1:]
    try:
        found = float(number) * _UNITS[unit]
    except (KeyError, ValueError):
        raise Misuse(f"{text!r} is no time: write 30m, 24h or 7d") from None
    if not isfinite(found) or found <= 0:
        raise Misuse(f"{text!r} is no time: give more than nothing")
    return found


def made(given: dict[str, Any], where: str) -> Rule:
    """A rule from the values of a table. Raises `Misuse` that says what is wrong and what would mean something."""
    known = {each.name: each.type for each in fields(Rule)}
    for key in given:
        if key not in known:
            raise Misuse(f"{where}: there is no {key!r} in a rule{_near(key, known)}")
    metric = given.get("metric")
    if not isinstance(metric, str) or metric not in METRICS:
        raise Misuse(
            f"{where}: there is no metric {metric!r}{_near(str(metric), METRICS)}; the metrics are {', '.join(METRICS)}"
        )
    values = {key: _read(key, value, where) for key, value in given.items()}
    judged = METRICS[metric].judged
    ways = [way for way in ("over", "under", "rises", "times") if values.get(way) is not None]
    if len(ways) != 1 or ways[0] not in _WAYS[judged]:
        raise Misuse(f"{where}: a rule on {metric} takes exactly one of {' or '.join(_WAYS[judged])}")
    if judged == "share" and (values[ways[0]] > 1 or values.get("over") == 1):  # never passed: it would watch nothing
        raise Misuse(f"{where}: {metric} is a share: {ways[0]} is between 0 and 1, 0.05 for 5 %")
    if values.get("tool") and metric != "tool_error_rate":
        raise Misuse(f"{where}: a tool can only be named for tool_error_rate")
    values.setdefault("window", _WINDOWS.get(judged, DAY))
    values.setdefault("at_least", min(_LEAST[judged], values.get("runs", 300)))
    values.setdefault("name", _named(values, ways[0]))
    return Rule(**values)


def read(text: str, where: str = "rules") -> tuple[Rule, ...]:
    """The rules of a TOML text. Raises `Misuse` for whatever does not mean anything."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Misuse(f"{where} is not TOML: {error}") from error
    unknown = [key for key in table if key != "rules"]
    listed: object = table.get("rules")
    if unknown or not isinstance(listed, list) or not listed:
        raise Misuse(f"{where}: write each rule as [[rules]]" + (f", not {unknown[0]!r}" if unknown else ""))
    rules: list[Rule] = []
    for number, given in enumerate(cast("list[object]", listed), 1):
        if not isinstance(given, dict):
            raise Misuse(f"{where}: rule {number} is not a table")
        rules.append(made(cast("dict[str, Any]", given), f"{where}: rule {number}"))
    names = [rule.name for rule in rules]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Misuse(f"{where}: two rules are called {twice!r}: give each a name of its own")
    return tuple(rules)


def _read(key: str, value: Any, where: str) -> Any:
    texts = ("metric", "name", "agent", "task_type", "tool", "flat", "severity")
    if key in texts:
        if not isinstance(value, str):
            raise Misuse(f"{where}: {key} is a text")
        choices = {"flat": ("", "completion_rate"), "severity": ("warning", "critical")}.get(key)
        if choices is not None and value not in choices:
            raise Misuse(f"{where}: {key} is one of {', '.join(choice for choice in choices if choice)}")
        return value
    if key in ("window", "cooldown"):
        return seconds_of(value if isinstance(value, str) else f"{value}s")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value < 0:
        raise Misuse(f"{where}: {key} is a number, 0 or more")
    if key in ("runs", "at_least"):
        if value != int(value) or value < (10 if key == "runs" else 1):
            raise Misuse(f"{where}: {key} is a whole number, {10 if key == 'runs' else 1} or more")
        return int(value)
    return float(value)


def _named(values: dict[str, Any], way: str) -> str:
    words = [str(values["metric"]), f"{way} {values[way]:g}"]
    words += [f"{key} {values[key]}" for key in ("agent", "task_type", "tool") if values.get(key)]
    return ", ".join(words)


def _near(word: str, known: Any) -> str:
    near = get_close_matches(word, list(known), 1, 0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


DEFAULT_TOML = """\
# What `capataz alerts` watches for where no file says otherwise.
[[rules]]
name = "loops"
metric = "loop_rate"
over = 0.05

[[rules]]
name = "tool errors"
metric = "tool_error_rate"
over = 0.20

[[rules]]
name = "steps rising"
metric = "steps"
rises = 0.20

[[rules]]
name = "slow"
metric = "latency_p99"
over = 600

[[rules]]
name = "cost rising"
metric = "money_per_task"
rises = 0.20
flat = "completion_rate"

[[rules]]
name = "tokens rising"
metric = "tokens_per_task"
rises = 0.20
flat = "completion_rate"

[[rules]]
name = "token rate"
metric = "tokens_per_minute"
over = 200_000
severity = "critical"

[[rules]]
name = "hanging"
metric = "hang_rate"
over = 0.02

[[rules]]
name = "empty turns"
metric = "empty_turn_rate"
over = 0.05

[[rules]]
name = "retry burst"
metric = "retry_burst"
over = 20
"""


def default_rules() -> tuple[Rule, ...]:
    """The rules that are built in."""
    return read(DEFAULT_TOML, "the built-in rules")
