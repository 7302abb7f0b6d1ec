"""How a run ended that its own runtime says ended well: its word, and beside it what was seen to go wrong on the way.

The outcome stays "answered", since nobody here has checked an effect; its reason and its words say what speaks against
it, so that no list shows such a run as one that went well. It must never say more than the record does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from capataz.events.facts import Fact, ModelCallFailed, ModelReplied, RunEnded, ToolFinished, VerdictGiven
from capataz.lens.words import counted

WELL = "its own runtime ended it"
NOT_CHECKED = "whether it did what it says was not checked"
_PROMISES = ("write", "message")
"""Classes of tools whose failure leaves something undone; a command that fails is a finding."""


@dataclass(slots=True)
class Troubles:
    """What went wrong in one run. `agents` are those inside it whose own spans say that they failed."""

    agents: int = 0
    _acts: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Writes and messages that failed, and how often; one that lands on the same target later makes them good."""
    _notes: dict[str, None] = field(default_factory=dict[str, None])
    _unanswered: bool = False

    def take(self, fact: Fact) -> None:
        """The facts in order, the notes of the guards among them."""
        match fact:
            case ToolFinished(call=call, error=error) if call.kind in _PROMISES:
                act = (call.tool, "") if call.target is None else ("", call.target)
                if error:
                    self._acts[act] = self._acts.get(act, 0) + 1
                else:
                    self._acts.pop(act, None)
            case VerdictGiven(guard=guard, kind=kind):
                self._notes[f"{guard} ({kind})"] = None
            case ModelCallFailed() | ModelReplied():
                self._unanswered = isinstance(fact, ModelCallFailed)
            case _:
                pass

    def weigh(self, ended: RunEnded) -> RunEnded:
        """An end that its runtime calls good, with what speaks against it; every other as it is."""
        if ended.outcome != "answered":
            return ended
        failed = sum(self._acts.values())
        told = [
            f"{counted(failed, 'act')} failed" if failed else "",
            f"{counted(self.agents, 'agent')} in it failed" if self.agents else "",
            "its last model call failed" if self._unanswered else "",
            f"guards noted: {', '.join(self._notes)}" if self._notes else "",
        ]
        against = "; ".join(filter(None, told))
        if not against:
            return replace(ended, detail=f"{WELL}; {NOT_CHECKED}")
        reason = "acts-failed" if failed else "noted"
        return replace(ended, reason=reason, detail=f"{WELL}, but {against}; {NOT_CHECKED}")
