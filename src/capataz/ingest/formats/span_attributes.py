"""What one span says, in any of the dialects in use: OpenTelemetry GenAI (1.36 to 1.41 and what came before), the
flattened messages of OpenLLMetry, OpenInference, and the Vercel AI SDK.

Names of attributes live here and nowhere else. A span becomes an `Exchange`: what the model was told and what it
answered, or which tool was used with what. Content is often not recorded; then the fields are just empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from capataz.events.facts import JSON, Usage
from capataz.ingest.build import Asked
from capataz.ingest.formats import chat
from capataz.ingest.shape import arguments, decode, mapping, objects, parts, pick, text, whole

What = Literal["model", "tool", "agent", "other"]
_MODEL = frozenset({"chat", "generate_content", "text_completion", "completion"})


@dataclass(slots=True)
class Exchange:
    """One span, neutral."""

    system: str = ""
    heard: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """(role, words) of what the model was told, oldest first; roles user and assistant only."""
    results: list[tuple[str, JSON, bool]] = field(default_factory=list[tuple[str, JSON, bool]])
    """(call id, value, error) among what it was told."""
    said: str = ""
    asked: list[Asked] = field(default_factory=list[Asked])
    usage: Usage | None = None
    model: str = ""
    stop: str = ""


def what(attributes: dict[str, JSON], name: str) -> What:
    """Whether a span is a model call, a tool, an agent (a frame around turns) or none of these."""
    operation = text(attributes.get("gen_ai.operation.name"))
    kind = text(pick(attributes, "openinference.span.kind", "traceloop.span.kind")).lower()
    vercel = text(attributes.get("ai.operationId"))
    if operation == "execute_tool" or kind == "tool" or vercel == "ai.toolCall":
        return "tool"
    if operation in _MODEL or kind == "llm" or vercel.endswith((".doGenerate", ".doStream")):
        return "model"
    if operation in ("invoke_agent", "create_agent") or kind == "agent":
        return "agent"
    if operation or kind or vercel:
        return "other"
    if "llm.request.type" in attributes or ("gen_ai.request.model" in attributes and name.startswith("chat")):
        return "model"
    return "other"


def exchange(attributes: dict[str, JSON], events: list[tuple[str, dict[str, JSON]]]) -> Exchange:
    """What a model span says."""
    told = Exchange(model=text(pick(attributes, *_MODELS)), usage=_usage(attributes))
    finish = pick(attributes, "gen_ai.response.finish_reasons", "ai.response.finishReason")
    told.stop = text(finish[0]) if isinstance(finish, list) and finish else text(finish)
    told.system = _instructions(attributes)
    for message in _input(attributes, events):
        _hear(told, message)
    for message in _output(attributes, events):
        _answer(told, message)
    told.asked.extend(chat.block_calls(_vercel_calls(attributes)))
    return told


def tool(attributes: dict[str, JSON], name: str, events: list[tuple[str, dict[str, JSON]]]) -> tuple[Asked, JSON]:
    """What a tool span says: the call and its result (None where it was not recorded)."""
    called = text(pick(attributes, "gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name"))
    called = called or name.removeprefix("execute_tool ").strip() or "tool"
    said = pick(attributes, "gen_ai.tool.call.arguments", "ai.toolCall.args", "tool.parameters", "input.value")
    said = said if said is not None else attributes.get("traceloop.entity.input")
    id = text(pick(attributes, "gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id", "tool.id"))
    result = pick(
        attributes, "gen_ai.tool.call.result", "ai.toolCall.result", "output.value", "traceloop.entity.output"
    )
    if result is None:
        result = next((inner.get("content") for kind, inner in events if kind == "gen_ai.tool.message"), None)
    return Asked(called, arguments(said), id), result


_ASKED = ("input.value", "gen_ai.prompt", "ai.prompt", "gen_ai.input.messages", "traceloop.entity.input")
_INSIDE = ("messages", "inputs", "input", "prompt", "task", "query", "question", "message", "content", "text")
"""Where in an object the words of a person stand."""


def task(attributes: dict[str, JSON], events: list[tuple[str, dict[str, JSON]]]) -> str:
    """What a frame around turns was asked: the first words of the person; empty where it does not say."""
    heard = _first_words(_input(attributes, events))
    return heard or next((words for name in _ASKED if (words := _asked(attributes.get(name)))), "")


def _asked(value: JSON) -> str:
    """Words as they are, or those of a list of messages, however an object or two is wrapped around them."""
    for _ in range(4):
        value = decode(value)
        if isinstance(value, list):
            return _first_words(objects(value))
        if not isinstance(value, dict):
            return value.strip() if isinstance(value, str) else ""
        value = pick(value, *_INSIDE)
    return ""


def _first_words(messages: Iterator[dict[str, JSON]]) -> str:
    told = Exchange()
    for message in messages:
        _hear(told, message)
    return next((words for role, words in told.heard if role == "user"), "")


_MODELS = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "ai.response.model",
    "ai.model.id",
)


def _usage(attributes: dict[str, JSON]) -> Usage | None:
    sent = pick(attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
    sent = sent if sent is not None else pick(attributes, "ai.usage.inputTokens", "ai.usage.promptTokens")
    got = pick(attributes, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
    got = got if got is not None else pick(attributes, "ai.usage.outputTokens", "ai.usage.completionTokens")
    if sent is None and got is None:
        return None
    read = pick(attributes, "gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read")
    wrote = pick(attributes, "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_write.input_tokens")
    thought = pick(attributes, "gen_ai.usage.reasoning.output_tokens", "ai.usage.reasoningTokens")
    cached = whole(read if read is not None else attributes.get("ai.usage.cachedInputTokens"))
    return Usage(whole(sent), whole(got), cached, whole(wrote), whole(thought))


def _instructions(attributes: dict[str, JSON]) -> str:
    value = decode(attributes.get("gen_ai.system_instructions"))
    found = [text(pick(part, "content", "text")) for part in objects(value)]
    return "\n".join(found) if found else text(value)


def _input(attributes: dict[str, JSON], events: list[tuple[str, dict[str, JSON]]]) -> Iterator[dict[str, JSON]]:
    whole_list = decode(pick(attributes, "gen_ai.input.messages", "ai.prompt.messages", "gen_ai.prompt"))
    if isinstance(whole_list, list):
        yield from objects(whole_list)
        return
    for prefix in ("llm.input_messages", "gen_ai.prompt"):
        found = list(_indexed(attributes, prefix))
        if found:
            yield from found
            return
    prompt = mapping(decode(attributes.get("ai.prompt")))
    yield from objects(prompt.get("messages"))
    if isinstance(prompt.get("prompt"), str):
        yield {"role": "user", "content": prompt["prompt"]}
    for kind, inner in events:
        if kind.startswith("gen_ai.") and kind.endswith(".message"):
            yield {"role": kind.split(".")[1], **inner}


def _output(attributes: dict[str, JSON], events: list[tuple[str, dict[str, JSON]]]) -> Iterator[dict[str, JSON]]:
    value = decode(pick(attributes, "gen_ai.output.messages", "gen_ai.completion"))
    if isinstance(value, list):
        yield from objects(value)
        return
    for prefix in ("llm.output_messages", "gen_ai.completion"):
        found = list(_indexed(attributes, prefix))
        if found:
            yield from found
            return
    said = pick(attributes, "ai.response.text", "ai.response.object")
    if said is not None:
        yield {"role": "assistant", "content": said}
    for kind, inner in events:
        if kind == "gen_ai.choice":
            yield {"role": "assistant", **(mapping(inner.get("message")) or inner)}


def _vercel_calls(attributes: dict[str, JSON]) -> list[dict[str, JSON]]:
    return [{"type": "tool-call", **call} for call in objects(decode(attributes.get("ai.response.toolCalls")))]


def _indexed(attributes: dict[str, JSON], prefix: str) -> Iterator[dict[str, JSON]]:
    """Messages written as one attribute per leaf: `prefix.0.message.role`, `prefix.0.content`, ..."""
    found: dict[int, dict[str, JSON]] = {}
    for key, value in attributes.items():
        if not key.startswith(prefix + "."):
            continue
        number, _, leaf = key[len(prefix) + 1 :].partition(".")
        if number.isdecimal() and len(number) < 6 and leaf:
            _leaf(found.setdefault(int(number), {}), leaf.removeprefix("message."), value)
    for place in sorted(found):
        message = found[place]
        calls = mapping(message.pop("tool_calls", None))
        message["tool_calls"] = [calls[position] for position in sorted(calls)]
        contents = mapping(message.pop("contents", None))
        if contents:
            message["content"] = [contents[position] for position in sorted(contents)]
        yield message


def _leaf(message: dict[str, JSON], leaf: str, value: JSON) -> None:
    words = leaf.split(".")
    if len(words) == 1:
        message[leaf] = value
        return
    if words[0] in ("tool_calls", "contents") and len(words) >= 3:
        group = message.setdefault(words[0], {})
        if isinstance(group, dict):
            inner = group.setdefault(words[1].zfill(6), {})
            if isinstance(inner, dict):
                inner[words[-1]] = value


def _hear(told: Exchange, message: dict[str, JSON]) -> None:
    role = text(message.get("role"))
    blocks = list(objects(pick(message, "parts", "content")))
    for block in blocks:
        result = chat.block_result(block)
        if result is not None:
            told.results.append(result)
    if role in ("tool", "function"):
        value = message.get("content")
        if value is not None and not blocks:
            told.results.append((text(pick(message, "tool_call_id", "id")), value, False))
        return
    words = _words(message)
    if role in ("system", "developer"):
        told.system = told.system or words
    elif words:
        told.heard.append(("assistant" if role in ("assistant", "model") else "user", words))


def _answer(told: Exchange, message: dict[str, JSON]) -> None:
    words = _words(message)
    told.said = f"{told.said}\n{words}" if told.said and words else told.said or words
    told.asked.extend(chat.message_calls(message))
    told.asked.extend(chat.block_calls(list(objects(pick(message, "parts", "content")))))
    told.stop = told.stop or text(message.get("finish_reason"))


def _words(message: dict[str, JSON]) -> str:
    blocks = list(objects(message.get("parts")))
    if blocks:
        return "\n".join(text(b.get("content")) for b in blocks if b.get("type") == "text" and b.get("content"))
    return parts(decode(message.get("content")) if isinstance(message.get("content"), str) else message.get("content"))
