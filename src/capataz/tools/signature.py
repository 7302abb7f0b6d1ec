"""What a function takes, read once when it becomes a tool: the schema a model sees and the door its arguments pass.

Everything that can be precomputed is, so that reading a call costs microseconds. Arguments exist in two forms: the
canonical one (JSON values, defaults filled in, in the order of the signature), which is what the log, the guards and
the effect ledger see, and the Python values the function is called with. A function that cannot be offered as it is
written is the developer's mistake and is refused here, at import, with words on how to mend it.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Optional, cast, get_args, get_origin

import orjson

from capataz.events.facts import JSON
from capataz.mistakes import ToolMisuse
from capataz.tools.usercode import Trap
from capataz.tools.wording import BadArguments, argument_problems, short_error

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the call it serves. Annotate a parameter with it; the model never sees it."""

    run: str
    turn: int
    idempotency_key: str
    """The same for every attempt at the same act: hand it to services that accept one."""
    progress: Callable[[str], None]
    """Says that the tool is alive and what it is doing; may be called from any thread."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of one tool. `names` are the parameters a model may give, in order."""

    names: tuple[str, ...]
    schema: Mapping[str, JSON]
    context: str | None
    """Name of the parameter that receives the `ToolContext`."""
    method: bool
    """The function is a method that has not been bound to an instance yet."""
    _model: type[BaseModel] = field(repr=False)
    _fields: tuple[tuple[str, str], ...] = field(repr=False)
    """(parameter, field of the model): fields have names of their own, so that a parameter may have any name."""

    def read(self, text: str | bytes) -> dict[str, JSON]:
        """JSON text to canonical arguments. Raises `BadArguments`."""
        value = self._validated(text)
        with Trap() as trap:
            canonical: dict[str, JSON] = self._model.__pydantic_serializer__.to_python(
                value, mode="json", by_alias=True, round_trip=True, warnings=False
            )
            orjson.dumps(canonical)  # the log must be able to keep them: this refuses integers beyond 64 bits
            return canonical
        if isinstance(trap.error, TypeError) and "64-bit" in str(trap.error):
            raise BadArguments("an integer is too large: numbers must fit into 64 bits")
        raise BadArguments(f"the arguments cannot be kept as JSON ({short_error(trap.error)})")

    def bind(self, arguments: Mapping[str, JSON]) -> dict[str, Any]:
        """Canonical arguments to the values the function is called with. Raises `BadArguments`."""
        values = self._validated(orjson.dumps(dict(arguments))).__dict__
        return {name: values[inner] for name, inner in self._fields}

    def _validated(self, text: str | bytes) -> BaseModel:
        with Trap() as trap:
            return cast("BaseModel", self._model.__pydantic_validator__.validate_json(text))
        raise argument_problems(trap.error, self.names, text)


def read_signature(function: Callable[..., Any], tool: str, scope: FrameType) -> Signature:
    """Read what `function` takes. `scope` is where it is offered as a tool: its types may be known only there."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise ToolMisuse(
            f"tool {tool}: its parameters cannot be read ({error}): wrap it in a function of your own"
        ) from None
    hints = _hints(function, tool, scope)
    bound: Mapping[str, Any] = getattr(function, "keywords", {}) if is_partial(function) else {}
    parameters = [p for p in signature.parameters.values() if p.name not in bound]
    method = _is_unbound_method(function, parameters)
    if method:
        parameters = parameters[1:]
    context = _context_parameter(tool, parameters, hints)
    parameters = [p for p in parameters if p.name != context]
    for parameter in parameters:
        _refuse_unfit(tool, parameter, hints)
    docs = _parameter_docs(function)
    model = _model_of(tool, parameters, hints, docs)
    return Signature(
        names=tuple(p.name for p in parameters),
        schema=_schema_of(tool, model),
        context=context,
        method=method,
        _model=model,
        _fields=tuple((p.name, f"argument_{i}") for i, p in enumerate(parameters)),
    )


def is_partial(function: Any) -> bool:
    return isinstance(function, functools.partial)


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a name, a docstring and annotations behind partials, bound methods and callable objects."""
    inner: Any = function
    while is_partial(inner):
        inner = inner.func
    inner = getattr(inner, "__func__", inner)
    if not inspect.isroutine(inner) and not isinstance(inner, type):
        inner = type(inner).__call__
    return cast("Callable[..., Any]", inner)


def description(function: Callable[..., Any]) -> str:
    """The docstring without the part about parameters."""
    text = inspect.getdoc(plain(function)) or ""
    if not text:
        return ""
    import docstring_parser

    parsed = docstring_parser.parse(text)
    return "\n\n".join(part.strip() for part in (parsed.short_description, parsed.long_description) if part)


def _parameter_docs(function: Callable[..., Any]) -> dict[str, str]:
    text = inspect.getdoc(plain(function)) or ""
    if not text:
        return {}
    import docstring_parser

    return {p.arg_name: p.description.strip() for p in docstring_parser.parse(text).params if p.description}


def _hints(function: Callable[..., Any], tool: str, scope: FrameType) -> dict[str, Any]:
    inner = plain(function)
    try:
        return typing.get_type_hints(inner, include_extras=True)
    except NameError:
        pass
    except TypeError as error:
        raise ToolMisuse(f"tool {tool}: its annotations cannot be read ({error})") from None
    # Types defined inside the function (or the class inside it) that defines the tool are only known to its frame.
    around = scope.f_back.f_locals if scope.f_back is not None else {}
    local = {**around, **scope.f_locals}
    try:
        return typing.get_type_hints(inner, localns=local, include_extras=True)
    except NameError as error:
        raise ToolMisuse(
            f"tool {tool}: the annotation {error.name!r} is not defined where the tool is: import it at run time "
            "(not under TYPE_CHECKING) or define it before the tool"
        ) from None


