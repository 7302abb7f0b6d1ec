"""From a policy to the guards that run under it: their numbers, and which of them look at all.

The numbers themselves are `capataz.guards.limits.Thresholds`, set per class and per tool in the policy file. A guard
that is switched off is not fed; one that only observes is fed like any other, and its signals are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capataz.guards.base import Guard
from capataz.guards.catalogue import default_guards
from capataz.guards.limits import DEFAULTS, Limit, Thresholds, ToolLimits
from capataz.policy.policy import Policy

__all__ = ["DEFAULTS", "Limit", "Thresholds", "ToolLimits", "enabled_guards"]


def enabled_guards(policy: Policy, tools: Mapping[str, ToolLimits] | None = None) -> tuple[Guard[Any], ...]:
    """The built-in guards this policy wants fed. `tools` are limits that tools declare; the policy's own win.

    >>> len(enabled_guards(Policy())) - len(enabled_guards(Policy(modes={"spending": "off"})))
    1
    """
    return tuple(
        guard for guard in default_guards(policy.thresholds.with_tools(tools or {})) if policy.mode(guard.name) != "off"
    )
