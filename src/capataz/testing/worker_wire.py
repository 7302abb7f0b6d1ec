"""Both wire formats from the provider's side: reading requests, and writing replies as frames of bytes.

Pure: bytes and values in, bytes and values out. It is written apart from the dialects of the library on purpose,
so that a mistake made there is not made here as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, cast

import orjson

from capataz.testing.script import Ask, Result, Seen, Trouble, Turn

Dialect = Literal["openai", "anthropic"]
Body: TypeAlias = "dict[str, Any]"

PIECE = 12
"""Characters in one delta."""

_STOPS: dict[Dialect, dict[str, str]] = {
    "openai": {"stop": "stop", "calls": "tool_calls", "length": "length", "refusal": "content_filter"},
    "anthropic": {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens", "refusal": "refusal"},
}
_REASONS: dict[Dialect, dict[int, str]] = {
    "openai": {
        400: "invalid_request_error",
        401: "invalid_api_key",
        402: "insufficient_quota",
        403: "permission_denied",
        404: "model_not_found",
        413: "context_length_exceeded",
        429: "rate_limit_exceeded",
    },
    "anthropic": {
        400: "invalid_request_error",
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    },
}


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


def read(dialect: Dialect, body: Body, asked: int) -> Seen:
    """What the model could see in a request. The body has passed the strict validator before."""
    messages: list[Body] = body["messages"]
    users = [m for m in messages if m["role"] == "user"]
    offered = [t["function"]["name"] if dialect == "openai" else t["name"] for t in body.get("tools") or ()]
    return Seen(
        model=body["model"],
        task=_text(users[0].get("content")) if users else "",
        said=tuple(_text(m.get("content")) for m in messages if m["role"] == "assistant"),
        results=tuple(_openai_results(messages) if dialect == "openai" else _anthropic_results(messages)),
        tools=() if body.get("tool_choice") in ("none", {"type": "none"}) else tuple(offered),
        last=_text(messages[-1].get("content")) if messages else "",
        asked=asked,
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        b["text"] if b.get("type") == "text" else _text(b.get("content")) for b in _blocks(content)
    ).strip()


def _blocks(content: Any) -> list[Body]:
    return cast("list[Body]", content) if isinstance(content, list) else []


def _arguments(raw: Any) -> Body:
    if isinstance(raw, str):
        try:
            raw = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return {"_raw": raw}
    return cast(Body, raw) if isinstance(raw, dict) else {"_raw": raw}


def _openai_results(messages: list[Body]) -> Iterator[Result]:
    asked: dict[str, tuple[str, Body]] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            asked[call["id"]] = (call["function"]["name"], _arguments(call["function"]["arguments"]))
        if message["role"] == "tool":
            tool, arguments = asked.get(message["tool_call_id"], ("", {}))
            text = _text(message.get("content"))
            yield Result(tool, arguments, text, text.lstrip().startswith('{"error"'))


def _anthropic_results(messages: list[Body]) -> Iterator[Result]:
    asked: dict[str, tuple[str, Body]] = {}
    for message in messages:
        for block in _blocks(message.get("content")):
            if block.get("type") == "tool_use":
                asked[block["id"]] = (block["name"], _arguments(block["input"]))
            elif block.get("type") == "tool_result":
                tool, arguments = asked.get(block["tool_use_id"], ("", {}))
                text = _text(block.get("content"))
                error = bool(block.get("is_error")) or text.lstrip().startswith('{"error"')
                yield Result(tool, arguments, text, error)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────


def usage(body: Body, turn: Turn) -> tuple[int, int]:
    """Tokens in and out as this provider counts them: four bytes are one."""
    out = len(turn.text) + len(turn.thinking) + sum(len(call.tool) + len(_written(call)) for call in turn.calls)
    return len(orjson.dumps(body["messages"])) // 4, max(1, out // 4)


def _written(call: Ask) -> str:
    return call.arguments if isinstance(call.arguments, str) else orjson.dumps(call.arguments).decode()


def _call_id(dialect: Dialect, call: Ask, turn: int, position: int) -> str:
    return call.id or (f"call_{turn}_{position}" if dialect == "openai" else f"toolu_{turn}_{position}")


def _stop(dialect: Dialect, turn: Turn) -> str:
    return _STOPS[dialect][turn.stop or ("calls" if turn.calls else "stop")]


def whole(dialect: Dialect, body: Body, turn: Turn, number: int) -> bytes:
    """The reply in one piece."""
    used = usage(body, turn)
    return orjson.dumps(
        _openai_whole(body, turn, number, used) if dialect == "openai" else _anthropic_whole(body, turn, number, used)
    )


def _openai_whole(body: Body, turn: Turn, number: int, used: tuple[int, int]) -> Body:
    message: Body = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": _call_id("openai", call, number, position),
                "type": "function",
                "function": {"name": call.tool, "arguments": _written(call)},
            }
            for position, call in enumerate(turn.calls)
        ]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": _stop("openai", turn)}],
        "usage": _openai_usage(used),
    }


def _openai_usage(used: tuple[int, int]) -> Body:
    return {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)}


def _anthropic_whole(body: Body, turn: Turn, number: int, used: tuple[int, int]) -> Body:
    content: list[Body] = []
    if turn.thinking:
        content.append({"type": "thinking", "thinking": turn.thinking, "signature": signature(turn.thinking)})
    if turn.text:
        content.append({"type": "text", "text": turn.text, "citations": None})
    for position, call in enumerate(turn.calls):
        written = _arguments(call.arguments) if isinstance(call.arguments, str) else call.arguments
        id_ = _call_id("anthropic", call, number, position)
        content.append({"type": "tool_use", "id": id_, "name": call.tool, "input": written})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": _stop("anthropic", turn),
        "stop_sequence": None,
        "usage": _anthropic_usage(used),
    }


def _anthropic_usage(used: tuple[int, int]) -> Body:
    return {
        "input_tokens": used[0],
        "output_tokens": used[1],
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def signature(thinking: str) -> str:
    """A stand-in for the provider's signature: it can be checked against the text it came with."""
    return f"sig-{sum(i * ord(c) for i, c in enumerate(thinking, 1)):x}"


