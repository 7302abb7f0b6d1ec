"""What we allow: one value that holds every number the kernel decides by.

A policy is data, readable as a whole, as Python or as one file; it never acts. Its digest is pinned in the log when a
run starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import orjson

from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.policy.breaker import DEFAULT_BREAKER, BreakerRule
from capataz.policy.table import DEFAULT_FAULTS, FaultTable

Mode = Literal["enforce", "observe", "off"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The fault table, the breakers, the modes and thresholds of the guards, and how patient the kernel is.

    >>> Policy(modes={"searching": "observe"}).mode("searching")
    'observe'
    """

    faults: FaultTable = DEFAULT_FAULTS
    modes: Mapping[str, Mode] = field(default_factory=dict[str, Mode])
    """Per guard; a guard that is not named here is enforced."""
    claims: int = 2
    """How often an empty claim (or a turn that only talks) goes back to the model before the run ends."""
    closing_tokens: int = 512
    """Largest output of the closing call: held back from the token ceiling from the start."""
    closing_seconds: float = 20.0
    """Time held back for the closing call from the ceiling of seconds (at most a quarter of it)."""
    least_output: int = 64
    """A model call that could not say this many tokens is not worth making."""
    long_wait: float = 60.0
    """Seconds above which a wait gives the run's slot back, where a queue drives the run."""
    thresholds: Thresholds = DEFAULTS
    """The numbers of the guards."""
    breaker: BreakerRule = DEFAULT_BREAKER
    """When a provider, or a tool, that fails in a burst is left alone."""
    provider_breakers: Mapping[str, BreakerRule] = field(default_factory=dict[str, BreakerRule])
    tool_breakers: Mapping[str, BreakerRule] = field(default_factory=dict[str, BreakerRule])

    def mode(self, guard: str) -> Mode:
        return self.modes.get(guard, "enforce")

    def breaker_of(self, *, provider: str = "", tool: str = "") -> BreakerRule:
        """The numbers of one provider's breaker, or of one tool's."""
        own = self.tool_breakers.get(tool) if tool else self.provider_breakers.get(provider)
        return own or self.breaker

    @property
    def digest(self) -> str:
        """Twelve hex digits that differ when anything in the policy differs."""
        from capataz.policy.file import plain

        return hashlib.sha256(orjson.dumps(plain(self), option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]

    @classmethod
    def from_toml(cls, text: str, where: str = "policy") -> Policy:
        """The policy of a file's text. `PolicyMisuse` says what is wrong, where (`where` is the file's name) and how
        to mend it. What the file does not say has its default.
        """
        from capataz.policy.file import read

        return read(text, where)

    def to_toml(self) -> str:
        """The whole policy as the text of a file, every number written out; `from_toml` gives it back."""
        from capataz.policy.file import write

        return write(self)
