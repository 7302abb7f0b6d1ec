"""Write down the public API, name by name: `make docs` runs it, a contract test compares.

A changed line in `tests/contracts/public_api.txt` is a promise changed, so it belongs into the changelog.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import capataz

SNAPSHOT = Path(__file__).resolve().parents[1] / "tests" / "contracts" / "public_api.txt"


def signature(thing: object) -> str:
    """Parameters with a mark for those that may be left out; types and values of defaults may change freely."""
    try:
        parameters = inspect.signature(thing).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    shown: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown and not any(s.startswith("*") for s in shown):
            shown.append("*")
        star = "*" * (parameter.kind is parameter.VAR_POSITIONAL) + "**" * (parameter.kind is parameter.VAR_KEYWORD)
        optional = "=..." if parameter.default is not parameter.empty else ""
        if parameter.name not in ("self", "cls"):
            shown.append(f"{star}{parameter.name}{optional}")
    return f"({', '.join(shown)})"


def members(thing: type) -> Iterator[str]:
    """Public methods and properties that Capataz itself defines, bases included; the fields are in the signature."""
    for name in sorted(dir(thing)):
        member = inspect.getattr_static(thing, name)
        if name.startswith("_") or inspect.ismemberdescriptor(member):
            continue
        if isinstance(member, property):
            yield f"  .{name}"
        elif inspect.isroutine(member) or isinstance(member, classmethod | staticmethod):
            owner = getattr(getattr(thing, name), "__module__", "")
            if str(owner).startswith("capataz"):
                yield f"  .{name}{signature(getattr(thing, name))}"


def render() -> str:
    lines: list[str] = []
    for name in sorted(capataz.__all__):
        thing = getattr(capataz, name)
        if inspect.isclass(thing):
            lines += [f"class {name}{signature(thing)}", *members(thing)]
        elif inspect.isroutine(thing):
            lines.append(f"def {name}{signature(thing)}")
        elif get_args(thing):
            options = (getattr(option, "__name__", repr(option)) for option in get_args(thing))
            lines.append(f"type {name} = {' | '.join(options)}")
        else:
            lines.append(f"value {name}: {type(thing).__name__}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    SNAPSHOT.write_text(render(), encoding="utf-8")
