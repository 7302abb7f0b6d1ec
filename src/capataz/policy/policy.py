"""What we allow: one value that holds every number the kernel decides by.

A policy is data, readable as a whole; it never acts. Its digest is pinned in the log when a run starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from capataz.policy.table import FaultTable

Mode = Literal["enforce", "observe", "off"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The fault table, the modes of the guards, and how patient the kernel is.

    >>> Policy(modes={"searching": "observe"}).mode("searching")
    'observe'
    """

    faults: FaultTable = field(default_factory=FaultTable)
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

    def mode(self, guard: str) -> Mode:
        return self.modes.get(guard, "enforce")

    @property
    def digest(self) -> str:
        """Twelve hex digits that differ when anything in the policy differs."""
        shown = repr((sorted(self.faults.rules.items()), sorted(self.modes.items()), self.claims, self.closing_tokens))
        return hashlib.sha256(shown.encode()).hexdigest()[:12]
