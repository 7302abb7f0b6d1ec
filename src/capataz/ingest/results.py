"""Whether a result is an error, where the record does not say so itself.

Pure and shy: only what runtimes print in front of errors counts, at the very start of a text or under a key named
for it. A result that merely talks about errors (a log that was read, a search for "error") is not one.
"""

from __future__ import annotations

import re

from capataz.events.facts import JSON

_HEAD = re.compile(
    r"\s*(?:<tool_use_error>|Error\b(?!s)|ERROR\b|error:|Traceback \(most recent call last\)|Exception\b"
    r"|[A-Z][A-Za-z]*(?:Error|Exception):|Command failed|fatal:|bash: |/bin/(?:ba)?sh: |sh: \d)"
)
_CODE = re.compile(r"(?:exit(?:ed)?(?: with)?(?: exit)?[ _-]?code|returncode>|exit status)[ :=]*(-?\d+)", re.I)


def looks_wrong(value: JSON) -> bool:
    """Whether a result reads as an error.

    >>> looks_wrong("Error: user not found"), looks_wrong({"error": "x"}), looks_wrong("0 errors found")
    (True, True, False)
    """
    if isinstance(value, dict):
        said = value.get("error")
        if said is None:
            return value.get("isError") is True or value.get("is_error") is True or value.get("success") is False
        return bool(said)
    if not isinstance(value, str):
        return False
    head = value[:400]
    if _HEAD.match(head):
        return True
    if head.lstrip().startswith('{"error"') or head.lstrip().startswith('{"isError": true'):
        return '"error": null' not in head and '"error":null' not in head
    return False


def failed_exit(value: str) -> bool:
    """Whether a shell's report names an exit code other than 0 in its first or last lines."""
    for piece in (value[:200], value[-200:]):
        found = _CODE.search(piece)
        if found is not None:
            return found.group(1) != "0"
    return False
