"""The wire formats, by name, and the providers that speak them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from capataz.models.dialects.anthropic import AnthropicMessages
from capataz.models.dialects.base import Dialect, Encoder, Profile, Reader
from capataz.models.dialects.bedrock import BedrockConverse
from capataz.models.dialects.codec import Arguments, read_arguments
from capataz.models.dialects.gemini import Gemini
from capataz.models.dialects.openai import OpenAIChat
from capataz.models.dialects.profiles import PROFILES
from capataz.models.dialects.responses import OpenAIResponses
from capataz.models.dialects.textcalls import calls_in_text

__all__ = [
    "DIALECTS",
    "PROFILES",
    "Arguments",
    "Dialect",
    "Encoder",
    "Profile",
    "Reader",
    "calls_in_text",
    "read_arguments",
]

_ALL: tuple[Dialect, ...] = (OpenAIChat(), AnthropicMessages(), OpenAIResponses(), Gemini(), BedrockConverse())

DIALECTS: Mapping[str, Dialect] = MappingProxyType({dialect.name: dialect for dialect in _ALL})
"""By name, as in `Profile.dialect`."""
