"""What was said, in the shape the conventions give messages: for spans, and only where the user has asked for it.

Everything passes through the mask as a JSON value, so that a secret is found by its key as well as by its shape, and
only then becomes the text of an attribute. Nothing here is reached while content is off.
"""

from __future__ import annotations

from collections.abc import Sequence

from capataz.events.facts import JSON, Call, ModelReplied
from capataz.events.plain import to_json
from capataz.lens.spans import names as n
from capataz.lens.spans.marks import Masking
from capataz.memory.message import Message


def text_of(value: JSON, mask: Masking) -> str:
    """A masked JSON value as the text of an attribute."""
    return to_json(mask(value)).decode()


def input_messages(messages: Sequence[Message]) -> list[JSON]:
    """The history a model was given. The results of one batch stay messages of their own, in order."""
    return [_message(message) for message in messages]


def output_message(reply: ModelReplied) -> list[JSON]:
    """The reply. `finish_reason` stands here too: version 1.41 wants it inside the message."""
    parts: list[JSON] = []
    if reply.thinking:
        parts.append({"type": "reasoning", "content": reply.thinking})
    if reply.text:
        parts.append(_text(reply.text))
    parts.extend(_asked(call) for call in reply.calls)
    return [{"role": "assistant", "parts": parts, "finish_reason": finish(reply.stop)}]


def instructions(system: str) -> list[JSON]:
    return [_text(system)]


def finish(stop: str) -> str:
    """The conventions' word for why a reply ended."""
    return n.FINISH.get(stop, stop)


def _message(message: Message) -> JSON:
    if message.role == "tool" and message.call is not None:
        answer: JSON = {"type": "tool_call_response", "id": message.call.id, "response": message.text}
        return {"role": "tool", "parts": [answer]}
    parts: list[JSON] = []
    if message.thinking:
        parts.append({"type": "reasoning", "content": message.thinking})
    if message.text:
        parts.append(_text(message.text))
    parts.extend(_asked(call) for call in message.calls)
    return {"role": message.role, "parts": parts}


def _text(text: str) -> JSON:
    return {"type": "text", "content": text}


def _asked(call: Call) -> JSON:
    return {"type": "tool_call", "id": call.id, "name": call.tool, "arguments": dict(call.arguments)}
