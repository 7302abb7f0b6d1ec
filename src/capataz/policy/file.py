"""The policy as one readable file: from the text of it and back.

Whoever reads the file sees what any error may cost: where it has a fault table, every row stands in it. A name that
means nothing, a value that cannot be, a row that is missing is a mistake found here, with its place and the nearest
name that would have meant something. This module reads no file and never guesses.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from math import isfinite
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from capataz.events.facts import Row
from capataz.guards.catalogue import GUARDS
from capataz.guards.limits import DEFAULTS, REPEATS, Limit, Thresholds, ToolLimits
from capataz.mistakes import PolicyMisuse
from capataz.policy.breaker import BreakerRule
from capataz.policy.policy import Mode, Policy
from capataz.policy.table import DEFAULT_TABLE, ROWS, FaultTable, Override, Rule

Table: TypeAlias = dict[str, Any]
T = TypeVar("T")

SETTINGS: Mapping[str, type] = {
    "claims": int,
    "closing_tokens": int,
    "closing_seconds": float,
    "least_output": int,
    "long_wait": float,
}
"""Numbers that stand at the top of the file."""
FILE_ROWS: tuple[Row, ...] = tuple(row for row in ROWS if row != "ours")
"""Rows a file may set: our own limits are not errors, and nothing about them can be chosen."""
_SECTIONS = ("faults", "providers", "models", "tools", "breaker", "guards", "thresholds")


# ── from text ────────────────────────────────────────────────────────────────────────────────────────────


def read(text: str, where: str) -> Policy:
    """The policy a text says; see `Policy.from_toml`."""
    table = parse(text, where)
    _known(table, where, (*SETTINGS, *_SECTIONS))
    settings = {
        name: _number(table[name], kind, f"{where}: {name}", 0) for name, kind in SETTINGS.items() if name in table
    }
    providers, provider_breakers = _overrides(table, "providers", where)
    tools, tool_breakers = _overrides(table, "tools", where)
    models, _ = _overrides(table, "models", where)
    faults = FaultTable(_faults(table, where), providers, models, tools)
    thresholds = _thresholds(_section(table, "thresholds", where), f"{where}: [thresholds]")
    return Policy(
        faults=faults,
        modes=_modes(_section(table, "guards", where), f"{where}: [guards]"),
        thresholds=thresholds,
        breaker=_built(BreakerRule, _section(table, "breaker", where), f"{where}: [breaker]"),
        provider_breakers=provider_breakers,
        tool_breakers=tool_breakers,
        **settings,
    )


def parse(text: str, where: str) -> Table:
    """The tables of a text, before anything is made of them."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyMisuse(f"{where} is not TOML: {error}") from error


def _faults(table: Table, where: str) -> Mapping[Row, Rule]:
    if "faults" not in table:
        return DEFAULT_TABLE
    section = _section(table, "faults", where)
    _known(section, f"{where}: [faults]", ROWS)
    if "ours" in section:
        raise PolicyMisuse(f"{where}: [faults.ours] cannot be set: our own limits are no errors and are never retried")
    missing = [row for row in FILE_ROWS if row not in section]
    if missing:
        lines = ", ".join(f"[faults.{row}]" for row in missing)
        raise PolicyMisuse(
            f"{where}: the fault table has no {lines}: add each (an empty table keeps its defaults), so that the file "
            "says what any error may cost; or leave the whole fault table out"
        )
    rules: dict[Row, Rule] = {row: _rule(row, _section(section, row, f"{where}: [faults]"), where) for row in FILE_ROWS}
    return {**rules, "ours": DEFAULT_TABLE["ours"]}


def _rule(row: Row, section: Table, where: str) -> Rule:
    override = _built(Override, section, f"{where}: [faults.{row}]")
    return override.over(DEFAULT_TABLE[row])


def _overrides(table: Table, part: str, where: str) -> tuple[dict[str, dict[Row, Override]], dict[str, BreakerRule]]:
    found: dict[str, dict[Row, Override]] = {}
    breakers: dict[str, BreakerRule] = {}
    extra = () if part == "models" else ("breaker",)
    for name, section in _section(table, part, where).items():
        place = f"{where}: [{part}.{key(name)}]"
        rows = _table(section, place)
        _known(rows, place, (*FILE_ROWS, *extra))
        for row, values in rows.items():
            inner = f"{where}: [{part}.{key(name)}.{row}]"
            if row == "breaker":
                breakers[name] = _built(BreakerRule, _table(values, inner), inner)
            else:
                found.setdefault(name, {})[cast("Row", row)] = _built(Override, _table(values, inner), inner)
    return found, breakers


