"""What leaves for a provider, with what must not leave taken out; and what comes back, with it put in again.

Everybody who calls a model goes through this on the way out: the loop, the closing call, the compressor, a judge.
Personal data become placeholders that stay the same for a conversation, secrets become words that nobody can undo.
Each message is masked once: the same object goes out again with the next call, so that it is not encoded twice either.
What is large is masked beside the event loop, whose heartbeats and other runs must never wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson

from capataz.events.facts import JSON, Call, Fault
from capataz.events.plain import to_json
from capataz.memory.message import Message
from capataz.ports import ModelRequest, RawCall, Reply, ToolSpec
from capataz.privacy.mask import Mask
from capataz.privacy.pseudonyms import Pseudonyms

LARGE = 100_000
"""Characters that are masked on the event loop at most: some 20 ms of work."""


@dataclass(slots=True)
class Masking:
    """The mask of one run, with the placeholders of its conversation. One owner at a time."""

    mask: Mask
    pseudonyms: Pseudonyms
    sealed: Collection[str] = ()
    """Tools that are given the placeholders, not what they stand for."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while placeholders are given out: those who share the `pseudonyms` share it."""
    _seen: list[tuple[Message, Message]] = field(default_factory=list[tuple[Message, Message]])
    _system: tuple[str, str] = ("", "")
    _tools: tuple[Sequence[ToolSpec], Sequence[ToolSpec]] = ((), ())

    async def leaving(self, request: ModelRequest) -> ModelRequest:
        """The request as it may leave. A large one nobody waits for any more is finished before the next begins."""
        if self._unseen(request) <= LARGE and not self.turn.locked():
            return self.outgoing(request)
        await self.turn.acquire()
        work = asyncio.ensure_future(asyncio.to_thread(self.outgoing, request))
        work.add_done_callback(lambda _: self.turn.release())
        return await asyncio.shield(work)

    def _unseen(self, request: ModelRequest) -> int:
        """Characters that have not been masked yet."""
        system = 0 if request.system == self._system[0] else len(request.system)
        return system + sum(
            len(message.text) + len(message.thinking) + sum(len(str(call.arguments)) for call in message.calls)
            for place, message in enumerate(request.history)
            if place >= len(self._seen) or self._seen[place][0] is not message
        )

    def outgoing(self, request: ModelRequest) -> ModelRequest:
        """The request as it may leave."""
        if request.system != self._system[0]:
            self._system = (request.system, self.mask.text(request.system, self.pseudonyms))
        return replace(
            request,
            system=self._system[1],
            history=self._history(request.history),
            tools=self._declared(request.tools),
            extra=self._extra(request.extra),
        )

    def _declared(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """The declarations of the tools: descriptions and defaults are written by people, too."""
        if self._tools[0] is not tools:
            self._tools = (tools, tuple(self._tool(tool) for tool in tools))
        return self._tools[1]

    def _tool(self, tool: ToolSpec) -> ToolSpec:
        schema = self.mask.value(dict(tool.schema), self.pseudonyms)
        description = self.mask.text(tool.description, self.pseudonyms)
        return replace(tool, description=description, schema=schema if isinstance(schema, dict) else tool.schema)

    def _extra(self, extra: Mapping[str, JSON]) -> Mapping[str, JSON]:
        masked = self.mask.value(dict(extra), self.pseudonyms) if extra else extra
        return masked if isinstance(masked, Mapping) else extra

    def incoming(self, reply: Reply) -> Reply:
        """The reply with the person's own data back in it, for the person and for the tools that may see them."""
        calls = tuple(self._restored(call) for call in reply.calls)
        return replace(reply, text=self.pseudonyms.restore(reply.text), calls=calls)

    def fault(self, fault: Fault) -> Fault:
        """A fault whose words hold nothing of what was sent: providers like to echo it."""
        return replace(fault, message=self.mask.text(fault.message))

    def _history(self, history: Sequence[Message]) -> list[Message]:
        """Masked messages; those seen before, at the same place, are the very same objects as last time."""
        seen = self._seen
        for place, message in enumerate(history):
            if place < len(seen) and seen[place][0] is message:
                continue
            masked = (message, self._message(message))
            if place < len(seen):
                seen[place] = masked
            else:
                seen.append(masked)
        return [masked for _, masked in seen[: len(history)]]

    def _message(self, message: Message) -> Message:
        outside = message.role in ("user", "tool")
        text = self.mask.text(message.text, self.pseudonyms, foreign=outside)
        thinking = self.mask.text(message.thinking, self.pseudonyms) if message.thinking else ""
        calls = tuple(self._call(call) for call in message.calls)
        if text == message.text and thinking == message.thinking and calls == message.calls:
            return message
        return replace(message, text=text, thinking=thinking, calls=calls)

    def _call(self, call: Call) -> Call:
        masked = self.mask.value(dict(call.arguments), self.pseudonyms)
        if masked == call.arguments or not isinstance(masked, dict):
            return call
        return replace(call, arguments=masked)

    def _restored(self, call: RawCall) -> RawCall:
        """Arguments with the values back. What is no JSON stays as it came: it will not be run anyway."""
        if call.name in self.sealed or not len(self.pseudonyms):
            return call
        try:
            arguments = orjson.loads(call.arguments)
        except ValueError:
            return call
        restored = self.pseudonyms.restore_value(arguments)
        return call if restored == arguments else replace(call, arguments=to_json(restored).decode())
