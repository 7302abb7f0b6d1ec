"""Addresses of electronic mail, also where the sign is written otherwise.

The sign leads: every `@` (or `%40`, or "[at]") is looked at from both sides, and prose without one costs a single
search. This module must never take `git@host:path` or `icon@2x.png` for somebody's address.
"""

from __future__ import annotations

import re

from capataz.privacy.found import Found, places

_SIGNS = ("@", "%40", "&#64;", "&commat;", "\\u0040")
_DOMAIN = re.compile(r"(?:[^\W_](?:[\w-]{0,62})\.){1,8}(?:xn--[A-Za-z0-9-]{2,40}|[^\W\d_]{2,24})")
_PICTURE = re.compile(r"\d+(?:\.\d+)?x\.(?:png|jpe?g|gif|webp|svg|avif)", re.IGNORECASE)
_QUOTED = re.compile(r"\"[^\"\n@]{1,64}\"\Z")
_CODE_HOSTS = frozenset({"git", "hg", "svn"})

_AT = r"(?i:at|arroba|@|chiocciola|arobase|ät)"
_DOT = r"(?:\.|\s?[\[({<]\s?(?i:dot|punto|punt|point|punkt|ponto|\.)\s?[\])}>]\s?)"
_WORD_DOT = r"(?: (?i:dot|punto|punt|point|punkt|ponto) )"
_NAME = r"[^\W_][\w-]{0,62}"
_BRACKETED = tuple(re.compile(rf"{re.escape(opening)}\s?{_AT}\s?[\])}}>]\s{{0,2}}") for opening in "[({")
_SPOKEN = (
    (" arroba ", False),
    (" chiocciola ", False),
    (" arobase ", False),
    (" at ", True),
    (" AT ", True),
    (" @ ", False),
)
_VEILED_DOMAIN = re.compile(rf"(?:{_NAME}(?:{_DOT}|{_WORD_DOT})){{1,5}}[^\W\d_]{{2,24}}(?!\w)")
_DOTTED_DOMAIN = re.compile(rf"(?:{_NAME}{_WORD_DOT}){{1,5}}[^\W\d_]{{2,24}}(?!\w)")
_TAIL = re.compile(r"[\w.+%'’~\0-]*")
_DOTTED_BEFORE = re.compile(rf"{_NAME}{_WORD_DOT}\Z")


def emails(text: str) -> list[Found]:
    """Addresses written with a sign. Those of one sign are in order and do not overlap."""
    found: list[Found] = []
    for sign in _SIGNS:
        if sign[0] not in text:
            continue
        floor = 0
        at = text.find(sign)
        while at >= 0:
            hit = _around(text, at, at + len(sign), floor)
            if hit is not None:
                found.append(hit)
                floor = hit.end
            at = text.find(sign, max(at + len(sign), floor))
    return found


def veiled(text: str) -> list[Found]:
    """Addresses written around the sign: "ana [at] example [dot] com", "ana arroba example punto com"."""
    found: list[Found] = []
    for opening, sign in zip("[({", _BRACKETED, strict=True):
        if opening in text:
            for match in sign.finditer(text):
                _unveil(text, *match.span(), _VEILED_DOMAIN, found)
    dots = any(f" {word} " in text for word in ("dot", "DOT", "punto", "punt", "point", "punkt", "ponto"))
    for spoken, needs_dot in _SPOKEN:
        if needs_dot and not dots:
            continue
        for at in places(text, spoken):
            _unveil(text, at, at + len(spoken), _DOTTED_DOMAIN if needs_dot else _VEILED_DOMAIN, found)
    if dots and "@" in text:
        for at in places(text, "@"):
            _unveil(text, at, at + 1, _DOTTED_DOMAIN, found)
    return found


def _unveil(text: str, at: int, after: int, shape: re.Pattern[str], found: list[Found]) -> None:
    domain = shape.match(text, after)
    if domain is None:
        return
    before = text[max(0, at - 66) : at].rstrip()
    size = _local(before)
    if size:
        end = at - (len(text[max(0, at - 66) : at]) - len(before))
        start = end - size
        while first := _DOTTED_BEFORE.search(text, max(0, start - 66), start):
            start = first.start()
        found.append(Found(start, domain.end(), "email", "veiled"))


def _around(text: str, at: int, after: int, floor: int) -> Found | None:
    domain = _DOMAIN.match(text, after)
    if domain is None or _PICTURE.fullmatch(domain.group()):
        return None
    low = max(floor, at - 66)
    before = text[low:at]
    if before.endswith('"') and (quoted := _QUOTED.search(before)):
        return Found(low + quoted.start(), domain.end(), "email", "email")
    size = _local(before)
    if not size:
        return None
    local = before[len(before) - size :]
    if local in _CODE_HOSTS and text[domain.end() : domain.end() + 1] in (":", "/"):
        return None
    return Found(at - size, domain.end(), "email", "email")


def _local(before: str) -> int:
    """How many characters before the sign belong to the address."""
    match = _TAIL.match(before[::-1])
    size = match.end() if match else 0
    while size and before[len(before) - size] in ".%'’~-\0":
        size -= 1
    return size
