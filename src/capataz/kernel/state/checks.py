"""What the `done_when` checks have said: each one's newest answer, and where it is recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from capataz.events.facts import CheckEvaluated, Evidence


@dataclass(slots=True)
class Checks:
    said: dict[str, CheckEvaluated] = field(default_factory=dict[str, CheckEvaluated])
    seqs: dict[str, int] = field(default_factory=dict[str, int])

    def evaluate(self, check: CheckEvaluated, seq: int) -> None:
        self.said[check.name], self.seqs[check.name] = check, seq

    def passed(self, name: str) -> bool:
        return name in self.said and self.said[name].passed

    def asked(self, names: Iterable[str]) -> int:
        """Where the one of these that was not asked for longest was asked; -1 where one never was."""
        return min(self.seqs.get(name, -1) for name in names)

    def lacking(self, name: str) -> str:
        """The check that has not passed, with its reason where it gave one."""
        detail = self.said[name].detail if name in self.said else ""
        return f"{name}: {detail}" if detail else name

    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(
            Evidence("check", check.name, check.detail or "passed", self.seqs[check.name])
            for check in self.said.values()
            if check.passed
        )
