"""Making a long history short without making the agent vague.

The last messages are never touched. Before them, what was said goes into a summary written from the one before (each
message once), and what was done becomes one-line receipts rendered from the log; no tool result ever enters a summary,
and a call is never parted from its results. Text is measured as characters divided by four; there is no tokenizer.
This module only plans and renders: who asks the model, and when, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capataz.memory.message import NOTE_MARK, Message

STUB = "[result shortened: {size} characters; use the tool again if you need them]"
STUB_KEEPS = 200
"""Results up to this many characters are not worth shortening."""
SUMMARY_SHARE = 8
"""A summary may fill at most one part in this many of the window."""

INSTRUCTIONS = (
    "You keep the memory of an agent at work. Rewrite the summary below so that it also holds the new messages: what "
    "was asked, decided, promised and learned, with names, numbers and ids; what is still open. Plain text, no more "
    "than {words} words, no preamble."
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one compression covers: the text the summariser is given, and the position it will then hold up to."""

    upto: int
    text: str


def estimate(text: str) -> int:
    """Tokens, as characters divided by four."""
    return (len(text) + 3) // 4


def cut_point(messages: Sequence[Message], keep_last: int) -> int:
    """Where the part that is never compressed begins; moved back so that no result is parted from its call."""
    cut = max(0, len(messages) - keep_last)
    while 0 < cut < len(messages) and messages[cut].role == "tool":
        cut -= 1
    return cut


def plan(covered: Sequence[Message], upto: int, summary: str) -> Plan:
    """The compression of these messages. Results of tools are left out: what was done is kept as receipts."""
    said = [
        f"{message.role}: {message.text.strip()}"
        for message in covered
        if message.role in ("user", "assistant") and message.text.strip()
    ]
    text = f"Summary so far:\n{summary or '(none)'}\n\nNew messages:\n" + ("\n\n".join(said) or "(nothing was said)")
    return Plan(upto, text)


def problem(summary: str, window: int | None, stop: str) -> str:
    """Why a summary cannot be used; empty when it can."""
    if not summary.strip():
        return "the summary was empty"
    if stop not in ("stop", "calls"):
        return f"the summary was not finished ({stop})"
    if window is not None and estimate(summary) > window // SUMMARY_SHARE:
        return f"the summary is longer than one part in {SUMMARY_SHARE} of the window"
    return ""


def receipts(messages: Sequence[Message], effects: dict[tuple[int, int], str]) -> list[str]:
    """One line for each call that is leaving the history: tool, target, how it ended."""
    lines: list[str] = []
    for message in messages:
        if message.role != "tool" or message.call is None:
            continue
        call = message.call
        what = call.tool if call.target is None else f"{call.tool}({call.target})"
        state = effects.get((call.turn, call.position)) or ("error" if message.error else "ok")
        lines.append(f"turn {call.turn}: {what} {state}")
    return lines


def stubbed(message: Message) -> Message:
    """A tool message with a marked stub in place of a long result; any other message as it is."""
    if message.role != "tool" or len(message.text) <= STUB_KEEPS:
        return message
    note = message.text.rfind(f"\n\n{NOTE_MARK}")
    kept = message.text[note:] if note >= 0 else ""
    return Message(
        "tool", STUB.format(size=len(message.text) - len(kept)) + kept, call=message.call, error=message.error
    )
