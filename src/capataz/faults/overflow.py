"""Did the history not fit, or only the room asked for the answer? Two refusals that look alike and need opposite help.

Compressing the history cannot mend an output reserve that was too large, and asking for less output cannot mend a
history that is too long. The figures in the refusal tell them apart. Pure: text in, figures out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FLOOR = 256
"""Tokens of answer below which asking again makes no sense."""

_N = r"(\d[\d,._]*\d|\d)"
_INPUT = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_N}\s+(?:tokens\s+)?(?:in|from|of) (?:the |your )?(?:messages|prompt|input|text input)",
        rf"(?:prompt|request|input|messages?)\s+(?:contains?|has|have|resulted in|is|was|of)\s+(?:at least\s+)?{_N}"
        r"\s+(?:input |prompt )?tokens",
        rf"{_N}\s+(?:input|prompt)\s+tokens",
        rf"prompt is too long:?\s*{_N}",
        rf"input token count(?: is)?\s*\(?{_N}\)?",
        rf"exceed context limit:\s*{_N}\s*\+",
        rf"input {_N},",
        rf"n_prompt_tokens\D{{0,4}}{_N}",
        rf"request \({_N} tokens\)",
    )
)
_OUTPUT = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_N}\s+(?:tokens\s+)?(?:in|for) the (?:completion|output|response)",
        rf"requested\s+(?:at least\s+)?{_N}\s+(?:output|completion)\s+tokens",
        rf"exceed context limit:\s*\d[\d,]*\s*\+\s*{_N}",
        rf"(?:max_tokens|max_completion_tokens|max_output_tokens)['`\"]*\s*(?:is too large)?\s*[:=(]\s*{_N}",
        rf"output {_N},",
    )
)
_WINDOW = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"exceed context limit:\s*\d[\d,]*\s*\+\s*\d[\d,]*\s*>\s*{_N}",
        rf"(?:maximum )?context (?:length|window|size|limit)\s*(?:is|of|:|\()\s*{_N}",
        rf"model with {_N} maximum context",
        rf"tokens?\s*>\s*{_N}\s*(?:tokens?\s*)?maximum",
        rf"maximum (?:number )?of (?:input )?tokens allowed\s*\(?{_N}",
        rf"window {_N}",
        rf"n_ctx\D{{0,4}}{_N}",
        rf"maximum allowed (?:input )?length\D{{0,6}}{_N}",
    )
)
_LIMIT = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"max_(?:output_|completion_)?tokens['`\"]*:?\s*\d[\d,]*\s*>\s*{_N}",
        rf"supports at most\s+{_N}\s+(?:completion|output)",
        rf"(?:less than or equal to|must be (?:at most|<=?))\s+`?{_N}`?",
        rf"maximum (?:allowed )?number of output tokens\D{{0,20}}{_N}",
        rf"output limit {_N}",
        rf"\[1,\s*{_N}\]",
    )
)
_ABOUT = re.compile(
    r"context|too long|token count|too large|max_(?:output_|completion_)?tokens|maximum .{0,20}tokens|output tokens"
    r"|input is too long|reduce the length|output reserve",
    re.IGNORECASE,
)
_ABOUT_CAP = re.compile(r"max_(?:output_|completion_)?tokens|output tokens|completion tokens", re.IGNORECASE)
_ABOUT_LENGTH = re.compile(
    r"context (?:length|window|size|limit)|prompt (?:is |was )?too long|input (?:is|was) too long|exceeds the context"
    r"|input token count|too large for model|reduce the length|too many (?:input )?tokens|maximum context"
    r"|input length|longer than the model|exceeds? .{0,30}(?:maximum|max).{0,20}(?:length|tokens)|n_ctx"
    r"|exceeded model token limit|available context",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """The figures of a refusal, in tokens, as far as it named them."""

    input: int | None = None
    output: int | None = None
    window: int | None = None
    limit: int | None = None
    """The largest output this model gives at all."""

    @property
    def reserve(self) -> bool:
        """Only the room for the answer was too large: a smaller output cap would do."""
        if self.limit is not None and self.output is not None and self.output > self.limit:
            return True
        if self.input is None or self.output is None:
            return False
        return self.window is None or self.input + FLOOR <= self.window

    def room(self, window: int | None = None, margin: int = 64) -> int | None:
        """The output cap that would fit, with a margin; None when the figures do not say. May be below `FLOOR`."""
        if self.limit is not None and (self.input is None or self.window is None):
            return self.limit
        size = self.window or window
        if size is None or self.input is None:
            return None
        room = max(0, size - self.input - margin)
        return room if self.limit is None else min(room, self.limit)

    def words(self) -> str:
        """The figures in the form `read_overflow` reads back."""
        named = (("input", self.input), ("output", self.output), ("window", self.window), ("output limit", self.limit))
        return ", ".join(f"{name} {value}" for name, value in named if value is not None) + ","


def read_overflow(text: str) -> Overflow | None:
    """The figures in a refusal for length (or in the message of a fault made from one); None when it is about
    something else.

    >>> read_overflow("requested 16384 output tokens and your prompt contains 16385 input tokens").reserve
    True
    """
    if not _ABOUT.search(text):
        return None
    found = Overflow(*(_first(patterns, text) for patterns in (_INPUT, _OUTPUT, _WINDOW, _LIMIT)))
    if found == Overflow():
        return found if _ABOUT_LENGTH.search(text) else None
    about_cap = found.limit is not None and found.output is not None and _ABOUT_CAP.search(text) is not None
    return found if about_cap or found.reserve or _ABOUT_LENGTH.search(text) or "output reserve" in text else None


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        match = pattern.search(text)
        if match:
            digits = re.sub(r"\D", "", match[1])
            return int(digits) if len(digits) < 12 else None
    return None
