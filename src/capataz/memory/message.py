"""One message, as neutral as it gets: what every dialect is given and nothing a provider would call by its own name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capataz.events.facts import JSON, Call, Opaque
from capataz.events.plain import to_json

NOTE_MARK = "[note from the runtime]"
SUMMARY_MARK = "[what happened before, in short]"
RECEIPTS_SHOWN = 40
"""Lines of past calls that stay in sight; older ones are counted."""


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
    return result if isinstance(result, str) else to_json(result).decode()
