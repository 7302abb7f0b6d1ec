"""What an error may cost: the table from each row of the taxonomy to retries, backoff and terminal action.

The table is data. `decide` reads it; nothing else knows how often anything is tried again. A row missing from it is
a mistake found when the policy is built, never during a run. What differs for one provider, model or tool is laid
over the rows, a number at a time, so that the table stays short enough to be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, assert_never, get_args

from capataz.events.facts import Fault, Row
from capataz.mistakes import PolicyMisuse

Terminal = Literal["supervisor", "human", "correct", "abort", "partial"]

ROWS: tuple[Row, ...] = get_args(Row)
PASSING: frozenset[Row] = frozenset({"transient", "rate_limit"})
"""Rows that pass by themselves: the only ones in which a tool is run again without the model being asked."""

MOST_RETRIES = 100


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: how often to try again, how long to wait (seconds), and what happens when that is used up.

    The wait before retry n (from 0) is `first * factor**n`, at most `cap`, plus up to `jitter` of itself, drawn.
    """

    retries: int
    terminal: Terminal
    first: float = 0.5
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    def wait(self, attempt: int, hint: float | None, fraction: float) -> float:
        """Seconds before trying again: the provider's hint where there is one, never less than it."""
        own = min(self.first * self.factor**attempt, self.cap)
        own += own * self.jitter * fraction
        return own if hint is None else max(hint, own if hint == 0 else hint)


@dataclass(frozen=True, slots=True)
class Override:
    """What differs from a row for one provider, model or tool; None leaves the row's own value."""

    retries: int | None = None
    terminal: Terminal | None = None
    first: float | None = None
    factor: float | None = None
    cap: float | None = None
    jitter: float | None = None

    def __post_init__(self) -> None:
        _check(self)

    def over(self, rule: Rule) -> Rule:
        """The rule with what differs."""
        return replace(rule, **self.given())

    def given(self) -> dict[str, Any]:
        """The fields that are set, in their order."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}


_LEAST: Mapping[str, tuple[float, float, str]] = MappingProxyType(
    {
        "retries": (0, MOST_RETRIES, f"a whole number from 0 to {MOST_RETRIES}"),
        "first": (0.0, 86_400.0, "seconds, from 0 to a day"),
        "factor": (1.0, 100.0, "at least 1: each wait is so many times the one before"),
        "cap": (0.0, 86_400.0, "seconds, from 0 to a day"),
        "jitter": (0.0, 10.0, "a share of the wait, from 0"),
    }
)


def _check(rule: Rule | Override) -> None:
    for name, (least, most, words) in _LEAST.items():
        value: Any = getattr(rule, name)
        if value is None and isinstance(rule, Override):
            continue
        wanted = (int,) if name == "retries" else (int, float)
        number: Any = value if isinstance(value, wanted) and not isinstance(value, bool) else None
        if number is None or not isfinite(number) or not least <= number <= most:
            raise PolicyMisuse(f"{name} = {value!r}: give {words}")
    if rule.terminal not in (*get_args(Terminal), *((None,) if isinstance(rule, Override) else ())):
        raise PolicyMisuse(f"terminal = {rule.terminal!r}: give one of {', '.join(get_args(Terminal))}")


def _default(row: Row) -> Rule:
    """The rule of a row where nobody says otherwise. A row without one is found by the type checkers."""
    match row:
        case "transient":
            return Rule(3, "supervisor")
        case "rate_limit":
            return Rule(5, "supervisor", first=1.0, cap=60.0, jitter=0.5)
        case "invalid_input":
            return Rule(0, "correct")
        case "auth":
            return Rule(0, "human")
        case "contract":
            return Rule(1, "abort")
        case "unknown":
            return Rule(2, "human")
        case "ours":
            return Rule(0, "partial")
        case _:
            assert_never(row)


DEFAULT_TABLE: Mapping[Row, Rule] = MappingProxyType({row: _default(row) for row in ROWS})

Overrides: TypeAlias = Mapping[str, Mapping[Row, Override]]
ANY_TOOL = "*"
Step: TypeAlias = tuple[str, Override]
"""Where an override stands in the file, and what it says."""


@dataclass(frozen=True, slots=True)
class FaultTable:
    """The rules, one for every row, and what differs by provider, model and tool. Lacking a row, it cannot be built.

    `providers` are keyed by the name before the colon of "openai:gpt-5", `models` by the whole of it or by what stands
    behind the colon, `tools` by the tool's name, or "*" for all. A model wins over its provider, a name over "*".

    >>> table = FaultTable(providers={"openai": {"rate_limit": Override(retries=2)}})
    >>> limited = Fault("rate_limit", "rate-limit", "slow down")
    >>> table.retries(limited), table.retries(limited, model="openai:gpt-5")
    (5, 2)
    """

    rules: Mapping[Row, Rule] = field(default_factory=lambda: DEFAULT_TABLE)
    providers: Overrides = field(default_factory=dict[str, Mapping[Row, Override]])
    models: Overrides = field(default_factory=dict[str, Mapping[Row, Override]])
    tools: Overrides = field(default_factory=dict[str, Mapping[Row, Override]])

    def __post_init__(self) -> None:
        missing = [row for row in ROWS if row not in self.rules]
        if missing:
            raise PolicyMisuse(f"the fault table has no rule for {', '.join(missing)}: add one for each row")
        ours = self.rules["ours"]
        changed = [
            rows["ours"]
            for part in (self.providers, self.models, self.tools)
            for rows in part.values()
            if "ours" in rows
        ]
        if ours.retries or ours.terminal != "partial" or changed:
            raise PolicyMisuse("the row 'ours' is our own limit, not an error: it is never retried and ends partial")

    def rule(self, fault: Fault, *, model: str = "", tool: str = "") -> Rule:
        """What this fault may cost. `model` is "provider:name"; with a `tool` it is the tool's fault."""
        rule = self.base(fault.row, tool)
        for _, override in self.steps(fault.row, model=model, tool=tool):
            rule = override.over(rule)
        return rule

    def retries(self, fault: Fault, *, model: str = "", tool: str = "") -> int:
        """How often this fault is tried again: the rule's number, or fewer where the reason is hopeless."""
        allowed = self.rule(fault, model=model, tool=tool).retries
        return allowed if fault.retries is None else min(allowed, fault.retries)

    def base(self, row: Row, tool: str = "") -> Rule:
        """The row before anything is laid over it.

        A tool's error is for the model to read: only what passes by itself is tried again first, and only a refusal
        for lack of rights needs a person. An override for the tool can say otherwise.
        """
        rule = self.rules[row]
        if not tool or row == "ours":
            return rule
        return replace(
            rule,
            retries=rule.retries if row in PASSING else 0,
            terminal=rule.terminal if row == "auth" else "correct",
        )

    def steps(self, row: Row, *, model: str = "", tool: str = "") -> Iterator[Step]:
        """The overrides that concern a row, in the order in which they are laid over it."""
        provider, _, name = model.partition(":")
        of_model = (
            ("providers", provider, self.providers),
            ("models", name, self.models),
            ("models", model, self.models),
        )
        of_tool = (("tools", ANY_TOOL, self.tools), ("tools", tool, self.tools))
        for part, key, overrides in of_tool if tool else of_model:
            if key and (found := overrides.get(key, {}).get(row)) is not None:
                yield f"{part}.{key}.{row}", found


DEFAULT_FAULTS = FaultTable()
"""Built when this is imported, so that a default table that lacks a row cannot be imported."""
