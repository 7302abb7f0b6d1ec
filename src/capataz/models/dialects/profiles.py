"""The providers Capataz knows by name: addresses, key variables and peculiarities, as data.

A provider that is not here is reached with the profile of the server it is compatible with and another base URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from capataz.models.dialects.base import Profile

_ALL = (
    Profile("openai", "openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Profile("anthropic", "anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    Profile("openai-responses", "openai-responses", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Profile("gemini", "gemini", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY"),
    Profile("bedrock", "bedrock", "", "AWS_BEARER_TOKEN_BEDROCK", streams=False, choice_none=False),
    Profile("azure", "openai", "", "AZURE_OPENAI_API_KEY"),
    Profile(
        "openrouter",
        "openai",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        kept_fields=("reasoning_details",),
    ),
    Profile("groq", "openai", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    Profile("deepseek", "openai", "https://api.deepseek.com", "DEEPSEEK_API_KEY", kept_fields=("reasoning_content",)),
    Profile(
        "mistral",
        "openai",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        stream_usage=False,
        alternates=True,
        nine_letter_ids=True,
        user_after_tool=False,
        choice_none=False,
    ),
    Profile("llama.cpp", "openai", "http://127.0.0.1:8080/v1", alternates=True),
    Profile("vllm", "openai", "http://127.0.0.1:8000/v1", alternates=True),
    Profile("ollama", "openai", "http://127.0.0.1:11434/v1", alternates=True),
)

PROFILES: Mapping[str, Profile] = MappingProxyType({profile.name: profile for profile in _ALL})
"""By provider name."""
