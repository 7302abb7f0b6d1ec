"""Telling a person's system that a run waits: one signed POST when a run escalates, off unless an address is given.

It never holds a run up and never decides anything: it is sent beside the run, a bounded number of times, and what
comes back is not read. What is sent is masked. The answer is given through the inbox, not through the hook.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson

from capataz.events.facts import JSON
from capataz.faults.lasting import Lasting
from capataz.mistakes import Misuse
from capataz.ports import Clock
from capataz.runtime.privacy import environment_secrets

if TYPE_CHECKING:
    from capataz.privacy.mask import Mask

TIMESTAMP = "x-capataz-timestamp"
SIGNATURE = "x-capataz-signature"
TRIES = 3
FIRST_WAIT = 1.0
"""Seconds before the second try; four times as many before each further one."""
ONE_TRY = 10.0
"""Seconds one try may take."""
DRAIN = 15.0
"""Seconds that closing the App waits for what is still on its way."""
TOLERANCE = 300.0

_log = logging.getLogger("capataz.webhook")


def signed(secret: str, timestamp: str, body: bytes) -> str:
    """The signature of a body: HMAC-SHA256 over the timestamp, a dot and the body, in hex, behind its version."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def verify(secret: str, body: bytes, headers: Mapping[str, str], now: float, *, tolerance: float = TOLERANCE) -> bool:
    """For the receiving side: whether this body was sent by us, not longer than `tolerance` seconds ago.

    `headers` with names in lower case; `now` in seconds since the epoch.
    """
    timestamp, signature = headers.get(TIMESTAMP, ""), headers.get(SIGNATURE, "")
    if not timestamp.isdecimal() or abs(now - int(timestamp)) > tolerance:
        return False
    return hmac.compare_digest(signed(secret, timestamp, body).encode(), signature.encode())


@dataclass(eq=False)
class Webhook:
    """Posts to one address. `secret` signs; it is never sent. Raises `Misuse` for an address that is none."""

    url: str
    secret: str = field(repr=False)
    clock: Clock
    mask: Mask | None = field(default=None, repr=False)
    """What is taken out of what is sent; without one, the default mask."""
    failed: int = 0
    """How many messages were given up."""
    _troubles: Lasting = field(default_factory=lambda: Lasting(_log.warning, time.monotonic), repr=False)
    _sending: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]], repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misuse(f"webhook {self.url!r}: it has to begin with https:// or http://, and name a host")
        if not self.secret:
            raise Misuse("a webhook has to be signed: set CAPATAZ_WEBHOOK_SECRET to a secret both sides know")

    def tell(self, message: Mapping[str, JSON]) -> None:
        """Begin to send and return at once."""
        task = asyncio.get_running_loop().create_task(self._send(dict(message)))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def drain(self) -> None:
        """Wait for what is on its way, but not for ever."""
        if not self._sending:
            return
        _, late = await asyncio.wait(set(self._sending), timeout=DRAIN)
        for task in late:
            task.cancel()
            self.failed += 1

    async def _send(self, message: dict[str, JSON]) -> None:
        body = await asyncio.to_thread(_masked, message, self.mask)
        # The host alone: the rest of an address may be a secret.
        untold = f"the webhook at {urlsplit(self.url).hostname} does not take what it is told"
        wait = FIRST_WAIT
        for left in range(TRIES - 1, -1, -1):
            problem, final = await self._try(body)
            if not problem:
                self._troubles.over(untold)
                return
            if final or not left:
                self.failed += 1
                self._troubles.failed(untold, problem)
                return
            await self.clock.sleep(wait)
            wait *= 4

    async def _try(self, body: bytes) -> tuple[str, bool]:
        """(what went wrong or nothing, whether trying again makes no sense)."""
        import aiohttp

        timestamp = str(int(self.clock.now()))
        headers = {
            "content-type": "application/json",
            "user-agent": "capataz",
            TIMESTAMP: timestamp,
            SIGNATURE: signed(self.secret, timestamp, body),
        }
        limits = aiohttp.ClientTimeout(total=ONE_TRY)
        try:
            async with (
                aiohttp.ClientSession(timeout=limits, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.post(self.url, data=body, headers=headers, allow_redirects=False) as response,
            ):
                status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return type(error).__name__, False
        if 200 <= status < 300:
            return "", True
        return f"status {status}", not (status >= 500 or status in (408, 425, 429))


def _masked(message: dict[str, JSON], mask: Mask | None) -> bytes:
    if mask is None:
        from capataz.privacy.mask import Mask as Default

        mask = Default(environment_secrets(os.environ))
    kept = {name: message.pop(name) for name in ("id", "event", "run", "agent", "since", "answers") if name in message}
    return orjson.dumps({**kept, **_object(mask.value(message))})


def _object(value: JSON) -> dict[str, JSON]:
    return value if isinstance(value, dict) else {}
