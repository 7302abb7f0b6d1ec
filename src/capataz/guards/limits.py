"""The numbers the guards work with, as one frozen value with defaults that records of real runs explain.

Every number here can be set by a user, per class of tool and per tool. The pages in `docs/guards` say which record
each default comes from. Nothing here may decide anything: it is data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

Class = Literal["read", "search", "write", "exec", "message"]
"""Classes that have counts; polls have a time instead."""


POLL_CUT = 1.5
"""A poll is told at its budget and cut at so many times of it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """At `nudge` the model is told; at `stop` the run is ended, if the model has had a turn to hear the nudge."""

    nudge: int
    stop: int


REPEATS: Mapping[Class, Limit] = MappingProxyType(
    {
        "read": Limit(3, 5),
        "search": Limit(3, 5),
        "write": Limit(2, 4),
        "exec": Limit(2, 4),
        "message": Limit(2, 4),
    }
)


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """What is different for one tool. None leaves the number of its class as it is."""

    repeat: Limit | None = None
    poll_budget: float | None = None
    """Seconds for which it is normal that this poll brings nothing new."""
    silence: float | None = None
    """Seconds this tool may go without a sign of life."""
    free: bool = False
    """Repeating this tool is the task (samples, queues): no count applies, only the ceilings of the run."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every number of the built-in guards. Counts are calls unless said otherwise; times are seconds."""

    repeats: Mapping[Class, Limit] = field(default_factory=lambda: REPEATS)
    """The same call with the same result in a row."""
    unchanged_write: Limit = Limit(2, 3)
    """The same, for a write that itself says that nothing changed."""
    revisits: Limit = Limit(3, 5)
    """The same call with the same result, other calls between, nothing changed in the world since."""
    batch: int = 6
    """More copies than this of one call inside a single reply need no second turn to be called a loop."""
    cycle_steps: int = 5
    """A cycle is told after its second lap, or after this many repeated steps where the lap is longer."""
    stale: Limit = Limit(4, 5)
    """Calls that bring nothing new while nothing changes: repeats of any earlier call, ranges read before."""
    target: Limit = Limit(3, 5)
    """Acts on one target that leave it as it was."""
    reworded: Limit = Limit(3, 4)
    """Acts on one target that say the same in other words, the first one included."""
    same_answer: Limit = Limit(4, 6)
    """Different searches in a row with the same, not empty, answer."""
    errors: Limit = Limit(3, 4)
    """The same error in a row from the same call."""
    varied_errors: Limit = Limit(3, 5)
    """The same error in a row from calls that differ."""
    shell_errors: Limit = Limit(3, 7)
    """The same, where they are commands of a shell and the error speaks of them: trying out is how one works there."""
    missing: Limit = Limit(3, 6)
    """The same, where it says that the target is not there and every target is another: each is its own question."""
    transient: Limit = Limit(3, 4)
    """The same, for errors the provider calls passing (5xx): one call and the three retries of the fault table."""
    throttled: Limit = Limit(4, 6)
    """The same, for rate limits: one call and the five retries of the fault table."""
    empty_search: Limit = Limit(2, 4)
    """Turns in a row whose searches found nothing."""
    poll_looks: int = 12
    """Least number of unchanged looks before a poll is called dead."""
    poll_looks_blind: int = 21
    """The same before a cut where the record has no times, and so no budget can be kept."""
    poll_budget: float = 600.0
    """Seconds a poll may bring nothing new, where the tool does not say. Cut at one and a half times."""
    poll_patience: int = 6
    """Further unchanged looks after the nudge."""
    model_silence: float = 120.0
    tool_silence: float = 900.0
    own_silence: float = 300.0
    chant: int = 10
    """Times one passage is said within a single reply."""
    same_text: Limit = Limit(3, 4)
    """Replies in a row that say the same and call nothing."""
    token_rate: int = 400_000
    """Tokens within one minute."""
    handoffs: Limit = Limit(2, 3)
    """Rounds between two agents in which no effect changed."""
    tools: Mapping[str, ToolLimits] = field(default_factory=dict[str, ToolLimits])

    def limit(self, setting: str) -> Limit:
        """The limit of this name: "errors", "repeats.read" for one class of tool, "tools.NAME.repeat" for one tool.

        Of polls it is a time or a number of looks: "poll_budget" (seconds: told, cut), "poll_looks_blind",
        "tools.NAME.poll_budget". `KeyError` where there is none.

        >>> DEFAULTS.limit("repeats.write") == REPEATS["write"], DEFAULTS.limit("stale") == DEFAULTS.stale
        (True, True)
        >>> DEFAULTS.limit("poll_budget")
        Limit(nudge=600, stop=900)
        """
        name, _, kind = setting.partition(".")
        if name == "poll_looks_blind":
            return Limit(self.poll_looks, self.poll_looks_blind)
        if setting.endswith("poll_budget"):
            seconds = self.patience(kind.removesuffix(".poll_budget"))
            return Limit(round(seconds), round(POLL_CUT * seconds))
        if name == "tools":
            own = self.tool(kind.removesuffix(".repeat")).repeat
            if own is None:
                raise KeyError(setting)
            return own
        found = self.repeats.get(kind) if name == "repeats" else getattr(self, name, None)  # type: ignore[call-overload]
        if not isinstance(found, Limit):
            raise KeyError(setting)
        return found

    def with_limits(self, limits: Mapping[str, Limit]) -> Thresholds:
        """These numbers with other limits, by the names `limit` knows."""
        repeats, tools = dict(self.repeats), dict(self.tools)
        changes: dict[str, Any] = {}
        for name, limit in limits.items():
            head, _, rest = name.partition(".")
            if head == "repeats":
                repeats[rest] = limit  # type: ignore[index]
            elif head == "tools":
                tool, _, field_ = rest.rpartition(".")
                value: Any = limit if field_ == "repeat" else float(limit.nudge)
                tools[tool] = replace(tools.get(tool, NO_LIMITS), **{field_: value})
            else:
                changes[name] = _PLAIN.get(name, _itself)(limit)
        return replace(self, repeats=repeats, tools=tools, **changes)

    def tool(self, name: str) -> ToolLimits:
        return self.tools.get(name, NO_LIMITS)

    def patience(self, tool: str) -> float:
        """Seconds for which it is normal that looks of this tool bring nothing new."""
        return self.tool(tool).poll_budget or self.poll_budget

    def with_tools(self, declared: Mapping[str, ToolLimits]) -> Thresholds:
        """These numbers, plus what tools declare of themselves; what was set here for a tool wins."""
        return replace(self, tools={**declared, **self.tools}) if declared else self


def _itself(limit: Limit) -> Limit | float:
    return limit


_PLAIN: Mapping[str, Callable[[Limit], Limit | float]] = {
    "poll_budget": lambda limit: float(limit.nudge),
    "poll_looks_blind": lambda limit: limit.stop,
}
"""Settings that are written as one number."""
LIMITS: tuple[str, ...] = (
    *(f"repeats.{kind}" for kind in REPEATS),
    "unchanged_write", "revisits", "stale", "target", "reworded", "same_answer", "errors", "varied_errors",
    "shell_errors", "missing", "transient", "throttled", "empty_search", "same_text", "handoffs",
)  # fmt: skip
"""Names of all limits that count something."""
POLLS: tuple[str, ...] = ("poll_budget", "poll_looks_blind")
"""Names of the limits of polls: seconds of waiting, and looks where a record has no times."""
NO_LIMITS = ToolLimits()
DEFAULTS = Thresholds()
