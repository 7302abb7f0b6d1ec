"""Prices come from the list, are exact, and are never made up."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pytest
from genai_prices import Usage as Used, calc_price
from hypothesis import given, settings, strategies as st

from capataz.events.facts import Usage
from capataz.models.prices import price

MODELS = [
    ("claude-sonnet-4-6", "anthropic", "anthropic"),
    ("claude-sonnet-4-5", "anthropic", "anthropic"),
    ("gpt-4o", "openai", "openai"),
    ("gpt-5-mini", "openai", "openai"),
    ("gemini-2.5-pro", "gemini", "google"),
    ("deepseek-chat", "deepseek", "deepseek"),
]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(MODELS), st.integers(0, 400_000), st.integers(0, 50_000), st.integers(0, 9000), st.integers(0, 9000)
)
def test_the_price_is_the_lists(names: tuple[str, str, str], fresh: int, output: int, read: int, written: int) -> None:
    model, provider, listed = names
    used = Used(
        input_tokens=fresh + read + written, output_tokens=output, cache_read_tokens=read, cache_write_tokens=written
    )
    expected = calc_price(used, model, provider_id=listed).total_price
    usage = Usage(fresh + read + written, output, cache_read=read, cache_write=written)
    assert price(model, provider, usage) == expected


@pytest.mark.parametrize(
    ("model", "provider"), [("never-heard-of", "openai"), ("gpt-4o", "ollama"), ("gpt-4o", "who"), ("", "anthropic")]
)
def test_what_is_not_known_has_no_price(model: str, provider: str) -> None:
    assert price(model, provider, Usage(10, 10)) is None


def test_own_prices_win() -> None:
    own = {"gpt-4o": (Decimal(1), Decimal(2)), "local": (Decimal(0), Decimal(0))}
    assert price("gpt-4o", "openai", Usage(1_000_000, 500_000), own) == Decimal(2)
    assert price("local", "vllm", Usage(10, 10), own) == 0


def test_figures_that_make_no_sense_do_not_raise() -> None:
    for model in ("gpt-4o", "gemini-2.5-pro"):
        provider = "openai" if model.startswith("gpt") else "gemini"
        assert price(model, provider, Usage(10, 1, cache_read=500)) is not None


def test_no_price_goes_online_and_importing_the_module_loads_no_list() -> None:
    program = (
        "import sys, socket\n"
        "from capataz.models import prices\n"
        "assert 'genai_prices' not in sys.modules\n"
        "def refuse(*_): raise SystemExit('went online')\n"
        "sys.addaudithook(lambda name, _: refuse() if name in ('socket.connect', 'socket.getaddrinfo') else None)\n"
        "from capataz.events.facts import Usage\n"
        "prices.load()\n"
        "assert prices.price('gpt-4o', 'openai', Usage(1, 1)) is not None\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
