"""What all readers share: the request remembered, calls checked for their end, the warnings a reply carries."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import cast

import orjson

from capataz.events.facts import JSON, Fault, Opaque, Usage
from capataz.models.dialects.base import SENT, Asked, Sent
from capataz.models.dialects.codec import dumps, is_cut, neutral_names
from capataz.models.dialects.params import cap
from capataz.ports import ModelRequest, RawCall, Reply

BROKEN_STREAM = Fault("transient", "malformed-chunk", "a part of the stream is not JSON", status=200)
CUT_STREAM = Fault("transient", "truncated-stream", "the stream ended without its end mark", status=200)


def asked(request: ModelRequest | None) -> Asked:
    """What the reader of an answer needs to know of its request."""
    if request is None:
        return Asked()
    sent = request.memo.get(SENT)
    names = neutral_names([tool.name for tool in request.tools])
    return Asked(names, cap(request), sent if isinstance(sent, Sent) else Sent(0), request.model)


def window_cut(estimate: int, reported: int) -> str | None:
    """A server that read far less than was sent has cut its window in silence. Tokens; None when all is well.

    The estimate is rough (a quarter of the bytes), so only less than half of it counts.
    """
    if estimate < 1000 or not 0 < reported * 2 < estimate:
        return None
    return f"window-cut: about {estimate} tokens were sent, the server read {reported}: it dropped part of the history"


def reply(
    words: Asked,
    text: str,
    calls: Sequence[RawCall],
    stop: str,
    usage: Usage,
    *,
    id: str = "",
    model: str = "",
    thinking: str = "",
    opaque: Opaque | None = None,
) -> Reply:
    """Put the answer together. A reply that filled its output cap was cut, whatever it says, and so are its calls."""
    full = words.cap is not None and usage.reported and usage.output >= words.cap
    if full and stop in ("calls", "stop") and calls:
        stop = "length"
    if calls and stop in ("stop", ""):
        stop = "calls"
    cut_off = stop == "length"
    checked = tuple(
        RawCall(
            call.id or f"call_{at}",
            words.names.get(call.name, call.name),
            call.arguments,
            call.cut or cut_off or is_cut(call.arguments),
        )
        for at, call in enumerate(calls)
    )
    warnings = words.sent.notes
    lost = window_cut(words.sent.tokens, usage.input) if usage.reported else None
    return Reply(
        text,
        checked,
        stop,
        usage,
        model or words.model,
        thinking,
        opaque,
        None,
        (*warnings, lost) if lost else warnings,
        id,
    )


def opaque(provider: str, items: Sequence[JSON], *, always: bool = False) -> Opaque | None:
    """Keep parts only their provider understands; nothing where there are only marks for text and calls."""
    if not always and all(isinstance(item, dict) and "@" in item and not item.keys() - {"@", "n"} for item in items):
        return None
    return Opaque(provider, dumps(list(items)).decode())


def parsed(data: bytes) -> dict[str, JSON] | None:
    """The JSON object in these bytes; None when it is anything else."""
    try:
        value = orjson.loads(data)
    except ValueError:
        return None
    return cast("dict[str, JSON]", value) if isinstance(value, dict) else None


def objects(value: JSON) -> list[dict[str, JSON]]:
    """The objects of a list, whatever else stands there."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def obj(value: JSON) -> dict[str, JSON]:
    return value if isinstance(value, dict) else {}


def text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def count(value: JSON) -> int:
    """A number of tokens; 0 for anything that is none."""
    return int(value) if isinstance(value, (int, float)) and 0 <= value < 1e12 else 0


def money(value: JSON) -> Decimal | None:
    """US dollars, where the provider itself names the price."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        price = Decimal(str(value))
    except InvalidOperation:
        return None
    return price if price.is_finite() and price >= 0 else None
