"""Taking what people and models said out of facts: each text becomes a digest, everything else stays.

What is left still folds to the same state, spend and outcome, and still shows that something was said twice. What is
kept is listed by name, so that a field nobody thought of is erased rather than left. The digest is keyed: without the
key, which is drawn for each erasure and kept nowhere here, a short text cannot be found again by trying.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from capataz.events.facts import Event, Evidence, Fact, RunStarted
from capataz.events.plain import to_json

MARK = "[erased "
# fmt: off
KEPT = frozenset((
    "run", "agent", "model", "id", "tool", "name", "kind", "reason", "status", "source", "task_type", "conversation",
    "root", "parent", "checks", "fallbacks", "prompt", "tools", "policy", "provider", "parameter", "advice", "guard",
    "to", "by", "before", "idempotency_key", "digest", "child", "written", "giver", "taker", "stop", "purpose",
    "action", "of", "tenant", "endpoint",
))
# fmt: on
"""Names of fields that say how, where and by whom, never what."""
WHOLE = frozenset({"result", "full", "payload"})
"""Values of any shape: even the names inside them may be somebody's."""
SAID: Mapping[type, frozenset[str]] = {Evidence: frozenset({"name"})}
"""Where a name that is kept elsewhere does say what: that of a proof holds the target of the act."""


def erased(event: Event, key: bytes) -> Event:
    """The event without what was said in it. The same text becomes the same digest under the same key.

    >>> from capataz.events.facts import MessageReceived
    >>> erased(Event(1, 5.0, MessageReceived("user", "I am Ana")), b"k").fact.text
    '[erased b7603c4919a252ac]'
    """
    fact: Any = _shape(event.fact, key)
    return Event(event.seq, event.at, fact)


def is_erased(fact: Fact) -> bool:
    """Whether a run that began with this fact has been erased before."""
    return isinstance(fact, RunStarted) and fact.task.startswith(MARK)


def digest(value: object, key: bytes) -> str:
    """What stands in the place of a value."""
    if isinstance(value, str) and value.startswith(MARK):
        return value
    text = value if isinstance(value, str) else to_json(value).decode()  # type: ignore[arg-type]
    found = hmac.new(key, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
    return f"{MARK}{found[:16]}]"


def _shape(shape: Any, key: bytes) -> Any:
    """A fact, or a value inside one, with its texts erased."""
    kind: Any = shape.__class__
    words = _words(kind)
    changed: dict[str, Any] = {}
    for field in fields(shape):
        value = getattr(shape, field.name)
        if value in ("", None, (), {}) or field.name in words:
            continue
        changed[field.name] = digest(value, key) if field.name in WHOLE else _value(value, key)
    return replace(shape, **changed)


def _value(value: Any, key: bytes) -> Any:
    if isinstance(value, str):
        return digest(value, key)
    if isinstance(value, tuple):
        return tuple(_value(item, key) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, Mapping):
        return {name: digest(inner, key) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return _shape(value, key) if is_dataclass(value) else value


@cache
def _words(cls: Any) -> frozenset[str]:
    """Fields that stay as they are: those listed, and those that can only hold one of a few words."""
    hints = get_type_hints(cls, localns={"JSON": object})
    return KEPT - SAID.get(cls, frozenset()) | {name for name, hint in hints.items() if _only_words(hint)}


def _only_words(hint: Any) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return all(part is type(None) or _only_words(part) for part in get_args(hint))
    return get_origin(hint) is Literal
