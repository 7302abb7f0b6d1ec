"""What single models accept, from one data file beside this module.

Refusals differ per model, not per provider, and they change with every release: so they are data. A model nobody has
written down accepts everything, and nothing is ever learnt silently: a refusal that names a parameter is offered as a
line for the table, for a person to take over.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from typing import Any, Literal, cast

from capataz.events.facts import JSON, Fault
from capataz.mistakes import Misuse

Sampling = Literal["yes", "never", "without-reasoning"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model accepts. The defaults are those of an unknown model: everything."""

    temperature: Sampling = "yes"
    top_p: Sampling = "yes"
    top_k: Sampling = "yes"
    both_samplers: bool = True
    """Takes temperature and top_p together."""
    output_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What chat completions call the output cap for this model."""
    output: int | None = None
    """Output cap to ask for where the dialect demands one and the caller gave none."""
    system: Literal["system", "user"] = "system"
    reasoning: bool = False
    """Returns reasoning that must be sent back (OpenAI Responses)."""
    nine_letter_ids: bool = False
    user_after_tool: bool = True
    alternates: bool = False
    call_signatures: bool = False
    """Refuses a call in the history that carries no signature (Gemini)."""


_FIELDS = frozenset(field.name for field in fields(Capabilities))
Entry = Mapping[str, JSON]


@cache
def _table() -> tuple[tuple[re.Pattern[str], dict[str, Any]], ...]:
    text = resources.files("capataz.models").joinpath("capabilities.toml").read_text(encoding="utf-8")
    return tuple(_entry(entry) for entry in cast("list[Entry]", tomllib.loads(text)["model"]))


def _entry(entry: Entry) -> tuple[re.Pattern[str], dict[str, Any]]:
    values = {key: value for key, value in entry.items() if key != "match"}
    unknown = values.keys() - _FIELDS
    if unknown or not isinstance(entry.get("match"), str):
        raise Misuse(
            f"capability entry {dict(entry)!r}: needs `match` and only the fields {', '.join(sorted(_FIELDS))}"
        )
    return re.compile(str(entry["match"])), values


def capabilities(model: str, entries: tuple[Entry, ...] = ()) -> Capabilities:
    """What this model accepts; `entries` of the caller's own are laid over the table.

    >>> capabilities("gpt-5-mini").temperature, capabilities("never-heard-of").temperature
    ('never', 'yes')
    """
    return _known(model) if not entries else _over(model, _known(model), tuple(_entry(entry) for entry in entries))


@cache
def _known(model: str) -> Capabilities:
    return _over(model, Capabilities(), _table())


def _over(model: str, start: Capabilities, entries: tuple[tuple[re.Pattern[str], dict[str, Any]], ...]) -> Capabilities:
    known, name = start, model.lower()
    for pattern, values in entries:
        if pattern.search(name):
            known = replace(known, **values)
    return known


_OFFERS: Mapping[str, tuple[str, str]] = {
    "temperature": ("temperature", '"never"'),
    "top_p": ("top_p", '"never"'),
    "top_k": ("top_k", '"never"'),
    "max_tokens": ("output_name", '"max_completion_tokens"'),
    "system": ("system", '"user"'),
}


def offered_entry(model: str, fault: Fault) -> str | None:
    """The line for the capability table that a refusal suggests; None when it names no parameter we know.

    >>> from capataz.events.facts import Fault
    >>> print(offered_entry("m-1", Fault("invalid_input", "unsupported-parameter", "parameter temperature: no")))
    [[model]]
    match = '^m-1$'
    temperature = "never"
    """
    if fault.reason != "unsupported-parameter":
        return None
    for word, (field, value) in _OFFERS.items():
        if re.search(rf"\b{word}\b", fault.message):
            return f"[[model]]\nmatch = '^{re.escape(model.lower()).replace(chr(92) + '-', '-')}$'\n{field} = {value}"
    return None
