"""Results as values: JSON that a tool wrote into a text is read, anything else is what it is."""

from __future__ import annotations

import orjson

from capataz.events.facts import JSON


def parsed(value: JSON) -> JSON:
    """The JSON inside a text, if the text is one."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        inner: JSON = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return inner
