"""What a call costs (and how much a model can see), from a price list that comes with a library and is never fetched.

A price that is not known is None, which is not the same as free: a run with a ceiling of money must not start calls
nobody can price, and no figure is ever made up. Importing the list takes about half a second of CPU, so it happens at
the first question, or in `load()` at a moment and in a thread of the caller's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from capataz.events.facts import Usage

Own = Mapping[str, tuple[Decimal, Decimal]]
"""Prices of your own by model name: US dollars for a million input and a million output tokens."""

_LISTED: Mapping[str, str] = MappingProxyType(
    {
        "openai": "openai",
        "openai-responses": "openai",
        "azure": "azure",
        "anthropic": "anthropic",
        "gemini": "google",
        "bedrock": "aws",
        "openrouter": "openrouter",
        "groq": "groq",
        "deepseek": "deepseek",
        "mistral": "mistral",
    }
)
"""Provider here to provider in the list. Whoever is not here (a server of one's own, a gateway) has no known price."""

_MILLION = Decimal(1_000_000)


class _Rates(NamedTuple):
    """Dollars for a million tokens, where they do not depend on how many there are."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal


def price(model: str, provider: str, usage: Usage, own: Own = MappingProxyType({})) -> Decimal | None:
    """US dollars for this usage of a model; None when no price is known. Prices in `own` win.

    `model` is the provider's name of it, `provider` the name of its profile ("anthropic", "openai", ...).
    """
    if model in own:
        into, out = own[model]
        return (into * usage.input + out * usage.output) / _MILLION
    listed = _LISTED.get(provider)
    if listed is None:
        return None
    rates = _rates(model, listed)
    return _listed(model, listed, usage) if rates is None else _linear(rates, usage)


def has_list(name: object) -> bool:
    """Whether a model "provider:name" has its prices in the list, so that `load` is worth its time."""
    return isinstance(name, str) and name.partition(":")[0] in _LISTED


def load() -> None:
    """Read the list now, so that the first `price` does not take half a second. May run in any thread."""
    _rates("gpt-4o", "openai")


@cache
def context_window(model: str, provider: str) -> int | None:
    """Tokens the model can see at once, from the same list; None when it does not say."""
    from genai_prices import Usage as Used, calc_price

    listed = _LISTED.get(provider)
    if listed is None:
        return None
    try:
        return calc_price(Used(input_tokens=0, output_tokens=0), model, provider_id=listed).model.context_window
    except (LookupError, ValueError):
        return None


def _linear(rates: _Rates, usage: Usage) -> Decimal:
    fresh = max(0, usage.input - usage.cache_read - usage.cache_write)
    return (
        rates.input * fresh
        + rates.cache_read * usage.cache_read
        + rates.cache_write * usage.cache_write
        + rates.output * usage.output
    ) / _MILLION


@cache
def _rates(model: str, listed: str) -> _Rates | None:
    """The model's rates where they are plain numbers; None where the list itself has to be asked each time."""
    from genai_prices import Usage as Used, calc_price

    try:
        found = calc_price(Used(input_tokens=0, output_tokens=0), model, provider_id=listed).model_price
    except (LookupError, ValueError):
        return None
    into, out = found.input_mtok, found.output_mtok
    if not isinstance(into, Decimal) or not isinstance(out, Decimal):
        return None
    read, written = (found.cache_read_mtok or into), (found.cache_write_mtok or into)
    if not isinstance(read, Decimal) or not isinstance(written, Decimal):
        return None
    return _Rates(into, out, read, written)


def _listed(model: str, listed: str, usage: Usage) -> Decimal | None:
    """Ask the list, which knows steps and dates. About 0.1 ms."""
    from genai_prices import Usage as Used, calc_price

    used = Used(
        input_tokens=max(usage.input, usage.cache_read + usage.cache_write),
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        return calc_price(used, model, provider_id=listed).total_price
    except (LookupError, ValueError):
        return None