def _is_unbound_method(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> bool:
    return (
        inspect.isfunction(function)
        and bool(parameters)
        and parameters[0].name in ("self", "cls")
        and parameters[0].annotation is inspect.Parameter.empty
        and "." in function.__qualname__
        and not function.__qualname__.rpartition(".")[0].endswith("<locals>")
    )


def _context_parameter(tool: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> str | None:
    names = [p.name for p in parameters if _is_context(hints.get(p.name))]
    if len(names) > 1:
        raise ToolMisuse(f"tool {tool}: both {names[0]} and {names[1]} are a ToolContext: keep one")
    return names[0] if names else None


def _is_context(hint: Any) -> bool:
    return hint is ToolContext or ToolContext in get_args(hint)


def _refuse_unfit(tool: str, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> None:
    name = parameter.name
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise ToolMisuse(
            f"tool {tool}: a model cannot fill *{name}: write {name}: list[...] instead "
            "(or functools.wraps in the decorator that hides the real parameters)"
        )
    if parameter.kind is parameter.VAR_KEYWORD:
        raise ToolMisuse(
            f"tool {tool}: a model cannot fill **{name}: write one parameter for each argument, "
            f"or {name}: dict[str, ...] (or functools.wraps in the decorator that hides the real parameters)"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ToolMisuse(f"tool {tool}: {name} is positional-only and calls name their arguments: remove the '/'")
    if name not in hints:
        raise ToolMisuse(
            f"tool {tool}: parameter {name} has no annotation, so its arguments cannot be checked: "
            f"write {name}: str (or what it really is)"
        )


def _annotated(parameter: inspect.Parameter, hint: Any, doc: str | None) -> Any:
    """The annotation with our name and the docstring's words in front, so that the user's own Field wins."""
    from pydantic import Field

    base, extras = (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())
    if parameter.default is None:
        base = Optional[base]  # noqa: UP045 the value is only known at run time, where `|` fails for text
    ours = Field(alias=parameter.name, description=doc)
    return Annotated[(base, ours, *extras)]


def _model_of(
    tool: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any], docs: Mapping[str, str]
) -> type[BaseModel]:
    from pydantic import ConfigDict, TypeAdapter, create_model

    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    fields: dict[str, Any] = {}
    for position, parameter in enumerate(parameters):
        _refuse_alias(tool, parameter, hints[parameter.name])
        with Trap() as trap:
            adapter = TypeAdapter[Any](hints[parameter.name])
            if not _plain_default(parameter.default):
                adapter.validate_json(adapter.dump_json(parameter.default, warnings=False))
        if trap.error is not None:
            raise _bad_type(tool, parameter, trap.error)
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        annotation = _annotated(parameter, hints[parameter.name], docs.get(parameter.name))
        fields[f"argument_{position}"] = (annotation, default)
    return create_model("arguments", __config__=config, **fields)


def _refuse_alias(tool: str, parameter: inspect.Parameter, hint: Any) -> None:
    from pydantic.fields import FieldInfo

    said = (*get_args(hint), parameter.default) if get_origin(hint) is Annotated else (parameter.default,)
    fields = [part for part in said if isinstance(part, FieldInfo)]
    if any(part.alias or part.validation_alias or part.serialization_alias for part in fields):
        raise ToolMisuse(f"tool {tool}: parameter {parameter.name} has an alias: name the parameter so instead")


def _plain_default(default: Any) -> bool:
    """No default, or one that needs no trial."""
    if default is inspect.Parameter.empty or default is None:
        return True
    from pydantic.fields import FieldInfo

    return isinstance(default, FieldInfo)


def _bad_type(tool: str, parameter: inspect.Parameter, error: BaseException) -> ToolMisuse:
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError

    if isinstance(error, (ValidationError, PydanticSerializationError)):
        return ToolMisuse(
            f"tool {tool}: the default of {parameter.name} ({parameter.default!r}) does not fit its annotation: "
            "change one of them"
        )
    return ToolMisuse(
        f"tool {tool}: the annotation of {parameter.name} has no JSON form: use a plain type, a dataclass or a "
        f"pydantic model, or bind it with functools.partial ({short_error(error)})"
    )


def _schema_of(tool: str, model: type[BaseModel]) -> Mapping[str, JSON]:
    with Trap() as trap:
        return cast("dict[str, JSON]", _untitled(model.model_json_schema(by_alias=True, mode="validation")))
    raise ToolMisuse(
        f"tool {tool}: one of its parameters has no JSON schema: use plain types, dataclasses or pydantic models "
        f"({short_error(trap.error)})"
    )


_MAPS = ("properties", "$defs", "patternProperties")
_AS_IS = ("default", "const", "enum", "examples", "example", "required")


def _untitled(schema: JSON) -> JSON:
    """A schema without the titles derived from names: they cost tokens and say nothing."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    clean: dict[str, JSON] = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            clean[key] = {name: _untitled(inner) for name, inner in value.items()}
        elif key in _AS_IS:
            clean[key] = value
        elif key != "title":
            clean[key] = _untitled(value)
    return clean
