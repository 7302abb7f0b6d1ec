"""A text as a person reads it, at the same offsets.

People and machines write one value in many ways: full-width digits, no-break spaces, typographic dashes, invisible
characters, JSON and URL escapes. The rules look at a plain copy; what they find is told in offsets of the source.
The copy keeps its length wherever it can; where invisible characters are taken out, or letters were written as escapes
(`contrase\\u00f1a`, `contrase%C3%B1a`), a table leads back.
This module must never change what is shown to anybody: the copy is for looking, not for sending.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

FILLER = "<"
"""Stands where something was found. No rule matches it, as none matches the placeholder that will stand there."""

_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_DASHES = "\u2010-\u2015\u2212\ufe58\ufe63"
_DIGITS = "\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\U0001d7ce-\U0001d7ff"
_INVISIBLE = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
_ODD = re.compile(f"[{_SPACES}{_DASHES}{_DIGITS}{_INVISIBLE}\uff01-\uff5e\u2024\u3002]")
_UNSEEN = re.compile(f"[{_INVISIBLE}]")
_SPACE = re.compile(f"[{_SPACES}]")
_DASH = re.compile(f"[{_DASHES}]")

_ASCII = bytes(range(128))
_ESCAPE = re.compile(r'\\[nrt"]')
_LETTER = re.compile(r"\\+u(?P<code>[0-9A-Fa-f]{4})|%[Cc](?P<high>[23])%(?P<low>[89ABab][0-9A-Fa-f])")
"""A character as JSON without anything but ASCII writes it, or a letter of Western Europe in a URL."""
_GUARDED = "<>&'=+"
"""What Go and others escape for the sake of HTML."""
_PERCENT = re.compile("%(?:2[0Bb]|3[AaDd])")
_FORM = re.compile(r"=(?:\0\0\+)?(?P<value>[A-Za-z0-9]{1,12}(?:\+[A-Za-z0-9]{1,9}){1,9})(?!\w)")
_FIELD = re.compile(r"[\w.\[\]-]{1,40}(?P<first>[?&])?")
"""A value of a URL or a form whose spaces are signs of addition, and the name before it, read backwards."""
_PERCENTS = {"%20": "   ", "%2B": "\0\0+", "%3A": "  :", "%3D": "  ="}
PAD = "\0"
"""Fills what an escape took more than the character it stands for."""


@dataclass(frozen=True, slots=True)
class Plain:
    """The copy, and where its pieces begin in it (`starts`) and how far the source is ahead of each (`ahead`).

    `behind` and `longer` say the same of letters written as escapes: where each ends, and how much longer the source is
    up to there.
    """

    text: str
    starts: tuple[int, ...] = ()
    ahead: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    longer: tuple[int, ...] = (0,)

    @property
    def moved(self) -> bool:
        """Whether places in the copy are other places in the source."""
        return bool(self.starts or self.behind)

    def source(self, start: int, end: int) -> tuple[int, int]:
        """The span of the source behind a span of the copy."""
        if self.starts:
            start += self.ahead[bisect_right(self.starts, start) - 1]
            end += self.ahead[bisect_right(self.starts, end - 1) - 1]
        return start + self.longer[bisect_right(self.behind, start)], end + self.longer[bisect_right(self.behind, end)]


def plain(text: str) -> Plain:
    """The plain copy of a text."""
    starts: tuple[int, ...] = ()
    ahead: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    longer: tuple[int, ...] = (0,)
    if "\\u" in text or "%C3%" in text or "%c3%" in text:
        text, behind, longer = _spelled(text)
    if not text.isascii():
        # what is not ASCII is a small part of most texts, and taken out of the bytes at their full speed
        rest = text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
        odd = set(_ODD.findall(rest))
        for char in odd:
            seen = _seen(char)
            if seen:
                text = text.replace(char, seen)
        unseen = [char for char in odd if not _seen(char)]
        if unseen:
            text, starts, ahead = _without(unseen, text)
    if "\\" in text:
        text = _ESCAPE.sub(lambda match: ' "' if match.group() == '\\"' else "  ", text)
    return Plain(text, starts, ahead, behind, longer)


def _spelled(text: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """The text with its escaped letters as letters; where each ends in it, and how much longer the source is there."""
    pieces: list[str] = []
    behind: list[int] = []
    longer = [0]
    last = 0
    for match in _LETTER.finditer(text):
        char = _spelt(match)
        if char:
            pieces += (text[last : match.start()], char)
            last = match.end()
            longer.append(longer[-1] + last - match.start() - 1)
            behind.append(last - longer[-1])
    return "".join([*pieces, text[last:]]), tuple(behind), tuple(longer)


def _spelt(match: re.Match[str]) -> str:
    """The character of an escape; empty for what is better left: most of ASCII, and halves of a character."""
    if match["code"] is None:
        return bytes((0xC0 + int(match["high"], 16), int(match["low"], 16))).decode()
    code = int(match["code"], 16)
    return "" if (code < 0xA0 and chr(code) not in _GUARDED) or 0xD800 <= code < 0xE000 else chr(code)


def unquoted(text: str) -> str:
    """The copy with the URL escapes that stand around personal data undone. (Inside secrets they are left alone.)"""
    text = _PERCENT.sub(lambda match: _PERCENTS[match.group().upper()], text)
    if "+" in text and "=" in text:
        text = _FORM.sub(_spaced, text)
    return text


def _spaced(match: re.Match[str]) -> str:
    """The value with spaces, where it stands in a query or a form; elsewhere it is a sum."""
    text, at = match.string, match.start()
    name = _FIELD.match(text[max(0, at - 41) : at][::-1])
    if name is None or not (name["first"] or text[match.end() : match.end() + 1] == "&"):
        return match[0]
    return match[0][: -len(match["value"])] + match["value"].replace("+", " ")


def _seen(char: str) -> str:
    """What an odd character looks like; empty when it is not seen at all."""
    code = ord(char)
    if _SPACE.match(char):
        return " "
    if _DASH.match(char):
        return "-"
    if 0xFF01 <= code <= 0xFF5E:
        return chr(code - 0xFEE0)
    if char.isdecimal():
        return str(int(char))
    return "" if _UNSEEN.match(char) else "."


def _without(unseen: list[str], text: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    for char in unseen[1:]:
        text = text.replace(char, unseen[0])
    pieces = text.split(unseen[0])
    starts: list[int] = []
    ahead: list[int] = []
    position = 0
    for gone, piece in enumerate(pieces):
        if starts and starts[-1] == position:
            ahead[-1] = gone
        else:
            starts.append(position)
            ahead.append(gone)
        position += len(piece)
    return "".join(pieces), tuple(starts), tuple(ahead)


def covered(text: str, spans: list[tuple[int, int]]) -> str:
    """The copy with every span filled, at unchanged length. Spans are in order and do not overlap."""
    pieces: list[str] = []
    last = 0
    for start, end in spans:
        pieces.append(text[last:start])
        pieces.append(FILLER * (end - start))
        last = end
    pieces.append(text[last:])
    return "".join(pieces)


def lowered(text: str) -> str:
    """Lower case at unchanged length, of the letters of ASCII; others may become anything that is not one of those.

    (`str.lower` is slow outside ASCII and makes some letters longer.)
    """
    if text.isascii():
        return text.lower()
    return text.encode("latin-1", "replace").lower().decode("latin-1")
