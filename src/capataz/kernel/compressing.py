"""When the history has to be made shorter, and what happens when that fails.

Never two compressions in a row without new text between them; a compression that fails leaves everything as it was;
if the history is still too long, the oldest results become stubs; and if even that is not enough, the run ends with
what it has. The last messages are never touched.
"""

from __future__ import annotations

from collections.abc import Sequence

from capataz.events.facts import ResultsShortened
from capataz.kernel.closing import end
from capataz.kernel.commands import Command, Compress, Record
from capataz.kernel.state import State
from capataz.memory.compress import STUB_KEEPS, cut_point, plan
from capataz.memory.message import Message

TRIGGER = 0.75
"""Share of the window from which on the history is compressed."""
FULL = 0.95
"""Share of the window beyond which a request is not worth sending."""
LEAST_NEW = 0.1
"""Share of the window that has to be new since the last compression before there is another."""
REMEMBERED = 0.25
"""Share of the window that messages of earlier runs of a conversation may fill before they are compressed."""
REMEMBERED_MOST = 8_000
"""Tokens of them, whatever the window: every run pays for them, and puts them together anew."""
REMEMBERED_MESSAGES = 150
"""How many of them: encoding each takes some five microseconds, and the first turn of a run encodes them all."""
AT_ONCE = 0.5
"""Share of the window that one summary may be asked of."""
ASSUMED_WINDOW = 32_000
"""Tokens, for that share alone, where the window is not known: a conversation has no end by itself."""


def make_room(state: State) -> tuple[Command, ...]:
    """What makes the history shorter before the next call; nothing when it fits, or when its size is not known."""
    window = state.started.window
    if commands := _remember_less(state, window or ASSUMED_WINDOW):
        return commands
    full = state.prompt.refused
    if window is None and not full:
        return ()
    size = state.prompt.tokens
    if not full and window is not None and size < TRIGGER * window:
        return ()
    if commands := _compress(state, window):
        return commands
    too_long = full or (window is not None and size >= FULL * window)
    if not too_long:
        return ()
    return _shorten(state) or (end(state, "partial", "context-full", "the history does not fit into the window"),)


def _remember_less(state: State, window: int) -> tuple[Command, ...]:
    """A long conversation is compressed when a run begins, before it costs a call; its last messages stay."""
    transcript = state.transcript
    if state.turn.number or state.prompt.tried or not transcript.said:
        return ()
    remembered = transcript.remembered
    size = sum(_size(message) for message in remembered)
    if size < min(REMEMBERED * window, REMEMBERED_MOST) and len(remembered) < REMEMBERED_MESSAGES:
        return ()
    old = remembered[: cut_point(transcript.messages, state.started.keep_last) - transcript.head]
    cut = transcript.head + _fitting(old, AT_ONCE * window)
    covered = transcript.coverable(cut)
    if not covered:
        return ()
    return (Compress(plan(covered, transcript.position(cut), transcript.summary), state.turn.number),)


def _fitting(messages: Sequence[Message], room: float) -> int:
    """How many of these, from the first, one summary can be asked of; at least one."""
    for count, message in enumerate(messages):
        room -= _size(message)
        if room < 0:
            return max(1, count)
    return len(messages)


def _compress(state: State, window: int | None) -> tuple[Command, ...]:
    transcript = state.transcript
    cut = cut_point(transcript.messages, state.started.keep_last)
    upto = transcript.position(cut)
    covered = transcript.coverable(cut)
    # What a summary was asked for in vain is not new: it is tried again together with what is.
    tried = max(transcript.head, transcript.head + state.prompt.tried - transcript.gone)
    new = sum(_size(message) for message in transcript.messages[tried:cut])
    least = LEAST_NEW * window if window is not None else 1
    if not covered or upto <= state.prompt.tried or new < least:
        return ()
    return (Compress(plan(covered, upto, transcript.summary), state.turn.number),)


def _shorten(state: State) -> tuple[Command, ...]:
    transcript = state.transcript
    cut = cut_point(transcript.messages, state.started.keep_last)
    old = transcript.messages[transcript.head : cut]
    if not any(message.role == "tool" and len(message.text) > STUB_KEEPS * 2 for message in old):
        return ()
    return (Record(ResultsShortened(transcript.position(cut), state.turn.number)),)


def _size(message: Message) -> int:
    """Tokens of a message, with the arguments of its calls: characters divided by four."""
    return (len(message.text) + sum(len(str(call.arguments)) for call in message.calls)) // 4
