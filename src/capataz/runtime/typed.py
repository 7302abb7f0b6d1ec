"""Answers of a given type: how the model is told, and how what it says is read."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from capataz.tools.usercode import Trap
from capataz.tools.wording import short_error

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n\s*```", re.DOTALL)


class TypedAnswer:
    """Reads answers as a type: a pydantic model, a dataclass, a list, a number, anything pydantic can validate."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        from pydantic import TypeAdapter

        return TypeAdapter(self._kind)

    @property
    def instruction(self) -> str:
        """What the model is told of it, in its instructions."""
        if self._kind is str:
            return ""
        schema = orjson.dumps(self._adapter.json_schema()).decode()
        return f"Your final answer must be JSON that matches this JSON Schema, and nothing else: {schema}"

    def problem(self, text: str) -> str:
        """What is wrong with an answer, in words for the model; empty when nothing is."""
        from pydantic import ValidationError

        with Trap() as trap:  # validators are user code
            self.value(text)
        if isinstance(trap.error, ValidationError):
            first = trap.error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            return f"{place}: {first['msg']}" if place else str(first["msg"])
        return short_error(trap.error) if trap.error is not None else ""

    def value(self, text: str) -> Any:
        """The answer as a value; raises pydantic's `ValidationError` when it is none."""
        if self._kind is str:
            return text
        fenced = _FENCE.search(text)
        return self._adapter.validate_json(fenced.group(1) if fenced is not None else text)