def _modes(section: Table, where: str) -> dict[str, Mode]:
    """Modes by guard. A name that is no built-in guard's may be one of the user's own; a near miss may not."""
    modes: dict[str, Mode] = {}
    for name, value in section.items():
        if name not in GUARDS and (near := get_close_matches(name, GUARDS, 1, 0.75)):
            raise PolicyMisuse(f"{where} has no guard {name!r}: did you mean {near[0]!r}?")
        if value not in get_args(Mode):
            raise PolicyMisuse(f"{where} {name} = {value!r}: give one of {', '.join(get_args(Mode))}")
        modes[name] = value
    return modes


def _thresholds(section: Table, where: str) -> Thresholds:
    names = [f.name for f in fields(Thresholds)]
    _known(section, where, names)
    hints = _hints(Thresholds)
    values: dict[str, Any] = {}
    for name, value in section.items():
        place = f"{where} {name}"
        if name == "repeats":
            classes = _table(value, place)
            _known(classes, place, REPEATS)
            values[name] = {**REPEATS, **{kind: _limit(given, f"{place}.{kind}") for kind, given in classes.items()}}
        elif name == "tools":
            values[name] = {
                tool: _tool_limits(given, f"{place}.{key(tool)}") for tool, given in _table(value, place).items()
            }
        else:
            values[name] = _limit(value, place) if hints[name] is Limit else _number(value, hints[name], place, 0)
    return Thresholds(**values) if values else DEFAULTS


def _limit(value: Any, where: str) -> Limit:
    table = _table(value, where)
    _known(table, where, ("nudge", "stop"))
    lacking = [name for name in ("nudge", "stop") if name not in table]
    if lacking:
        raise PolicyMisuse(f"{where} has no {lacking[0]}: write {{ nudge = 3, stop = 5 }}")
    nudge, stop = (_number(table[name], int, f"{where} {name}", 1) for name in ("nudge", "stop"))
    if nudge > stop:
        raise PolicyMisuse(
            f"{where}: nudge = {nudge} is more than stop = {stop}; the model is told before it is stopped"
        )
    return Limit(int(nudge), int(stop))


def _tool_limits(value: Any, where: str) -> ToolLimits:
    table = _table(value, where)
    _known(table, where, [f.name for f in fields(ToolLimits)])
    kept: dict[str, Any] = {}
    for name, given in table.items():
        place = f"{where} {name}"
        if name == "repeat":
            kept[name] = _limit(given, place)
        elif name == "free":
            if not isinstance(given, bool):
                raise PolicyMisuse(f"{place} = {given!r}: give true or false")
            kept[name] = given
        else:
            kept[name] = _number(given, float, place, 0)
    return ToolLimits(**kept)


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _built(cls: Callable[..., T], section: Table, where: str) -> T:
    """A value of a flat dataclass; what it says about itself gets its place in the file."""
    hints = _hints(cls)
    _known(section, where, hints)
    values: dict[str, Any] = {}
    for name, value in section.items():
        kind = next((arg for arg in get_args(hints[name]) if arg is not type(None)), hints[name])
        if get_origin(hints[name]) is Literal or kind not in (int, float):
            values[name] = value
        else:
            values[name] = _number(value, kind, f"{where} {name}", 0)
    try:
        return cls(**values)
    except PolicyMisuse as error:
        raise PolicyMisuse(f"{where} {error}") from error


MOST = 10**12
"""No number of a policy is larger."""


def _number(value: Any, kind: type, where: str, least: float) -> Any:
    wanted: tuple[type, ...] = (int,) if kind is int else (int, float)
    number: Any = value if isinstance(value, wanted) and not isinstance(value, bool) else None
    if number is None or not least <= number <= MOST or not isfinite(number):
        words = "a whole number" if kind is int else "a number"
        raise PolicyMisuse(f"{where} = {value!r}: give {words}, at least {least:g}")
    return kind(number)


def _known(table: Mapping[str, Any], where: str, names: Iterable[str]) -> None:
    """Every key of the table means something."""
    allowed = list(names)
    for name in table:
        if name not in allowed:
            near = get_close_matches(name, allowed, 1, 0.6)
            meant = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(allowed)}"
            raise PolicyMisuse(f"{where} has no {name!r}: {meant}")


