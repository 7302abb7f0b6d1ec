"""The loop most people write first, for comparison: twenty lines, a ceiling on turns, and trust in the model.

It is meant to be fair. It has what the vendors' own clients give for free: two retries of 429 and server errors, with
the wait the provider asks for, and a stream that is simply over when it is over. It catches what its tools raise, as
every tutorial does. It gets the same tools, the same task and the same ceiling as the foreman.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

_RETRIES = 2
_RETRIED = (408, 409, 429, 500, 502, 503, 504)


@dataclass(slots=True)
class Tally:
    """What a naive run used so far, for the demo's table. The loop itself never looks at it."""

    turns: int = 0
    calls: int = 0
    tokens: int = 0
    cut: bool = False
    """The ceiling ended it."""


async def naive(task: str, chat: Chat, tools: Mapping[str, Callable[..., Any]], ceiling: int, tally: Tally) -> str:
    """The twenty-line loop: ask, run what is asked for, stop when the model stops. Returns its last words."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    text = ""
    for _ in range(ceiling):
        tally.turns += 1
        message = await chat.complete(messages, tally)
        messages.append(message)
        text = message["content"] or text
        if not message.get("tool_calls"):
            return text
        for call in message["tool_calls"]:
            tally.calls += 1
            function = tools[call["function"]["name"]]
            arguments = json.loads(call["function"]["arguments"])
            try:
                result = function(**arguments)
            except (LookupError, RuntimeError, TypeError, ValueError) as error:
                result = {"error": str(error)}
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
    tally.cut = True
    return text


class ProviderError(RuntimeError):
    """What a vendor's client raises when its own retries are used up."""


@dataclass(slots=True)
class Chat:
    """A chat-completions client that behaves as the vendors' own: retries, waits, and reads a stream to its end."""

    session: aiohttp.ClientSession
    url: str
    model: str
    tools: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    key: str = "none"

    async def complete(self, messages: Sequence[Mapping[str, Any]], tally: Tally) -> dict[str, Any]:
        """One assistant message, put together from the stream."""
        body: dict[str, Any] = {"model": self.model, "messages": messages, "tools": self.tools}
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        headers = {"Authorization": f"Bearer {self.key}"}
        for attempt in range(_RETRIES + 1):
            async with self.session.post(f"{self.url}/chat/completions", json=body, headers=headers) as response:
                if response.status == 200:
                    return await _collect(response, tally)
                if response.status not in _RETRIED or attempt == _RETRIES:
                    raise ProviderError(f"{response.status}: {(await response.json())['error']['message']}")
                wait = float(response.headers.get("Retry-After", 0.5 * 2**attempt))
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")


async def _collect(response: aiohttp.ClientResponse, tally: Tally) -> dict[str, Any]:
    text = ""
    calls: dict[int, dict[str, Any]] = {}
    async for line in response.content:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        chunk = json.loads(line[6:])
        usage: dict[str, Any] = chunk.get("usage") or {}
        tally.tokens += usage.get("total_tokens", 0)
        for choice in chunk.get("choices", ()):
            text += choice["delta"].get("content") or ""
            for delta in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault(delta["index"], {"function": {"name": "", "arguments": ""}})
                call |= {key: delta[key] for key in ("id", "type") if key in delta}
                call["function"]["name"] += delta["function"].get("name", "")
                call["function"]["arguments"] += delta["function"].get("arguments", "")
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return message | ({"tool_calls": list(calls.values())} if calls else {})
