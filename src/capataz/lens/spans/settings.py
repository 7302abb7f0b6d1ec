"""What was asked of the sampling, as the attributes the conventions have for it, each in the type they want.

A setting of the wrong kind is left out rather than told wrongly: whatever a caller gives as a parameter of the
provider's own may stand here.
"""

from __future__ import annotations

from collections.abc import Mapping

from capataz.events.facts import JSON
from capataz.lens.spans import names as n
from capataz.lens.spans.marks import Attributes, Masking

_DECIMALS = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty")
_WHOLES = ("max_tokens", "seed")


def requested(settings: Mapping[str, JSON], mask: Masking) -> Attributes:
    """The settings of a model call as `gen_ai.request.*`.

    >>> requested({"temperature": 0, "max_tokens": 900, "top_p": "high"}, lambda value: value)
    {'gen_ai.request.temperature': 0.0, 'gen_ai.request.max_tokens': 900}
    """
    told: Attributes = {}
    for name, value in settings.items():
        if name == "stop_sequences" and isinstance(value, list):
            told[f"{n.REQUEST}{name}"] = tuple(str(mask(text)) for text in value)
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        elif name in _DECIMALS:
            told[f"{n.REQUEST}{name}"] = float(value)
        elif name in _WHOLES and value == int(value):
            told[f"{n.REQUEST}{name}"] = int(value)
    return told
