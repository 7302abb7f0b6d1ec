"""The wire formats, by name, and the providers that speak them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from capataz.models.dialects.anthropic import AnthropicMessages
from capataz.models.dialects.base import Dialect, Encoder, Profile, Reader
from capataz.models.dialects.openai import OpenAIChat
from capataz.models.dialects.profiles import PROFILES

__all__ = ["DIALECTS", "PROFILES", "Dialect", "Encoder", "Profile", "Reader"]

_ALL: tuple[Dialect, ...] = (OpenAIChat(), AnthropicMessages())

DIALECTS: Mapping[str, Dialect] = MappingProxyType({dialect.name: dialect for dialect in _ALL})
"""By name, as in `Profile.dialect`."""
