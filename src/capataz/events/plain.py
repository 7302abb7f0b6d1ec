"""JSON values as bytes, whatever they hold.

The fast encoder refuses integers beyond 64 bits and unpaired surrogates. A model can write both, and nothing that
folds a log may fail on what a model wrote.
"""

from __future__ import annotations

import json

import orjson

from capataz.events.values import JSON


def to_json(value: JSON) -> bytes:
    """The value as compact JSON.

    >>> to_json({"n": 10**30})
    b'{"n":1000000000000000000000000000000}'
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()
