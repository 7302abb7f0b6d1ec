"""Whether a result is empty, told by its shape and not by the tool it came from.

A search may say "nothing" as an empty list, deep inside an envelope, as a count of zero or in prose, in one of
several languages. This module must never guess from the words of a full result: prose counts only when it is short.
"""

from __future__ import annotations

import re

from capataz.events.facts import JSON

_COUNTS = frozenset(
    ("count", "total", "total_count", "totalcount", "num_results", "hits", "found", "matches", "results")
)
_HOLDERS = frozenset(
    (
        "items", "results", "result", "matches", "hits", "data", "rows", "records", "entries", "documents", "docs",
        "list", "values", "found", "content", "output", "response", "body", "answer", "text",
    )
)  # fmt: skip
_PROSE = re.compile(
    r"\b(?:no|0|zero) (?:\w+ ){0,3}?(?:results?|matches|match|hits?|items?|records?|rows?|documents?|docs|entries"
    r"|files?|contacts?|data|pages?|messages?|offers?|content|information|products?|events?|emails?|users?|customers?)\b"
    r"|\bnothing (?:was |were )?(?:found|matched|matches|here|to show)|\bnot? found\b|\bno (?:such|luck)\b"
    r"|\b(?:did|does|do)(?: not|n't) (?:match|exist|return|find)"
    r"|\b(?:could|can)(?: ?not|n't) (?:be )?(?:find|found|locate)"
    r"|\b(?:is|are|was|came back|returned) empty\b|\bempty (?:result|set|list|response|file)|\bnone found\b|\(empty\)"
    r"|no (?:s'ha|s'han|hem|he) (?:trobat|obtingut)|sense resultats|cap (?:resultat|coincid)"
    r"|no (?:se |hay |hubo )?(?:encontr|result|coincid|ha(?:n)? encontrado)|sin resultados|ning[uú]n (?:result|registr)"
    r"|aucune? \w+|rien (?:trouv|n'a)|(?:n'a|n'ont) (?:rien|pas) (?:donn|trouv)"
    r"|keine? (?:\w+ )?(?:ergebnis|treffer|eintr|daten|dokument)|nichts gefunden|nicht gefunden"
    r"|nessun[oa]? \w+|non (?:è|e|ho|sono) (?:stat[oaie] )?trovat|nenhum\w* \w+|n[aã]o (?:foi|foram|h[aá]) "
    r"|geen (?:resultaten|treffers)|niets gevonden",
    re.IGNORECASE,
)
_PROSE_LENGTH = 200
_BLANK = frozenset(("", "[]", "{}", "()", "none", "null", "nil", "n/a", "-", "[[]]", '""', "''"))


def is_empty(result: JSON) -> bool:
    """Whether a search that answered so found nothing.

    >>> is_empty({"data": {"hits": []}, "took_ms": 11}), is_empty("No matches."), is_empty({"results": ["F-88"]})
    (True, True, False)
    """
    if result is None or result is False:
        return True
    if isinstance(result, str):
        text = result.strip()
        return text.lower() in _BLANK or (len(text) <= _PROSE_LENGTH and _PROSE.search(text) is not None)
    if isinstance(result, list):
        return all(item is None or (isinstance(item, list | dict) and is_empty(item)) for item in result)
    if isinstance(result, dict):
        return _empty_object(result, 3)
    return False


def _empty_object(held: dict[str, JSON], depth: int) -> bool:
    """Empty when something that holds results is there, and nothing in it does."""
    verdicts = [verdict for key, value in held.items() if (verdict := _empty_part(key, value, depth)) is not None]
    return not held or (bool(verdicts) and all(verdicts))


def _empty_part(key: str, value: JSON, depth: int) -> bool | None:
    """Whether a field holds results and has none; None where it is no holder of results at all."""
    if isinstance(value, list):
        return not value
    if isinstance(value, dict):
        if not value or not depth or _is_envelope(value):
            return None
        return _empty_object(value, depth - 1)
    name = key.lower()
    if name in _COUNTS and not isinstance(value, str):
        return not value
    return is_empty(value) if name in _HOLDERS else None


def _is_envelope(value: dict[str, JSON]) -> bool:
    """Figures about the answer (timing, page) are no answer."""
    return not any(isinstance(part, list | dict) for part in value.values()) and _COUNTS.isdisjoint(value)
