"""What the model sees: the neutral history, as a fold over the log.

The prompt is never stored. It is rebuilt from facts, message by message, so that a live run, a resumed run and a
recorded one see the same. A message never changes once a model has seen it; until then a note of the runtime may
still be laid beside the results it belongs to (never between a call and its result: providers refuse that).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import orjson

from capataz.events.facts import (
    JSON,
    Call,
    EscalationAnswered,
    Event,
    MessageReceived,
    ModelReplied,
    Opaque,
    RunStarted,
    ToolFinished,
    ToolRefused,
    VerdictGiven,
)

NOTE_MARK = "[note from the runtime]"


@dataclass(frozen=True, slots=True)
class Message:
    """One neutral message. `call` is the call a tool message answers; `calls` are those an assistant asked for."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    calls: tuple[Call, ...] = ()
    call: Call | None = None
    error: bool = False
    thinking: str = ""
    opaque: Opaque | None = None
    image: str | None = None
    """A `data:` URL that belongs to a tool result or a user message."""


def shown(result: JSON) -> str:
    """A tool's result as the model reads it: text as it is, anything else as JSON."""
    return result if isinstance(result, str) else orjson.dumps(result).decode()


@dataclass(slots=True)
class Transcript:
    """The messages so far. `fold` takes the events of one run in order."""

    messages: list[Message] = field(default_factory=list[Message])
    _open: dict[int, Message | None] = field(default_factory=dict[int, "Message | None"])
    _seen: int = 0
    """Messages a model has seen: they are never touched again."""

    def fold(self, event: Event) -> None:
        match event.fact:
            case RunStarted(task=task):
                self.messages.append(Message("user", task))
            case ModelReplied(text=text, calls=calls, thinking=thinking, opaque=opaque):
                self._close()
                self.messages.append(Message("assistant", text, calls, thinking=thinking, opaque=opaque))
                self._open = {call.position: None for call in calls}
                self._seen = len(self.messages)
            case ToolFinished(call=call, result=result, error=error):
                self._answer(call, shown(result), error)
            case ToolRefused(call=call, message=message):
                self._answer(call, shown({"error": message}), True)
            case MessageReceived(role=role, text=text):
                self._close()
                self.messages.append(Message("user", text if role == "user" else f"{NOTE_MARK} {text}"))
            case EscalationAnswered(action="answer", text=text, by=by):
                self._close()
                self.messages.append(Message("user", f"[from {by}] {text}"))
            case VerdictGiven(note=note) if note:
                self._note(note)
            case _:
                pass

    def _answer(self, call: Call, text: str, error: bool) -> None:
        if call.position not in self._open:
            return
        self._open[call.position] = Message("tool", text, call=call, error=error)
        if all(self._open.values()):
            self._close()

    def _close(self) -> None:
        """Results fold by position, whatever the order in which parallel calls ended."""
        self.messages.extend(message for _, message in sorted(self._open.items()) if message is not None)
        self._open = {}

    def _note(self, note: str) -> None:
        self._close()
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role in ("tool", "user") and len(self.messages) > self._seen:
            self.messages[-1] = replace(last, text=f"{last.text}\n\n{NOTE_MARK} {note}")
        else:
            self.messages.append(Message("user", f"{NOTE_MARK} {note}"))
