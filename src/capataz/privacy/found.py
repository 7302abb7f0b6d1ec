"""What a rule found, and the words of this package: kinds, and which of them never come back.

This module must never hold a value: a `Found` says where something stands, not what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

PERSONAL: frozenset[str] = frozenset({"email", "phone", "iban", "card", "id"})
"""Restorable: the person's own data, given back in answers and to the tools that may see it."""

SECRETS: frozenset[str] = frozenset({"secret", "key", "jwt", "private-key", "token", "password"})
"""One-way: nobody gets them back, not even the person who typed them."""

KINDS: frozenset[str] = PERSONAL | SECRETS


class Found(NamedTuple):
    """`text[start:end]` is a `kind`; `rule` says which rule knew it, for a person who wonders why."""

    start: int
    end: int
    kind: str
    rule: str = ""


class Finder(Protocol):
    """A plug-in, for what patterns cannot know, such as names: given a text, it says where they stand.

    Kinds of its own are restorable, and become the placeholder's word: "name" gives `<NAME_1>`.
    It is called with every text that leaves, so it must be quick, and what it raises is not caught.
    """

    def __call__(self, text: str, /) -> list[Found]: ...


def label(kind: str) -> str:
    """The word that stands in a placeholder.

    >>> label("email"), label("key")
    ('EMAIL', 'API_KEY')
    """
    return "API_KEY" if kind == "key" else kind.upper().replace("-", "_")


def words(text: str) -> frozenset[str]:
    """The words of a list, as the tables of this package are written."""
    return frozenset(text.split())


def places(text: str, part: str) -> Iterator[int]:
    """Where a part stands in a text, from left to right."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))
