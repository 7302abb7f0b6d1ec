"""The read-back of a tool: what its `confirm` takes, read once at import.

Knowing what it takes also says what its "yes" is worth: one that looks at the result or the idempotency key is tied
to this very act, one that only looks at the arguments may be seeing an older one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from capataz.mistakes import ToolMisuse
from capataz.tools.usercode import is_async

EXTRAS = ("result", "idempotency_key", "phase")


@dataclass(frozen=True, slots=True)
class ReadBack:
    """A `confirm` and the names it takes. `everything` is set by a `**` parameter."""

    function: Callable[..., Any]
    takes: frozenset[str]
    everything: bool
    method: bool
    asynchronous: bool
    arguments: tuple[str, ...]
    """The tool's own parameters: they win over an extra of the same name."""

    @property
    def tied(self) -> bool:
        """It asks for the result or the idempotency key, so its yes is about this act and no other."""
        own = set(self.arguments)
        return any(name in self.takes and name not in own for name in ("result", "idempotency_key"))

    def bound(self, instance: object) -> ReadBack:
        if not self.method:
            return self
        return replace(self, function=self.function.__get__(instance), method=False)

    def select(self, arguments: Mapping[str, Any], extras: Mapping[str, Any]) -> dict[str, Any]:
        """Of everything there is to give, what it takes."""
        offered = {**extras, **{name: arguments[name] for name in self.arguments}}
        if self.everything:
            return offered
        return {name: value for name, value in offered.items() if name in self.takes}


def read_readback(
    confirm: Callable[..., Any], tool: str, arguments: Sequence[str], called: str = "confirm"
) -> ReadBack:
    """Read what `confirm` takes. Raises `ToolMisuse` when it could never be called.

    `called` is the parameter of `tool` it was given as.
    """
    if not callable(confirm):
        raise ToolMisuse(f"tool {tool}: {called}={confirm!r} is not a function")
    try:
        parameters = list(inspect.signature(confirm).parameters.values())
    except (ValueError, TypeError) as error:
        raise ToolMisuse(
            f"tool {tool}: the parameters of {called} cannot be read ({error}): wrap it in a lambda"
        ) from None
    method = inspect.isfunction(confirm) and bool(parameters) and parameters[0].name == "self"
    parameters = parameters[1:] if method else parameters
    known = (*arguments, *EXTRAS)
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ToolMisuse(f"tool {tool}: {called} takes {parameter.name} by position only: remove the '/'")
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.default is parameter.empty and parameter.name not in known:
            raise ToolMisuse(
                f"tool {tool}: {called} wants {parameter.name!r}, which it cannot get: it may take {', '.join(known)}"
            )
    named_kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return ReadBack(
        function=confirm,
        takes=frozenset(p.name for p in parameters if p.kind in named_kinds),
        everything=any(p.kind is p.VAR_KEYWORD for p in parameters),
        method=method,
        asynchronous=is_async(confirm),
        arguments=tuple(arguments),
    )
