"""Placeholders that can be undone: `<EMAIL_1>` for the first address of a conversation, and back.

The same value always gets the same placeholder, so that a model can work with it, and a tool that may know the
person gets the value. The state is a fold over the texts of one conversation in their order and is rebuilt from
them; it must never be written anywhere, so it refuses to be pickled or copied and its `repr` shows only numbers.

A text may itself hold something that looks like a placeholder. Before its number is given out such a look-alike
keeps the number from being used; after that, in a text from outside, it is disguised as a value of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NoReturn

from capataz.events.facts import JSON
from capataz.privacy.found import PERSONAL, Found, label
from capataz.privacy.plain import covered

_TEXT = "text"
"""The kind of a disguised look-alike."""

SHORTEST = 5
"""Characters a value must have to be recognised, later, where no rule would find it."""

_GAP = re.compile(r"[_ \-][1-9]")
_AROUND = 64
"""Characters a look-alike may take on either side of its number."""

_NUMBER_BEFORE = re.compile(r"(?:(\\*)\"\s{0,4}:\s{0,4}|[\[,:]\s{0,64})\Z")
_NUMBER_AFTER = re.compile(r"\s*[,}\]]")


def replaced(text: str, found: list[Found]) -> str:
    """The text with a placeholder without a number, that cannot be undone, for each thing found."""
    pieces: list[str] = []
    last = 0
    for hit in found:
        pieces.append(text[last : hit.start])
        pieces.append(_quoted(text, hit, f"<{label(hit.kind)}>"))
        last = hit.end
    pieces.append(text[last:])
    return "".join(pieces)


def _bare_number(text: str, hit: Found) -> str | None:
    """The quotation mark a placeholder needs where JSON has a bare number; None where it has none."""
    if not text[hit.start : hit.end].isdecimal() or not _NUMBER_AFTER.match(text, hit.end):
        return None
    before = _NUMBER_BEFORE.search(text, max(0, hit.start - 70), hit.start)
    if before is None or (before[1] is None and text.lstrip()[:1] not in ("[", "{")):
        return None
    return f'{before[1] or ""}"'


def _quoted(text: str, hit: Found, placeholder: str) -> str:
    mark = _bare_number(text, hit)
    return placeholder if mark is None else f"{mark}{placeholder}{mark}"


@lru_cache(maxsize=64)
def _lookalike(labels: tuple[str, ...]) -> re.Pattern[str]:
    """A placeholder as issued, or as models bring it back: other case, other or lost brackets, escaped."""
    word = "|".join(re.escape(name).replace("_", r"\\?[_\- ]") for name in labels)
    gap = r"(?:\\?_|[ \-])"
    opening = r"(?:<|&lt;|\\u003[cC]|\[|\{|«|‹|＜)"
    closing = r"(?:>|&gt;|\\u003[eE]|\]|\}|»|›|＞)"
    return re.compile(
        rf"(?P<mark>\\*\")?<(?P<exact>{word})_(?P<exactly>[1-9][0-9]{{0,8}})>(?:(?(mark)(?P<closed>\\*\")?))"
        rf"|{opening}\s?(?P<open>(?i:{word})){gap}(?P<opened>[1-9][0-9]{{0,8}})(?:\s?{closing}|(?!\w))"
        rf"|\\<(?P<marked>(?i:{word})){gap}(?P<marking>[1-9][0-9]{{0,8}})\\>"
        rf"|(?<![\w<])(?P<shut>(?i:{word})){gap}(?P<shutting>[1-9][0-9]{{0,8}})\s?{closing}"
        rf"|(?<![\w<])(?P<bare>{word})_(?P<barely>[1-9][0-9]{{0,8}})(?!\w)"
    )


@lru_cache(maxsize=64)
def _endings(labels: tuple[str, ...]) -> tuple[frozenset[str], re.Pattern[str], int]:
    """What stands before the gap and the number: the last letter, the last word, and how far that reaches."""
    lasts = [name.rpartition("_")[2] for name in labels]
    letters = frozenset("\\") | {letter for last in lasts for letter in (last[-1:], last[-1:].lower())}
    shape = re.compile(rf"(?:{'|'.join(map(re.escape, lasts))})\\?\Z", re.IGNORECASE)
    return letters, shape, max(map(len, lasts)) + 3


class Pseudonyms:
    """The placeholders of one conversation. One owner at a time; it is not meant for several threads.

    `unknown` counts placeholders that came back and were never given out: they are left as they are.
    """

    __slots__ = ("_counts", "_labels", "_reserved", "_tokens", "_values", "unknown")

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, type, str | int | float], str] = {}
        self._values: dict[tuple[str, int], str | int | float] = {}
        self._reserved: set[tuple[str, int]] = set()
        self._counts: dict[str, int] = {}
        self._labels = tuple(sorted({label(kind) for kind in (*PERSONAL, "name", _TEXT)}))
        self.unknown = 0

    def __repr__(self) -> str:
        return f"Pseudonyms({len(self._values)} known, {self.unknown} unknown)"

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> NoReturn:
        raise TypeError("the placeholders of a conversation are never exported: rebuild them from its texts")

    def token(self, kind: str, value: str | int | float) -> str:
        """The placeholder of a value: the one it has, or the next free number."""
        word = label(kind)
        known = self._tokens.get((word, type(value), value))
        if known is not None:
            return known
        if word not in self._labels:
            self._labels = tuple(sorted({*self._labels, word}))
        number = self._counts.get(word, 0) + 1
        while (word, number) in self._reserved:
            number += 1
        self._counts[word] = number
        self._values[word, number] = value
        self._tokens[word, type(value), value] = placeholder = f"<{word}_{number}>"
        return placeholder

    def cover(self, text: str, found: list[Found], one_way: frozenset[str], *, foreign: bool) -> tuple[str, bool]:
        """The text with placeholders for what was found in it, and for values known from before.

        The second part says whether there were any of those: what stood beside them may then be seen anew.
        """
        alike = self._alike(text, found, foreign)
        for hit in found:
            self._instead(text, hit, one_way)
        known = self._known(text, found, alike) if self._values else []
        pieces: list[str] = []
        last = 0
        for hit in sorted([*found, *known, *(hit for hit in alike if hit.kind)]):
            pieces.append(text[last : hit.start])
            pieces.append(self._instead(text, hit, one_way))
            last = hit.end
        pieces.append(text[last:])
        return "".join(pieces), bool(known)

    def _instead(self, text: str, hit: Found, one_way: frozenset[str]) -> str:
        if hit.kind in one_way:
            return _quoted(text, hit, f"<{label(hit.kind)}>")
        value = text[hit.start : hit.end]
        mark = _bare_number(text, hit)
        if mark is None or str(int(value)) != value:
            return self.token(hit.kind, value)
        return f"{mark}{self.token(hit.kind, int(value))}{mark}"

    def _alike(self, text: str, found: list[Found], foreign: bool) -> list[Found]:
        """Look-alikes, with a kind where they must be disguised; numbers not yet given out are kept from use."""
        out: list[Found] = []
        index = 0
        for match in self._placeholders(text):
            while index < len(found) and found[index].end <= match.start():
                index += 1
            if index < len(found) and found[index].start < match.end():
                continue
            name = _name(match)
            if name not in self._values:
                self._reserved.add(name)
            out.append(Found(*match.span(), _TEXT if foreign and name in self._values else ""))
        return out

    def _placeholders(self, text: str) -> Iterator[re.Match[str]]:
        """What looks like a placeholder: looked for only around its word and number, as the whole pattern is slow."""
        last = 0
        lookalike, (letters, word, reach) = _lookalike(self._labels), _endings(self._labels)
        for gap in _GAP.finditer(text):
            at = gap.end()
            if at <= last or text[at - 3 : at - 2] not in letters:
                continue
            if word.search(text, max(0, at - reach), gap.start()) is None:
                continue
            match = lookalike.search(text, max(last, at - _AROUND), at + _AROUND)
            if match is not None and match.start() < at <= match.end():
                last = match.end()
                yield match

    def _known(self, text: str, found: list[Found], alike: list[Found]) -> list[Found]:
        """Values given out before, where no rule found them this time; the longest first."""
        spans = [(hit.start, hit.end) for hit in (*found, *alike)]
        hits: list[Found] = []
        rest = covered(text, sorted(spans))
        for (word, _), value in sorted(self._values.items(), key=lambda item: -len(str(item[1]))):
            shown = str(value)
            if len(shown) < SHORTEST or shown not in rest or word == label(_TEXT):
                continue
            for match in re.finditer(rf"(?<!\w){re.escape(shown)}(?!\w)", rest):
                hits.append(Found(*match.span(), word.lower().replace("_", "-")))
                spans.append(match.span())
            rest = covered(text, sorted(spans))
        return hits

    def restore(self, text: str) -> str:
        """The text with the values back, also where a model changed the case or lost a bracket."""
        return _lookalike(self._labels).sub(self._back, text)

    def restore_value(self, value: JSON) -> JSON:
        """The same for arguments of tools: keys and values; what was a number is one again."""
        if isinstance(value, str):
            return self._whole(value)
        if isinstance(value, list):
            return [self.restore_value(item) for item in value]
        if isinstance(value, dict):
            return {self.restore(name): self.restore_value(item) for name, item in value.items()}
        return value

    def _whole(self, text: str) -> JSON:
        match = _lookalike(self._labels).fullmatch(text.strip())
        if match is None:
            return self.restore(text)
        original = self._values.get(_name(match))
        return original if isinstance(original, int | float) else self.restore(text)

    def _back(self, match: re.Match[str]) -> str:
        name = _name(match)
        original = self._values.get(name)
        if original is None:
            self.unknown += name not in self._reserved
            return match.group()
        if not match["exact"] or not match["mark"]:
            return str(original)
        mark, closed = match["mark"], match["closed"] or ""
        if isinstance(original, str) or closed != mark:
            return f"{mark}{original}{closed}"
        return str(original)


def _name(match: re.Match[str]) -> tuple[str, int]:
    word = match["exact"] or match["open"] or match["marked"] or match["shut"] or match["bare"]
    number = match["exactly"] or match["opened"] or match["marking"] or match["shutting"] or match["barely"]
    return re.sub(r"\\?[_\- ]", "_", word).upper(), int(number)
