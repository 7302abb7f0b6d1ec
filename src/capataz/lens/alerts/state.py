"""When somebody is told: once when an alert begins, again after its cooldown while it lasts, once when it is over.

An alert is not over because its value slipped under the limit, but when it is clearly below, or when its rule reads ok
with a value of another kind; missing data ends nothing. The states are plain values, kept by whoever evaluates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from capataz.events.facts import JSON
from capataz.lens.alerts.evaluate import Reading, Standing

Kind = Literal["fired", "still", "resolved", "test"]


@dataclass(frozen=True, slots=True)
class AlertState:
    """What is remembered of one rule. Times in seconds since the epoch."""

    firing: bool = False
    since: float = 0.0
    told: float = -1e18
    """When somebody was last told that it fires."""
    standing: Standing = "no data"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell a person."""

    kind: Kind
    reading: Reading
    at: float
    since: float = 0.0

    @property
    def id(self) -> str:
        """The same for the same notice, however often it is sent."""
        return f"alert:{self.reading.rule.name}:{self.kind}:{self.at:.0f}"

    @property
    def subject(self) -> str:
        mark = "[test] " if self.kind == "test" else ""
        verb = {"fired": "ALERT", "still": "STILL", "resolved": "RESOLVED", "test": "ALERT"}[self.kind]
        return f"{mark}{verb} {self.reading.rule.name} ({self.reading.rule.severity})"

    def json(self, link: str = "") -> dict[str, JSON]:
        """The message of a webhook. `link` is what the id of a run is added to, to look at it."""
        links: list[JSON] = [f"{link}{run}" for run in self.reading.runs] if link else []
        told: dict[str, JSON] = {
            "id": self.id,
            "event": f"alert.{self.kind}",
            "since": self.since,
            "test": self.kind == "test",
        }
        return {**told, **self.reading.json(), "links": links}

    def text(self, link: str = "") -> str:
        """The same for a person: a subject, an empty line, a body. Ready to be sent as a mail."""
        reading = self.reading
        lines = [self.subject, ""]
        if self.kind == "test":
            lines += ["This is a test with made-up data. Nothing has happened.", ""]
        lines.append(f"{reading.words}.")
        lines += [f"{note}." for note in reading.notes]
        if reading.runs:
            lines += ["", "Runs that contribute most:"]
            lines += [f"  {link}{run}" if link else f"  capataz show {run}" for run in reading.runs]
        return "\n".join(lines) + "\n"


def advance(
    states: Mapping[str, AlertState], readings: Sequence[Reading], now: float
) -> tuple[dict[str, AlertState], list[Notice]]:
    """The states after these readings, and what is to be told. Rules that are gone are forgotten."""
    after: dict[str, AlertState] = {}
    notices: list[Notice] = []
    for reading in readings:
        before = states.get(reading.rule.name, AlertState())
        state, notice = _step(before, reading, now)
        after[reading.rule.name] = state
        if notice is not None:
            notices.append(notice)
    return after, notices


def _step(before: AlertState, reading: Reading, now: float) -> tuple[AlertState, Notice | None]:
    rested = now - before.told >= reading.rule.cooldown
    if reading.standing == "firing":
        since = before.since if before.firing else now
        if not rested:
            return AlertState(True, since, before.told, "firing"), None
        kind: Kind = "still" if before.firing else "fired"
        return AlertState(True, since, now, "firing"), Notice(kind, reading, now, since)
    if before.firing and reading.standing == "ok" and _clear(reading):
        return AlertState(False, now, before.told, "ok"), Notice("resolved", reading, now, before.since)
    return AlertState(before.firing, before.since, before.told, reading.standing), None


def _clear(reading: Reading) -> bool:
    """Whether the value is clearly on the good side of the limit."""
    rule, value = reading.rule, reading.value
    if value is None:
        return True
    if rule.what.judged == "tail":
        return value < rule.what.tail * rule.clear
    if rule.under is not None:
        return value > min(rule.under / rule.clear if rule.clear else rule.under, (1 + rule.under) / 2)
    if rule.rises is not None:
        return value < rule.rises / 2 * rule.clear
    return rule.times is not None or value < rule.limit * rule.clear


# ── kept between two looks ───────────────────────────────────────────────────────────────────────────────


def states_json(states: Mapping[str, AlertState]) -> dict[str, JSON]:
    return {
        name: {"firing": state.firing, "since": state.since, "told": state.told, "standing": state.standing}
        for name, state in states.items()
    }


def states_from(value: Any) -> dict[str, AlertState]:
    """The states of a JSON value; what is not one is left out, which can only mean to be told once more."""
    found: dict[str, AlertState] = {}
    if not isinstance(value, dict):
        return found
    for name, kept in cast("dict[str, Any]", value).items():
        try:
            standing = kept["standing"]
            found[name] = AlertState(bool(kept["firing"]), float(kept["since"]), float(kept["told"]), standing)
        except (KeyError, TypeError, ValueError):
            continue
    return found
