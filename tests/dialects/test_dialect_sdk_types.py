"""The vendors' own types judge our bodies too: an independent reading of the same rules."""

from __future__ import annotations

from typing import Any, get_type_hints

import orjson
import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from anthropic.types.message_param import MessageParam
from anthropic.types.tool_union_param import ToolUnionParam
from hypothesis import HealthCheck, given, settings
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import ResponseInputItemParam, ToolParam
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from capataz.models.dialects import DIALECTS, PROFILES
from capataz.ports import ModelRequest
from tests.dialects.histories import requests
from tests.dialects.test_dialect_properties import suited

SOME = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TYPES: dict[str, tuple[Any, str, Any, Any]] = {
    "openai": (CompletionCreateParamsStreaming, "messages", ChatCompletionMessageParam, ChatCompletionToolUnionParam),
    "anthropic": (MessageCreateParamsStreaming, "messages", MessageParam, ToolUnionParam),
    "openai-responses": (ResponseCreateParamsStreaming, "input", ResponseInputItemParam, ToolParam),
}
ADAPTERS = {
    name: (frozenset(get_type_hints(kind)), field, TypeAdapter(list[message]), TypeAdapter(list[tool]))  # type: ignore[valid-type]
    for name, (kind, field, message, tool) in TYPES.items()
}


@pytest.mark.parametrize("name", sorted(TYPES))
@SOME
@given(request=requests())
def test_the_sdk_would_have_sent_this(name: str, request: ModelRequest) -> None:
    profile = PROFILES[name]
    body: dict[str, Any] = orjson.loads(DIALECTS[profile.dialect].encoder(profile).body(suited(request, profile)))
    fields, field, messages, tools = ADAPTERS[name]
    # Samplers have left the newest messages type; the wire still takes them.
    assert body.keys() - {"temperature", "top_p", "top_k", "seed"} <= fields
    messages.validate_python(body[field], strict=False)
    tools.validate_python(body.get("tools", []), strict=False)