def forged(body: Body) -> list[str]:
    """Thinking blocks that do not carry the signature they were sent with: a provider refuses them."""
    blocks = [block for message in body["messages"] for block in _blocks(message.get("content"))]
    return [
        f"thinking block with a changed text or signature: {str(block.get('thinking'))[:40]!r}"
        for block in blocks
        if block.get("type") == "thinking" and block.get("signature") != signature(str(block.get("thinking")))
    ]


def frames(dialect: Dialect, body: Body, turn: Turn, number: int) -> list[bytes]:
    """The reply as server-sent events, in order. The last one is the end mark."""
    used = usage(body, turn)
    if dialect == "openai":
        chunks = [_sse(chunk) for chunk in _openai_chunks(body, turn, number, used)]
        return [*chunks, b"data: [DONE]\n\n"]
    return [_sse(event, event["type"]) for event in _anthropic_events(body, turn, number, used)]


def _sse(value: Body, event: str | None = None) -> bytes:
    head = b"" if event is None else f"event: {event}\n".encode()
    return head + b"data: " + orjson.dumps(value) + b"\n\n"


def _pieces(text: str) -> Iterator[str]:
    return (text[i : i + PIECE] for i in range(0, len(text), PIECE))


def _openai_chunks(body: Body, turn: Turn, number: int, used: tuple[int, int]) -> Iterator[Body]:
    head: Body = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}

    def chunk(delta: Body, finish: str | None = None) -> Body:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(turn.thinking):
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(turn.text):
        yield chunk({"content": piece})
    for position, call in enumerate(turn.calls):
        id_ = _call_id("openai", call, number, position)
        opening = {"index": position, "id": id_, "type": "function", "function": {"name": call.tool, "arguments": ""}}
        yield chunk({"tool_calls": [opening]})
        for piece in _pieces(_written(call)):
            yield chunk({"tool_calls": [{"index": position, "function": {"arguments": piece}}]})
    yield chunk({}, _stop("openai", turn))
    options: Body = body.get("stream_options") or {}
    if options.get("include_usage"):
        yield {**head, "choices": [], "usage": _openai_usage(used)}


def _anthropic_events(body: Body, turn: Turn, number: int, used: tuple[int, int]) -> Iterator[Body]:
    start = _anthropic_whole(body, Turn(), number, (used[0], 1)) | {"stop_reason": None}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, (block, deltas) in enumerate(_anthropic_blocks(turn, number)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": _stop("anthropic", turn), "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": used[1]}}
    yield {"type": "message_stop"}


def _anthropic_blocks(turn: Turn, number: int) -> Iterator[tuple[Body, list[Body]]]:
    if turn.thinking:
        thoughts: list[Body] = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(turn.thinking)]
        signed: Body = {"type": "signature_delta", "signature": signature(turn.thinking)}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]
    if turn.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(turn.text)]
    for position, call in enumerate(turn.calls):
        id_ = _call_id("anthropic", call, number, position)
        pieces: list[Body] = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(_written(call))]
        yield {"type": "tool_use", "id": id_, "name": call.tool, "input": {}}, pieces


def heartbeat(dialect: Dialect) -> bytes:
    """A sign of life that says nothing."""
    return b": keep-alive\n\n" if dialect == "openai" else _sse({"type": "ping"}, "ping")


def error(dialect: Dialect, code: int, message: str, reason: str = "") -> bytes:
    """An error body as the provider writes it."""
    word = reason or _REASONS[dialect].get(code, "server_error" if dialect == "openai" else "api_error")
    return orjson.dumps(_error(dialect, word, message, code))


def _error(dialect: Dialect, word: str, message: str, code: int) -> Body:
    if dialect == "openai":
        kind = "server_error" if code >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": word}}
    return {"type": "error", "error": {"type": word, "message": message}, "request_id": "req_worker"}


def error_frame(dialect: Dialect, trouble: Trouble) -> bytes:
    """An error inside a stream that began with status 200."""
    if dialect == "openai":
        return _sse(_error(dialect, trouble.reason or "server_error", "The server had an error.", 500))
    return _sse(_error(dialect, trouble.reason or "overloaded_error", "Overloaded", 529), "error")


def malformed_frame(dialect: Dialect) -> bytes:
    """A chunk that is not JSON."""
    return b'data: {"choices": [{"delta": {"content"\n\n' if dialect == "openai" else b'event: ping\ndata: {"type\n\n'
