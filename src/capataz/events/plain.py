"""JSON values as bytes, whatever they hold, and how deep they may be.

The fast encoder refuses integers beyond 64 bits and unpaired surrogates. A model can write both, and nothing that
folds a log may fail on what a model wrote.
"""

from __future__ import annotations

import json

import orjson

from capataz.events.values import JSON

DEEPEST = 120
"""Levels of nesting beyond which nothing is gone into: no real value comes near, and writers of JSON stop at 254."""


def to_json(value: JSON) -> bytes:
    """The value as compact JSON.

    >>> to_json({"n": 10**30})
    b'{"n":1000000000000000000000000000000}'
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def shallow(value: JSON, deepest: int = DEEPEST) -> bool:
    """Whether the value nests at most `deepest` levels. Level by level, so that depth costs no stack."""
    level: list[JSON] = [value]
    for _ in range(deepest):
        below: list[JSON] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(inner for inner in item.values() if isinstance(inner, (dict, list)))
            elif isinstance(item, list):
                below.extend(inner for inner in item if isinstance(inner, (dict, list)))
        if not below:
            return True
        level = below
    return False
