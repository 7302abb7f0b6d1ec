"""The wire to a provider: one POST, one answer, and an end to every wait.

Nothing is decided here and nothing kept but connections: one session for each event loop, shared by all calls, and one
TLS context for the process. Nothing is tried again but one thing: a kept connection that turns out to be closed the
moment it is used says nothing about the provider, and the request goes out on another one. Redirects are not followed,
since they would carry the key elsewhere. Every way a provider or the network can fail leaves as `ModelRefused` with a
classified fault, whose words never hold the key. What is left to raise otherwise is a bug of this library, and the
gateway says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from capataz.events.facts import Fault
from capataz.faults.classify import classify_exception, classify_http
from capataz.mistakes import ModelRefused
from capataz.models.dialects.base import Dialect, Encoder, Profile
from capataz.models.hosts import is_loopback
from capataz.models.sse import DONE, SseParser
from capataz.ports import Deadlines, ModelRequest, Reply

MOST_BYTES = 32 * 1024 * 1024
"""Of one answer."""
MOST_ERROR_BYTES = 64 * 1024
"""Of the body of a refusal: what is behind them tells nothing more."""
SHORTEST_KEY = 8
"""Characters from which a key is a secret. Local servers are given "k" or "any", which are parts of common words."""
LINGER = 1.0
"""Seconds a server may take to end a stream whose end mark was read; also for the body of a refusal."""
LAST_EVENTS = frozenset(("message_stop", "response.completed", "response.incomplete", "response.failed"))
_BROKEN = (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, ConnectionError)
_KEEPALIVE = 4.0
"""Seconds a connection is kept for the next call: common servers close an idle one after five."""
_STALE = 0.5
"""Seconds within which a kept connection that was closed by the other side shows."""
_STALE_TRIES = 3


@dataclass(slots=True)
class _Watch:
    """The waits of one call: the deadline of the moment, moved on by every chunk."""

    quiet: asyncio.Timeout
    limits: Deadlines
    beat: Callable[[], None]
    most: int
    started: float
    first_byte: float | None = None
    size: int = 0

    async def chunk(self, response: aiohttp.ClientResponse) -> bytes:
        """The next piece of the body, empty at its end. Each is a sign of life."""
        chunk = await response.content.readany()
        if not chunk:
            return chunk
        now = asyncio.get_running_loop().time()
        self.beat()
        self.quiet.reschedule(now + self.limits.silence)
        if self.first_byte is None:
            self.first_byte = now - self.started
        self.size += len(chunk)
        if self.size > self.most:
            words = f"the answer has more than {self.most} bytes"
            raise ModelRefused(Fault("contract", "answer-too-large", words, response.status, retries=0))
        return chunk


@dataclass(slots=True)
class _Kept:
    """Whether a request went out on a connection that an earlier call had used, and whether it was answered there."""

    used: bool = False
    answered: bool = False


async def _note_kept(_: aiohttp.ClientSession, context: Any, __: aiohttp.TraceConnectionReuseconnParams) -> None:
    context.trace_request_ctx.used = True


def _traced() -> aiohttp.TraceConfig:
    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(_note_kept)
    return config


@dataclass(eq=False)
class HttpModel:
    """A `Model` behind HTTP. `profile` says where and what it differs in, `dialect` speaks its wire format.

    `headers` are sent besides the dialect's own. May be used from several event loops: each has connections of its
    own, and `close` lets go of those of the loop it is called in. A closed model opens new ones when used again.
    """

    profile: Profile
    dialect: Dialect
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    most_bytes: int = MOST_BYTES
    _sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = field(
        default_factory=dict[asyncio.AbstractEventLoop, aiohttp.ClientSession], repr=False, init=False
    )

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        """Ask and return the whole answer. Raises `ModelRefused`."""
        body, kept = self._encoder(request).body(request), _Kept()
        loop = asyncio.get_running_loop()
        for left in reversed(range(_STALE_TRIES)):
            started, kept.used = loop.time(), False
            try:
                return await self._ask(request, body, beat, kept)
            except ModelRefused as refused:
                quick = loop.time() - started < _STALE
                if not (left and quick and kept.used and refused.fault.reason == "connection" and not kept.answered):
                    raise ModelRefused(self._clean(refused.fault)) from refused.__cause__
        raise AssertionError("the last try either answers or raises")

    async def _ask(self, request: ModelRequest, body: bytes, beat: Callable[[], None], kept: _Kept) -> Reply:
        """One POST and its answer."""
        limits = request.deadlines
        # An answer that is not streamed comes all at once, when it is complete.
        first = limits.first_byte if self.profile.streams else limits.total
        watch: _Watch | None = None
        try:
            async with asyncio.timeout(first) as quiet:
                watch = _Watch(quiet, limits, beat, self.most_bytes, asyncio.get_running_loop().time())
                async with self._session().post(
                    URL(self.url(request.model), encoded=True),
                    data=body,
                    headers=self._headers(),
                    timeout=aiohttp.ClientTimeout(total=limits.total, connect=limits.connect),
                    allow_redirects=False,
                    trace_request_ctx=kept,
                ) as response:
                    beat()
                    kept.answered = True
                    return await self._answer(response, request, watch)
        except TimeoutError as error:
            raise ModelRefused(self._late(error, watch, limits)) from error
        except aiohttp.ClientResponseError as error:  # its status is not the server's: nothing was understood
            words = f"{self._host()} did not answer in HTTP: {error.message.splitlines()[0][:200]}"
            raise ModelRefused(Fault("transient", "connection", words)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ModelRefused(classify_exception(error)) from error

    async def close(self) -> None:
        """Let go of the running loop's connections."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def url(self, model: str) -> str:
        """Where a request for this model goes."""
        base, mark, query = self.profile.base_url.partition("?")
        base, path = base.rstrip("/"), self.dialect.path(model, self.profile.streams)
        if base.endswith("/v1") and path.startswith("/v1/"):
            base = base.removesuffix("/v1")
        return f"{base}{path}{mark}{query}"

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────

    def _encoder(self, request: ModelRequest) -> Encoder:
        """The run's own encoder for this provider, which has kept what it encoded before."""
        name = f"encoder of {self.profile.name}"
        kept: tuple[Profile, Encoder] | None = request.memo.get(name)
        if kept is None or kept[0] is not self.profile:
            kept = request.memo[name] = (self.profile, self.dialect.encoder(self.profile))
        return kept[1]

    def _headers(self) -> dict[str, str]:
        # Compressed streams arrive in clumps, which hides the signs of life.
        return {"accept-encoding": "identity", **self.dialect.headers(self.key), **self.headers}

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            for ended in [other for other in self._sessions if other.is_closed()]:
                del self._sessions[ended]
            session = self._sessions[loop] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE, ttl_dns_cache=60),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=Deadlines().total),
                headers={"user-agent": "capataz"},
                proxy=_proxy(self.profile.base_url),
                trace_configs=[_traced()],
            )
        return session

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, response: aiohttp.ClientResponse, request: ModelRequest, watch: _Watch) -> Reply:
        if not 200 <= response.status < 300:
            raise ModelRefused(await self._refusal(response))
        first = await self._first(response, watch)
        # Some servers ignore the wish for a stream, some call one JSON: the first byte never lies.
        if self.profile.streams and not first.lstrip().startswith((b"{", b"[")):
            found = await self._streamed(response, request, watch, first)
        else:
            found = await self._whole(response, request, watch, first)
        if isinstance(found, Fault):
            raise ModelRefused(found)
        return replace(found, first_byte=watch.first_byte)

    async def _first(self, response: aiohttp.ClientResponse, watch: _Watch) -> bytes:
        """The first piece of the body; empty where the connection broke before it."""
        with suppress(*_BROKEN):
            return await watch.chunk(response)
        return b""

    async def _whole(
        self, response: aiohttp.ClientResponse, request: ModelRequest, watch: _Watch, first: bytes
    ) -> Reply | Fault:
        chunks = [first]
        while chunk := await watch.chunk(response):
            chunks.append(chunk)
        return self.dialect.whole(b"".join(chunks), self.profile, request)

    async def _streamed(
        self, response: aiohttp.ClientResponse, request: ModelRequest, watch: _Watch, first: bytes
    ) -> Reply | Fault:
        """Whether an answer is whole is the reader's to say, by its end mark, whatever became of the connection."""
        parser, reader = SseParser(), self.dialect.reader(self.profile, request)
        with suppress(*_BROKEN):
            chunk = first
            while chunk:
                last = False
                for event, data in parser.feed(chunk):
                    reader.feed(event, data)
                    last = last or data == DONE or event in LAST_EVENTS
                if reader.failed:
                    return reader.finish()
                if last:
                    await _drain(response)
                    return reader.finish()
                chunk = await watch.chunk(response)
            for event, data in parser.end():
                reader.feed(event, data)
        return reader.finish()

    async def _refusal(self, response: aiohttp.ClientResponse) -> Fault:
        """The status alone says enough: a body that does not come, or not whole, changes nothing."""
        body = b""
        with suppress(TimeoutError, aiohttp.ClientError, OSError):
            async with asyncio.timeout(LINGER):
                while len(body) < MOST_ERROR_BYTES and (chunk := await response.content.readany()):
                    body += chunk
        headers = {name.lower(): value for name, value in response.headers.items()}
        return classify_http(response.status, headers, body[:MOST_ERROR_BYTES], self.profile.name, time.time())

    # ── the words ────────────────────────────────────────────────────────────────────────────────────────

    def _late(self, error: TimeoutError, watch: _Watch | None, limits: Deadlines) -> Fault:
        host = self._host()
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            words = f"no connection to {host} within {limits.connect:g} s"
        elif watch is None or not watch.quiet.expired():
            words = f"the answer of {host} was not complete after {limits.total:g} s"
        elif watch.first_byte is None:
            words = f"{host} took the request and said nothing for {limits.first_byte:g} s"
        else:
            words = f"the stream of {host} stopped: nothing for {limits.silence:g} s"
        return Fault("transient", "timeout", words)

    def _host(self) -> str:
        return urlsplit(self.profile.base_url).netloc

    def _clean(self, fault: Fault) -> Fault:
        """The same fault, without the key should a provider have quoted it. "EMPTY" and the like are no secrets."""
        if not self.key or len(self.key) < SHORTEST_KEY or self.key not in fault.message:
            return fault
        return replace(fault, message=fault.message.replace(self.key, "***"))


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read what little may follow the end mark, so that the connection can be used again."""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(LINGER):
            for _ in range(8):
                if not await response.content.readany():
                    return


def _proxy(url: str) -> str | None:
    """The proxy the environment names for this address, as every other client would use it."""
    proxies = getproxies()
    parts = urlsplit(url)
    found = proxies.get(parts.scheme) or proxies.get("all")
    host = parts.hostname or ""
    return None if not found or is_loopback(host) or proxy_bypass(host) else found
