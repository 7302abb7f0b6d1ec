"""Small real servers on loopback that misbehave byte by byte, and a model that talks to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from capataz.events.facts import Fault
from capataz.memory.transcript import Message
from capataz.mistakes import ModelRefused
from capataz.models.dialects import DIALECTS, PROFILES
from capataz.models.http import HttpModel
from capataz.ports import Deadlines, ModelRequest

Behaviour = Callable[["Peer"], Awaitable[None]]
SHORT = Deadlines(connect=20.0, first_byte=0.4, silence=0.4, total=1.2)
TOTAL = Deadlines(connect=20.0, first_byte=20.0, silence=20.0, total=1.2)
"""Only where a limit is what is tested: a busy machine is slow, too."""
KEY = "sk-test-0123456789abcdef"


def chunk(text: str) -> bytes:
    """One chunk of a chunked body."""
    return f"{len(text.encode()):x}\r\n{text}\r\n".encode()


STREAM = b"\r\n".join((b"HTTP/1.1 200 OK", b"content-type: text/event-stream", b"transfer-encoding: chunked", b"", b""))
HELLO = 'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
STOPPED = 'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USED = 'data: {"id":"1","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\n'
DONE = "data: [DONE]\n\n"
LAST = b"0\r\n\r\n"


@dataclass
class Peer:
    """The server's side of one connection, after a request was read."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: str
    body: bytes

    async def say(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()


@dataclass
class Server:
    """What the server saw: connections made, and the requests in order."""

    url: str = ""
    connections: int = 0
    requests: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])


async def _request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    sizes = [line.split(":")[1] for line in head.lower().splitlines() if line.startswith("content-length")]
    return head, await reader.readexactly(int(sizes[0])) if sizes else b""


@asynccontextmanager
async def serving(behave: Behaviour) -> AsyncIterator[Server]:
    seen = Server()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        if (task := asyncio.current_task()) is not None:
            tasks.add(task)
        try:
            while True:
                head, body = await _request(reader)
                seen.requests.append((head, body))
                await behave(Peer(reader, writer, head, body))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    seen.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield seen
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def model_at(url: str, provider: str = "openai", streams: bool = True) -> HttpModel:
    profile = replace(PROFILES[provider], base_url=url, streams=streams)
    return HttpModel(profile, DIALECTS[profile.dialect], KEY)


def request(deadlines: Deadlines = Deadlines()) -> ModelRequest:
    return ModelRequest("m", "Be short.", [Message("user", "hi")], deadlines=deadlines)


async def fault_of(model: HttpModel, asked: ModelRequest | None = None) -> Fault:
    """The fault the call must end with; the model is closed."""
    try:
        with pytest.raises(ModelRefused) as caught:
            await model.complete(asked or request(), lambda: None)
    finally:
        await model.close()
    assert KEY not in str(caught.value)
    return caught.value.fault
