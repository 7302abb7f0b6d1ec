"""Names become models; what is missing is said before anything is sent."""

from __future__ import annotations

import pytest

from capataz.mistakes import Misuse
from capataz.models.hosts import is_loopback
from capataz.models.providers import resolve

VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OLLAMA_BASE_URL")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_address_and_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment\n")
    model, name = resolve("anthropic:claude-sonnet-4-6")
    assert name == "claude-sonnet-4-6"
    assert model.key == "from-the-environment"
    assert model.url(name) == "https://api.anthropic.com/v1/messages"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://gateway.example/anthropic/")
    assert resolve("anthropic:x")[0].url("x") == "https://gateway.example/anthropic/v1/messages"


def test_what_is_given_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://environment.example/v1")
    model, _ = resolve("openai:gpt-5-mini", base_url="https://given.example/v1", api_key="given")
    assert (model.key, model.profile.base_url) == ("given", "https://given.example/v1")


def test_colons_belong_to_the_name_of_the_model() -> None:
    model, name = resolve("ollama:qwen2.5-coder:7b")
    assert name == "qwen2.5-coder:7b"
    assert model.key is None
    assert model.profile.base_url == "http://127.0.0.1:11434/v1"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8"])
def test_a_server_on_this_machine_needs_no_key(host: str) -> None:
    assert resolve("openai:any", base_url=f"http://{host}:8080/v1")[0].key is None


@pytest.mark.parametrize(
    ("name", "base_url", "api_key", "words"),
    [
        ("gpt-5", None, None, "write provider:model"),
        ("openai:", None, None, "write provider:model"),
        ("acme:large", None, None, "there is no provider 'acme'"),
        ("openai:gpt-5", None, None, "set OPENAI_API_KEY"),
        ("openai:gpt-5", None, "   ", "set OPENAI_API_KEY"),
        ("anthropic:claude", "https://far.example", None, "set ANTHROPIC_API_KEY"),
        ("openai:gpt-5", "http://127.0.0.1.far.example/v1", None, "set OPENAI_API_KEY"),
        ("azure:gpt-5", None, "k", "set AZURE_OPENAI_BASE_URL"),
        ("openai:gpt-5", "far.example/v1", "k", "https://"),
        ("openai:gpt-5", "ftp://far.example", "k", "https://"),
        ("openai:gpt-5", "https://user:secret-word@far.example", "k", "give the key as api_key"),
        ("openai:gpt-5", "https://far.example", "secret-word\nx", "copy it again"),
    ],
)
def test_what_is_missing_is_named(name: str, base_url: str | None, api_key: str | None, words: str) -> None:
    with pytest.raises(Misuse) as caught:
        resolve(name, base_url=base_url, api_key=api_key)
    assert words in str(caught.value)
    assert "secret-word" not in str(caught.value)


def test_this_machine() -> None:
    assert is_loopback("LOCALHOST")
    assert is_loopback("::1")
    assert not is_loopback("10.0.0.1")
    assert not is_loopback("")
