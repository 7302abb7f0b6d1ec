"""How long the next prompt is, told from the last one a provider counted and from what has come since.

Two figures, since two questions are asked of them: an upper bound, which no ceiling may be passed by, and the likely
size, which says whether the history still fits into the model's window.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from capataz.events.facts import ModelReplied
from capataz.memory.message import Message

MESSAGE_BYTES = 64
"""What a message costs on the wire beside its text, at most."""


@dataclass(slots=True)
class Prompt:
    overhead: int = 0
    """Bytes of instructions and tool declarations."""
    bound: int = 0
    """Tokens it can be at most: the last reported usage, and the bytes added since."""
    tokens: int = 0
    """Tokens it is likely to be: the last reported usage, and characters divided by four since."""
    refused: bool = False
    """The provider refused the history as too long, and nothing was done about it yet."""
    retried: bool = False
    """A refused history was made shorter in this turn already."""
    tried: int = 0
    """Position up to which a compression was tried last, whether it worked or not."""

    def begin(self, overhead: int, task: str) -> None:
        self.overhead = overhead
        self.bound = overhead + _size(task) + MESSAGE_BYTES
        self.tokens = (overhead + len(task)) // 4

    def add(self, text: str, messages: int = 1) -> None:
        """This text is shown to the model next time, in so many messages' worth of wrapping."""
        self.bound += _size(text) + messages * MESSAGE_BYTES
        self.tokens += len(text) // 4

    def reply(self, reply: ModelReplied) -> None:
        """A reply becomes part of the history; that of the loop says how long the history is, where it is counted."""
        usage = reply.usage
        self.retried = self.retried and reply.purpose != "loop"
        if reply.purpose == "loop" and usage.reported and usage.input > 0:
            self.bound, self.tokens = usage.tokens + MESSAGE_BYTES, usage.tokens
        elif reply.purpose in ("loop", "closing"):  # a summary or a judgement is no part of the history
            said = _size(reply.text) + sum(len(str(call.arguments)) + MESSAGE_BYTES for call in reply.calls)
            self.bound += said + MESSAGE_BYTES
            self.tokens += said // 4

    def measure(self, messages: Iterable[Message]) -> None:
        """The history was made shorter: its size is estimated anew, from all its characters and bytes."""
        texts = [message.text + "".join(str(call.arguments) for call in message.calls) for message in messages]
        self.tokens = (self.overhead + sum(len(text) for text in texts)) // 4
        self.bound = self.overhead + sum(_size(text) + MESSAGE_BYTES for text in texts)
        self.refused = False


def _size(text: str) -> int:
    """Bytes of a text on the wire, whatever it holds."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
