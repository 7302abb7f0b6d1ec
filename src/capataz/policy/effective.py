"""The policy as it works out: each number, and where it comes from.

For people who ask "what happens on a rate limit of this model, and who said so?". Pure; nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from capataz.events.facts import Row
from capataz.policy.file import SETTINGS, key, plain
from capataz.policy.policy import Policy
from capataz.policy.table import ANY_TOOL, PASSING, ROWS, FaultTable, Rule

Given: TypeAlias = Mapping[str, Any]
"""The tables of the file as they stand in it: what is not there has its default."""

DEFAULT = "default"
FIXED = "fixed"
FOR_TOOLS = "what holds for tools"
NAMES = tuple(f.name for f in fields(Rule))


@dataclass(frozen=True, slots=True)
class Source:
    """One value of the policy and where it comes from: "default", the file's name, or a heading in it."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Line:
    """One row as it works out for somebody: everyone (empty), "providers.openai", "models.gpt-5", "tools.refund"."""

    subject: str
    row: Row
    values: Mapping[str, Source]


def lines(policy: Policy, given: Given, where: str) -> Iterator[Line]:
    """Every row: as it is, then for tools, then as it works out for each provider, model and tool that differs."""
    table = policy.faults
    for row in ROWS:
        yield Line("", row, _row(table, row, given, where))
    for row in ROWS[:-1]:
        yield Line(f"tools.{ANY_TOOL}", row, _laid(table, row, given, where, tool=ANY_TOOL))
    for part, overrides in (("providers", table.providers), ("models", table.models), ("tools", table.tools)):
        for name, rows in overrides.items():
            for row in ROWS:
                if row in rows and name != ANY_TOOL:
                    subject = {"tool": name} if part == "tools" else {"model": _model(part, name)}
                    yield Line(f"{part}.{key(name)}", row, _laid(table, row, given, where, **subject))


def settings(policy: Policy, given: Given, where: str) -> dict[str, Source]:
    """Every other number, by its path in the file: "claims", "breaker.rest", "thresholds.errors"."""
    found: dict[str, Source] = {}
    tables = plain(policy)
    for name in SETTINGS:
        found[name] = Source(tables[name], where if name in given else DEFAULT)
    for part in ("breaker", "thresholds"):
        for name, value in tables[part].items():
            found[f"{part}.{name}"] = Source(value, where if name in given.get(part, {}) else DEFAULT)
    for part in ("providers", "tools"):
        for name, rows in tables.get(part, {}).items():
            if "breaker" in rows:
                found[f"{part}.{key(name)}.breaker"] = Source(rows["breaker"], where)
    for guard, mode in policy.modes.items():
        found[f"guards.{key(guard)}"] = Source(mode, where)
    return found


def _row(table: FaultTable, row: Row, given: Given, where: str) -> dict[str, Source]:
    if row == "ours":
        return {name: Source(getattr(table.rules[row], name), FIXED) for name in NAMES}
    said: Given = given.get("faults", {}).get(row, {})
    return {name: Source(getattr(table.rules[row], name), where if name in said else DEFAULT) for name in NAMES}


def _laid(
    table: FaultTable, row: Row, given: Given, where: str, *, model: str = "", tool: str = ""
) -> dict[str, Source]:
    values = _row(table, row, given, where)
    if tool:
        base = table.base(row, tool)
        told = {"retries": row not in PASSING, "terminal": row != "auth"}
        for name, changed in told.items():
            if changed:
                values[name] = Source(getattr(base, name), FOR_TOOLS)
    for place, override in table.steps(row, model=model, tool=tool):
        values.update({name: Source(value, f"[{place}]") for name, value in override.given().items()})
    return values


def _model(part: str, name: str) -> str:
    """A model that only this override concerns."""
    return f"{name}:" if part == "providers" else name if ":" in name else f":{name}"