def _section(table: Table, name: str, where: str) -> Table:
    return _table(table.get(name, {}), f"{where}: [{name}]")


def _table(value: Any, where: str) -> Table:
    if not isinstance(value, dict):
        raise PolicyMisuse(f"{where} = {value!r}: this has to be a table")
    return cast(Table, value)


# ── to text ──────────────────────────────────────────────────────────────────────────────────────────────

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_HEADS: Mapping[str, str] = {
    "faults": "What an error may cost. Times in seconds; after `retries` comes the terminal action.",
    "breaker": "So many failures in a row within so many seconds: left alone for `rest` seconds, then tried once.",
    "guards": "enforce, observe or off; a guard that is not named is enforced.",
    "thresholds": "The numbers of the guards. At `nudge` the model is told, at `stop` the run is ended.",
}


def plain(policy: Policy) -> Table:
    """The policy as the tables of its file, every number written out."""
    faults = policy.faults
    parts: Table = {name: kind(getattr(policy, name)) for name, kind in SETTINGS.items()}
    parts["faults"] = {row: _flat(faults.rules[row]) for row in FILE_ROWS}
    parts["providers"] = _laid(faults.providers, policy.provider_breakers)
    parts["models"] = _laid(faults.models, {})
    parts["tools"] = _laid(faults.tools, policy.tool_breakers)
    parts["breaker"] = _flat(policy.breaker)
    parts["guards"] = dict(sorted(policy.modes.items()))
    parts["thresholds"] = _flat(policy.thresholds)
    return {name: part for name, part in parts.items() if part != {}}


def write(policy: Policy) -> str:
    """The text of `plain`, with a line on what each part is."""
    lines: list[str] = []
    for name, part in plain(policy).items():
        if not isinstance(part, dict):
            lines.append(f"{name} = {_value(part)}")
            continue
        head = _HEADS.get(name)
        lines += ["", f"# {head}"] if head else [""]
        _tables(cast(Table, part), name, lines)
    return "\n".join(lines) + "\n"


def _tables(table: Table, path: str, lines: list[str]) -> None:
    """A table under its heading; tables of plain values inside it stand on one line, deeper ones under their own."""
    tables = {name: cast(Table, value) for name, value in table.items() if isinstance(value, dict)}
    shallow = "." in path or path == "thresholds"
    inner = {name: value for name, value in tables.items() if not shallow or _deep(value)}
    own = {name: value for name, value in table.items() if name not in inner}
    if own or not inner:
        lines.append(f"[{path}]")
        lines += [f"{key(name)} = {_value(value)}" for name, value in own.items()]
    for name, value in inner.items():
        if lines[-1:] and lines[-1] and not lines[-1].startswith("#"):
            lines.append("")
        _tables(value, f"{path}.{key(name)}", lines)


def _deep(table: Table) -> bool:
    return any(isinstance(value, dict) for value in table.values())


def key(name: str) -> str:
    """A name as TOML writes it."""
    return name if name and set(name) <= _BARE else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{key(name)} = {_value(item)}" for name, item in cast(Table, value).items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    escaped = "".join(c if c >= " " and c not in '"\\\x7f' else f"\\u{ord(c):04x}" for c in str(value))
    return f'"{escaped}"'


def _flat(value: Any) -> Table:
    """A dataclass as a table: numbers in the type of their field, what is None left out."""
    hints = _hints(value.__class__)
    table: Table = {}
    for f in fields(value):
        item = getattr(value, f.name)
        if item is None or (item == {} and f.name == "tools"):
            continue
        if isinstance(item, Mapping):
            table[f.name] = {name: _flat(inner) for name, inner in cast("Mapping[str, Any]", item).items()}
        elif hasattr(item, "__dataclass_fields__"):
            table[f.name] = _flat(item)
        else:
            table[f.name] = float(item) if float in (hints[f.name], *get_args(hints[f.name])) else item
    return table


def _laid(overrides: Mapping[str, Mapping[Row, Override]], breakers: Mapping[str, BreakerRule]) -> Table:
    names = sorted({*overrides, *breakers})
    found: Table = {}
    for name in names:
        rows: Table = {row: _flat(overrides[name][row]) for row in ROWS if row in overrides.get(name, {})}
        if name in breakers:
            rows["breaker"] = _flat(breakers[name])
        if rows:
            found[name] = rows
    return found
