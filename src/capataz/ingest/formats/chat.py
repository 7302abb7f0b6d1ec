"""Chat messages as providers take them: OpenAI chat completions (also the older function calls) and Anthropic blocks.

`tell` tells a builder one message; every format that keeps such messages inside its own frame uses it. A document is
a list of messages, or an object with a list of them under one of the usual names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capataz.events.facts import JSON, Usage
from capataz.ingest.build import Asked, ImportedRun, RunBuilder, finished
from capataz.ingest.formats.base import Context, DocumentFormat
from capataz.ingest.results import looks_wrong
from capataz.ingest.shape import arguments, items, mapping, moment, objects, parts, pick, real, text, whole

NAME = "chat"
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function", "human", "ai"})
_KEYS = ("messages", "traj", "trajectory", "conversation", "conversations", "history", "chat", "transcript")
_LABELS = ("success", "resolved", "is_resolved", "correct", "passed", "label", "reward", "score")


def messages_of(value: JSON) -> list[dict[str, JSON]]:
    """The messages a value holds; none where it does not look like a chat."""
    candidates: list[JSON] = [value]
    if isinstance(value, dict):
        candidates = [value[key] for key in _KEYS if isinstance(value.get(key), list)]
        request = mapping(value.get("request"))
        if isinstance(request.get("messages"), list):
            candidates.append(request["messages"])
    for candidate in candidates:
        found = list(objects(candidate))
        if found and len(found) * 2 > len(items(candidate)) and all(_is_message(message) for message in found[:20]):
            return found
    return []


def _is_message(message: dict[str, JSON]) -> bool:
    if message.get("type") in ("function_call", "function_call_output", "reasoning"):
        return True
    if text(message.get("role")) not in _ROLES:
        return False
    return any(key in message for key in ("content", "tool_calls", "function_call"))


def looks(value: JSON) -> bool:
    messages = messages_of(value)
    if any(text(message.get("role")) in ("assistant", "ai") for message in messages[:500]):
        return True
    return (
        bool(messages) and isinstance(value, dict) and ("choices" in value or isinstance(value.get("response"), dict))
    )


def runs(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    builder = context.builder(NAME)
    builder.id = text(pick(record, "id", "run_id", "trace_id", "session_id", "conversation_id"))
    builder.task_key = text(pick(record, "task_id", "task_key", "task", "question"))
    builder.model = text(record.get("model"))
    declare(builder, pick(record, "tools", "functions"))
    system = record.get("system")
    if system is not None:
        builder.instructions = parts(system)
    for message in messages_of(value):
        tell(builder, message)
    _answer(builder, record)
    name = next((key for key in _LABELS if isinstance(record.get(key), (bool, int, float))), None)
    if name is not None:
        said = record[name]
        builder.label(said if isinstance(said, bool) else (real(said) or 0) >= 1, name)
    yield from finished(builder)


def _answer(builder: RunBuilder, record: dict[str, JSON]) -> None:
    """The reply that came to these messages, where the record keeps both (logs of single exchanges)."""
    response = mapping(record.get("response")) or record
    for choice in list(objects(response.get("choices")))[:1]:
        message = mapping(choice.get("message"))
        if message:
            tell(builder, {"usage": response.get("usage"), **message, "role": "assistant"})
    if response.get("type") == "message" and response.get("role") == "assistant" and response is not record:
        tell(builder, response)


def tell(builder: RunBuilder, message: dict[str, JSON], at: float | None = None) -> None:
    """Tell a builder one message of either dialect."""
    at = at if at is not None else moment(pick(message, "timestamp", "created_at", "created", "time"))
    kind = text(message.get("type"))
    if kind in ("function_call", "function_call_output", "reasoning"):
        _item(builder, message, kind, at)
        return
    match text(message.get("role")):
        case "system" | "developer":
            words = parts(message.get("content"))
            builder.instructions = f"{builder.instructions}\n{words}" if builder.instructions else words
        case "assistant" | "ai":
            _assistant(builder, message, at)
        case "tool" | "function":
            content = message.get("content")
            value = parts(content) if isinstance(content, list) else content
            id = text(pick(message, "tool_call_id", "id")) if message.get("role") == "tool" else ""
            wrong = message.get("is_error") is True or looks_wrong(value)
            if not builder.result(value, id=id, error=wrong, at=at):
                builder.result(value, error=wrong, at=at)
        case _:
            _person(builder, message, at)


def _item(builder: RunBuilder, item: dict[str, JSON], kind: str, at: float | None) -> None:
    """One item of the responses dialect."""
    if kind == "function_call":
        ask = Asked(text(item.get("name")) or "unknown", arguments(item.get("arguments")), text(item.get("call_id")))
        builder.reply("", (ask,), at=at)
    elif kind == "function_call_output":
        output = item.get("output")
        builder.result(output, id=text(item.get("call_id")), error=looks_wrong(output), at=at)


def _assistant(builder: RunBuilder, message: dict[str, JSON], at: float | None) -> None:
    content = message.get("content")
    blocks = list(objects(content))
    asked = [*message_calls(message), *block_calls(blocks)]
    thinking = text(pick(message, "reasoning_content", "reasoning"))
    thinking = thinking or "\n".join(text(b.get("thinking")) for b in blocks if b.get("type") == "thinking")
    builder.reply(
        parts(content),
        asked,
        usage=usage_of(mapping(message.get("usage"))),
        at=at,
        model=text(message.get("model")),
        stop=text(message.get("stop_reason")),
        thinking=thinking,
    )


def message_calls(message: dict[str, JSON]) -> Iterator[Asked]:
    """The calls of an OpenAI message (and of inspect's, which name the function flatly)."""
    for call in objects(message.get("tool_calls")):
        function = mapping(pick(call, "function", "tool_call")) or call
        yield Asked(
            text(pick(function, "name", "function.name", "function")) or "unknown",
            arguments(pick(function, "arguments", "args", "input")),
            text(call.get("id")),
        )
    function = mapping(message.get("function_call"))
    if function:
        yield Asked(text(function.get("name")) or "unknown", arguments(function.get("arguments")))


def block_calls(blocks: Sequence[dict[str, JSON]]) -> list[Asked]:
    """The calls among Anthropic's content blocks (and Vercel's `tool-call` parts)."""
    found: list[Asked] = []
    for block in blocks:
        if block.get("type") in ("tool_use", "server_tool_use", "tool-call", "tool_call"):
            found.append(
                Asked(
                    text(pick(block, "name", "toolName")) or "unknown",
                    arguments(pick(block, "input", "args", "arguments")),
                    text(pick(block, "id", "toolCallId")),
                )
            )
    return found


def block_result(block: dict[str, JSON]) -> tuple[str, JSON, bool] | None:
    """Id, value and error flag of a result block; None where the block is something else."""
    kind = text(block.get("type"))
    if kind not in ("tool_result", "tool-result", "tool_call_response") and not kind.endswith("_tool_result"):
        return None
    value = pick(block, "content", "result", "response", "output")
    if isinstance(value, list) and all(isinstance(item, dict) and "text" in item for item in value):
        value = parts(value)
    wrong = block.get("is_error")
    error = wrong if isinstance(wrong, bool) else looks_wrong(value)
    return text(pick(block, "tool_use_id", "toolCallId", "id")), value, error


def _person(builder: RunBuilder, message: dict[str, JSON], at: float | None) -> None:
    content = message.get("content")
    for block in objects(content):
        told = block_result(block)
        if told is not None:
            builder.result(told[1], id=told[0], error=told[2], at=at)
    words = parts(content)
    if words:
        builder.say(words, at=at)


def declare(builder: RunBuilder, tools: JSON) -> None:
    """The tools a record declares, with whatever it says of them."""
    for tool in objects(tools):
        inner = mapping(tool.get("function")) or tool
        name = text(inner.get("name"))
        if name:
            builder.hints[name] = mapping(inner.get("annotations"))


def usage_of(said: dict[str, JSON]) -> Usage | None:
    """Usage in either dialect; `input` always includes what came from a cache. None where nothing is said."""
    if not said:
        return None
    if "input_tokens" in said or "cache_read_input_tokens" in said:
        details = mapping(said.get("input_tokens_details"))
        read, write = whole(said.get("cache_read_input_tokens")), whole(said.get("cache_creation_input_tokens"))
        cached = whole(details.get("cached_tokens"))
        reasoning = whole(mapping(said.get("output_tokens_details")).get("reasoning_tokens"))
        total = whole(said.get("input_tokens")) + read + write
        return Usage(total, whole(said.get("output_tokens")), read or cached, write, reasoning)
    if "prompt_tokens" in said or "completion_tokens" in said:
        cached = whole(mapping(said.get("prompt_tokens_details")).get("cached_tokens"))
        reasoning = whole(mapping(said.get("completion_tokens_details")).get("reasoning_tokens"))
        return Usage(whole(said.get("prompt_tokens")), whole(said.get("completion_tokens")), cached, 0, reasoning)
    return None


FORMAT = DocumentFormat(NAME, looks, runs)
