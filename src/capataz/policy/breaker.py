"""The circuit breaker: what fails in a burst is left alone for a while, then tried once.

A state machine without a clock: time comes in with each question. It lives in one process and is not stored; the
log says when it opened and closed. It never decides about a run: a call it holds back is a fault like any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from capataz.mistakes import PolicyMisuse


@dataclass(frozen=True, slots=True)
class BreakerRule:
    """`failures` in a row within so many seconds open it; after `rest` seconds one call may try.

    Ten, since one run alone has at most six on one fault (one call and five retries): it takes a burst over several
    runs to open it. `failures=0` switches it off.
    """

    failures: int = 10
    within: float = 60.0
    rest: float = 30.0

    def __post_init__(self) -> None:
        failures: Any = self.failures
        if isinstance(failures, bool) or not isinstance(failures, int) or not 0 <= failures <= 10_000:
            raise PolicyMisuse(f"failures = {failures!r}: give a whole number; 0 switches the breaker off")
        for name in ("within", "rest"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 86_400:
                raise PolicyMisuse(f"{name} = {value!r}: give seconds above 0, at most a day")


DEFAULT_BREAKER = BreakerRule()


@dataclass(slots=True)
class Breaker:
    """One breaker: closed, open, or half open while one call tries.

    >>> breaker = Breaker(BreakerRule(failures=2, within=10, rest=30))
    >>> [breaker.failed(at) for at in (0, 1)], breaker.held(2), breaker.held(31), breaker.held(31)
    ([False, True], 29, None, 30)
    """

    rule: BreakerRule
    _failures: deque[float] = field(default_factory=deque[float])
    _opened: float | None = None
    _trying: float | None = None
    """When the one call of the half-open state began."""

    def held(self, now: float) -> float | None:
        """Seconds a call has to be held back; None when it may go, which is then the one that tries, if open."""
        if self._opened is None:
            return None
        left = self._opened + self.rule.rest - now
        if left > 0:
            return left
        # One call tries. Should nobody tell how it ended (its task was cancelled), another may after a rest.
        if self._trying is not None and now < self._trying + self.rule.rest:
            return self._trying + self.rule.rest - now
        self._trying = now
        return None

    def failed(self, now: float) -> bool:
        """A call failed in a way that passes. True when that has opened the breaker (again)."""
        if not self.rule.failures:
            return False
        if self._opened is not None:
            tried = self._trying is not None
            if tried:
                self._opened, self._trying = now, None
            return tried
        self._failures.append(now)
        while self._failures[0] < now - self.rule.within:
            self._failures.popleft()
        if len(self._failures) < self.rule.failures:
            return False
        self._opened = now
        self._failures.clear()
        return True

    def answered(self) -> bool:
        """A call was answered, well or not: the other side is there. True when that has closed the breaker."""
        was = self._opened is not None
        self._opened = self._trying = None
        self._failures.clear()
        return was


@dataclass(slots=True)
class Breakers:
    """The breakers of one process, by what they guard. Only what has failed lately takes memory."""

    _all: dict[Hashable, Breaker] = field(default_factory=dict[Hashable, Breaker])

    def held(self, key: Hashable, now: float) -> float | None:
        """Seconds a call has to be held back; None when it may go."""
        breaker = self._all.get(key)
        return None if breaker is None else breaker.held(now)

    def failed(self, key: Hashable, now: float, rule: BreakerRule) -> bool:
        """A call failed in a way that passes. True when that has opened the breaker."""
        breaker = self._all.get(key)
        if breaker is None:
            breaker = self._all[key] = Breaker(rule)
        breaker.rule = rule
        return breaker.failed(now)

    def answered(self, key: Hashable) -> bool:
        """A call was answered. True when that has closed the breaker."""
        breaker = self._all.pop(key, None)
        return breaker is not None and breaker.answered()
