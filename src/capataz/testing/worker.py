"""An unreliable worker: a real local model server that misbehaves on demand, in both wire formats.

It stands in for a provider in the whole test-suite and in the demo: real sockets, real streams, real silence. How
it behaves is chosen by the model's name. In front of it stand the strict wire validators, so a request no provider
would take is answered with status 400 and kept in `violations`: a test asserts there are none.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

import orjson
from aiohttp import web

from capataz.testing import worker_wire as wire
from capataz.testing.script import Behaviour, Step, Trouble, Turn
from capataz.testing.wire import check_anthropic, check_openai_chat
from capataz.testing.worker_wire import Body, Dialect

_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


@dataclass(frozen=True, slots=True)
class Served:
    """One request and what became of it. `step` is None when the request was malformed or its model unknown."""

    dialect: Dialect
    model: str
    body: Body
    step: Step | None


class UnreliableWorker:
    """A local HTTP server speaking OpenAI chat completions and Anthropic messages, streamed and whole.

    >>> from capataz.testing.script import Script, say, status
    >>> async def address() -> str:
    ...     async with UnreliableWorker({"bad": Script((status(500), say("sorry")))}) as worker:
    ...         return worker.url("openai")  # for Agent("a", model="openai:bad", base_url=..., api_key="any")
    >>> asyncio.run(address())
    'http://127.0.0.1:.../v1'
    """

    def __init__(self, behaviours: Mapping[str, Behaviour] | None = None) -> None:
        self.served: list[Served] = []
        """Every request, in the order it came."""
        self.violations: list[str] = []
        """What was wrong with requests that no real provider would have taken."""
        self._behaviours: dict[str, Behaviour] = dict(behaviours or {})
        self._asked: Counter[tuple[str, str]] = Counter()
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def __aenter__(self) -> UnreliableWorker:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        for path in ("/v1/chat/completions", "/chat/completions"):
            app.router.add_post(path, self._openai)
        for path in ("/v1/messages", "/messages"):
            app.router.add_post(path, self._anthropic)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def url(self, dialect: Dialect = "openai") -> str:
        """The base URL, as the official clients of that dialect expect it."""
        root = f"http://127.0.0.1:{self._port}"
        return f"{root}/v1" if dialect == "openai" else root

    def play(self, name: str, behaviour: Behaviour) -> str:
        """From now on the model called `name` behaves like this, from its first step. Returns the name."""
        self._behaviours[name] = behaviour
        for key in [key for key in self._asked if key[0] == name]:
            del self._asked[key]
        return name

    # ── serving ──────────────────────────────────────────────────────────────────────────────────────────

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("openai", request)

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("anthropic", request)

    async def _answer(self, dialect: Dialect, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body, problems = _checked(dialect, raw, request)
        model = str(body.get("model", ""))
        behaviour = self._behaviours.get(model)
        if problems or behaviour is None:
            self.violations += problems
            self.served.append(Served(dialect, model, body, None))
            code, words = (400, "; ".join(problems)) if problems else (404, f"The model {model!r} does not exist.")
            return _json(wire.error(dialect, code, words), code)
        key = (model, wire.read(dialect, body, 0).task)
        seen = wire.read(dialect, body, self._asked[key])
        self._asked[key] += 1
        step = behaviour(seen)
        self.served.append(Served(dialect, model, body, step))
        return await _Answer(dialect, request, body, seen.turns).give(step)


def _checked(dialect: Dialect, raw: bytes, request: web.Request) -> tuple[Body, list[str]]:
    """The body, and everything a real provider would refuse about it."""
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return {}, [f"the body is not JSON: {error}"]
    if not isinstance(body, dict):
        return {}, ["the body is not an object"]
    found = cast(Body, body)
    if dialect == "openai":
        return found, check_openai_chat(found)
    missing = [name for name in ("x-api-key", "anthropic-version") if name not in request.headers]
    problems = [f"header {name} is missing" for name in missing] + check_anthropic(found)
    return found, problems or wire.forged(found)


def _json(payload: bytes, code: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=payload, status=code, content_type="application/json", headers=dict(headers or {}))


@dataclass(frozen=True, slots=True)
class _Answer:
    """Gives one step to one request."""

    dialect: Dialect
    request: web.Request
    body: Body
    number: int

    async def give(self, step: Step) -> web.StreamResponse:
        if isinstance(step, Turn):
            return await self._turn(step)
        if step.kind == "status":
            return self._status(step)
        if step.kind == "hang":
            await _for_ever()
        if self.body.get("stream"):
            return await self._broken_stream(step)
        return await self._broken_body(step)

    async def _turn(self, turn: Turn) -> web.StreamResponse:
        if not self.body.get("stream"):
            return _json(wire.whole(self.dialect, self.body, turn, self.number))
        stream = await self._begin()
        for frame in wire.frames(self.dialect, self.body, turn, self.number):
            await stream.write(frame)
        await stream.write_eof()
        return stream

    def _status(self, trouble: Trouble) -> web.Response:
        headers = {} if trouble.wait is None else {"Retry-After": f"{trouble.wait:g}"}
        words = "Too many requests." if trouble.status == 429 else f"The worker answers {trouble.status}."
        return _json(wire.error(self.dialect, trouble.status, words, trouble.reason), trouble.status, headers)

    async def _begin(self) -> web.StreamResponse:
        stream = web.StreamResponse(headers=_STREAM)
        await stream.prepare(self.request)
        return stream

    async def _broken_stream(self, trouble: Trouble) -> web.StreamResponse:
        stream = await self._begin()
        frames = wire.frames(self.dialect, self.body, trouble.turn, self.number)
        for frame in frames[: max(1, len(frames) - 4)]:  # an end is at most four frames, in both dialects
            await stream.write(frame)
        await self._break(stream, trouble)
        return stream

    async def _break(self, stream: web.StreamResponse, trouble: Trouble) -> None:
        match trouble.kind:
            case "stall":
                await _for_ever()
            case "trickle":
                while True:
                    await stream.write(wire.heartbeat(self.dialect))
                    await asyncio.sleep(trouble.interval)
            case "drop":
                if self.request.transport is not None:
                    self.request.transport.abort()
            case "malformed":
                await stream.write(wire.malformed_frame(self.dialect))
                await stream.write_eof()
            case "stream-error":
                await stream.write(wire.error_frame(self.dialect, trouble))
                await stream.write_eof()
            case _:
                await stream.write_eof()

    async def _broken_body(self, trouble: Trouble) -> web.StreamResponse:
        """The same faults for a reply in one piece: what can only happen to a stream becomes its nearest kin."""
        if trouble.kind in ("stall", "trickle"):
            await _for_ever()
        if trouble.kind == "drop" and self.request.transport is not None:
            self.request.transport.abort()
        if trouble.kind == "stream-error":
            return _json(wire.error(self.dialect, 500, "The server had an error.", trouble.reason))
        payload = wire.whole(self.dialect, self.body, trouble.turn, self.number)
        return _json(payload[: len(payload) // 2])


async def _for_ever() -> None:
    """Until the client goes away or the server is closed: both cancel the handler."""
    await asyncio.Event().wait()
