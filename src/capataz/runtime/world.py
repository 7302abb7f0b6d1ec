"""The real clock and the real dice. The only place where the runtime reads time or draws anything."""

from __future__ import annotations

import asyncio
import random
import secrets
import time


class RealClock:
    """Wall-clock time, which never goes backwards within one process."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RealChance:
    """Uniform fractions, and ids of 26 characters that sort by the millisecond they were made in."""

    _ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"

    def fraction(self) -> float:
        return random.random()

    def identity(self) -> str:
        number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
        return "".join(self._ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))
