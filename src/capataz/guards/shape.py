"""Whether a result is empty, told by its shape and not by the tool it came from.

A search may say "nothing" as an empty list, deep inside an envelope, as a count of zero, as JSON in a text, in words.
What is found may have empty parts of its own: a customer without orders is a customer.
"""

from __future__ import annotations

import re

import orjson

from capataz.events.facts import JSON
from capataz.guards.nothing import says_nothing

_COUNTS = frozenset(
    (
        "count", "total", "total_count", "totalcount", "num_results", "numfound", "hits", "found", "matches", "results",
        "exists", "resultados", "treffer", "resultats",
    )
)  # fmt: skip
_HOLDERS = frozenset(
    (
        "items", "results", "result", "matches", "match", "hits", "data", "rows", "records", "entries", "documents",
        "docs", "list", "values", "found", "content", "output", "response", "body", "answer", "text",
    )
)  # fmt: skip
_ABOUT = frozenset(
    (
        "columns",
        "fields",
        "headers",
        "schema",
        "facets",
        "suggestions",
        "filters",
        "sort",
        "terms",
        "warnings",
        "errors",
    )
)
"""Lists that say something about an answer and are none."""
_WORDS = frozenset(("message", "msg", "detail", "info", "note", "reason", "status_message"))
_NAMES = frozenset(("id", "uuid", "name", "sku", "email", "title", "key", "number"))
"""What a thing that was found has, and an answer has not."""
_JSON_LENGTH = 400
_FRAME = re.compile(
    r"(?:\s*<(?:\?xml[^<>]*\?|!doctype[^<>]*|/?(?:html|body|main|section|div|ul|ol|dl|table|tbody|results?|items|rows"
    r"|records|entries|matches|hits|documents|list|feed|response|data)"
    r"""(?:\s+(?:class|style|role|xmlns(?::\w+)?)="[^"<>]*"|\s+(?:count|total)="0")*\s*/?)>)+\s*""",
    re.IGNORECASE,
)
"""Tags that hold what was found, with nothing in them. One of another name or with a value may itself be a find."""
_HEAD_LINE = re.compile(r"""["']?(?:id|uuid|\w+_id)["']?(?=[^\n]*[a-z_]{4})(?:[,;\t]["']?[a-z_]\w*["']?)+\r?\n""")
"""The head of a CSV file: it begins with an id and ends its line, so that a list of words is not taken for one."""


def is_empty(result: JSON) -> bool:
    """Whether a search that answered so found nothing.

    >>> is_empty({"data": {"hits": []}, "took_ms": 11}), is_empty("No matches."), is_empty({"results": ["F-88"]})
    (True, True, False)
    """
    if result is None or result is False:
        return True
    if isinstance(result, str):
        return _empty_text(result)
    if isinstance(result, list):
        return all(item is None or (isinstance(item, list | dict) and is_empty(item)) for item in result)
    if isinstance(result, dict):
        return _empty_object(result, 3)
    return False


def _empty_text(text: str) -> bool:
    held = _opened(text)
    if not isinstance(held, str):
        return is_empty(held)
    return says_nothing(text) or _is_bare(text)


def _opened(text: str) -> JSON:
    """What a short text holds where it is JSON, else the text."""
    if text[:1] not in ("{", "[") or len(text) > _JSON_LENGTH:
        return text
    try:
        held: JSON = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return held


def _is_bare(text: str) -> bool:
    """A page, a document or a table of which only the frame is there."""
    if len(text) > _JSON_LENGTH:
        return False
    return (_FRAME if text.lstrip()[:1] == "<" else _HEAD_LINE).fullmatch(text) is not None


def _empty_object(held: dict[str, JSON], depth: int) -> bool:
    """Empty when something that holds results is there, and nothing in it does."""
    if not held or (depth < 3 and _is_thing(held)):
        return not held
    told = False
    for key, value in held.items():
        verdict = _empty_part(key, value, depth)
        if verdict is False:
            return False
        told = told or verdict is True
    if told:
        return not _is_thing(held)
    values = held.values()
    return any(value is None for value in values) and all(value is None or value is True for value in values)


def _is_thing(held: dict[str, JSON]) -> bool:
    """Something with a name of its own, and no field that holds what a search has found."""
    names = {key.lower() for key in held}
    if names.isdisjoint(_NAMES) or not names.isdisjoint(_HOLDERS | _COUNTS):
        return False
    return any(held[key] not in (None, "") for key in held if key.lower() in _NAMES)


def _empty_part(key: str, value: JSON, depth: int) -> bool | None:
    """Whether a field holds results and has none; None where it is no holder of results at all."""
    name = key.lower()
    if isinstance(value, list):
        return None if name in _ABOUT else _empty_list(value)
    if isinstance(value, dict):
        if not value or not depth or name in _ABOUT or _is_envelope(value):
            return None
        return _empty_object(value, depth - 1)
    if name in _COUNTS and not isinstance(value, str):
        return not value
    if name in _WORDS:
        return True if isinstance(value, str) and says_nothing(value) else None
    return is_empty(value) if name in _HOLDERS else None


def _empty_list(value: list[JSON]) -> bool:
    """No item, or only parts of text that say that there is none."""
    return all(isinstance(part, dict) and part.get("type") == "text" and is_empty(part.get("text")) for part in value)


def _is_envelope(value: dict[str, JSON]) -> bool:
    """Figures about the answer (timing, page) are no answer."""
    return (
        not any(isinstance(part, list | dict) for part in value.values())
        and _COUNTS.isdisjoint(value)
        and not _is_thing(value)
    )


def refuses(outcome: JSON) -> bool:
    """Whether an answer says by its shape that what was asked was not done: nothing can have changed then.

    >>> refuses({"success": False, "message": "locked"}), refuses({"success": True, "error": None})
    (True, False)
    """
    held = _opened(outcome) if isinstance(outcome, str) else outcome
    if not isinstance(held, dict):
        return False
    told = (held.get("success"), held.get("ok"), held.get("accepted"))
    return bool(held.get("error") or held.get("errors")) or any(said is False for said in told)
