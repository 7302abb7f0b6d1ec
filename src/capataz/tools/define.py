"""How a plain function becomes a tool: what it does to the world, what it acts on, how its effect is confirmed.

The decorated object stays callable like the function. Everything the runtime needs is worked out here, once, at
import; a function that cannot be offered as it is written is refused here with words on how to mend it. Nothing in
this module runs the function.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, get_args, overload

import orjson

from capataz.events.facts import JSON, Kind, ToolFacts
from capataz.mistakes import ToolMisuse
from capataz.ports import ToolSpec
from capataz.tools.readback import ReadBack, read_readback
from capataz.tools.results import Changed, ToolError
from capataz.tools.signature import Signature, ToolContext, description, plain, read_signature
from capataz.tools.usercode import Trap, is_async
from capataz.tools.wording import short_error

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["Changed", "Tool", "ToolContext", "ToolError", "tool"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, eq=False)
class Tool(Generic[P, R]):
    """A function a model may ask for. Made by `tool`; called directly, it is the function.

    `timeout` and `settle` are seconds, `max_result` characters. `agent` is the name of the agent behind the tool,
    when it is one.
    """

    function: Callable[P, R] = field(repr=False)
    name: str
    description: str = field(repr=False)
    kind: Kind
    target: str | None
    timeout: float
    idempotent: bool
    repeatable: bool
    settle: float
    max_result: int
    signature: Signature = field(repr=False)
    readback: ReadBack | None = field(repr=False, default=None)
    asynchronous: bool = field(repr=False, default=False)
    agent: str | None = None
    approve: Literal[True] | ReadBack | None = field(repr=False, default=None)
    restore: bool = True
    """Whether it is given the person's own data where the model only had placeholders."""
    isolate: bool = False
    memory: int = 2048

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., R]:
        """A tool written as a method becomes usable when it is taken from an instance."""
        if instance is None or not self.signature.method:
            return self
        bound = cast("Callable[..., R]", self.function.__get__(instance))
        readback = self.readback.bound(instance) if self.readback is not None else None
        return cast(
            "Tool[..., R]",
            replace(self, function=bound, signature=replace(self.signature, method=False), readback=readback),
        )

    @property
    def __wrapped__(self) -> Callable[P, R]:
        """Lets `inspect.signature` and documentation tools see the function."""
        return self.function

    @property
    def confirmable(self) -> bool:
        return self.readback is not None

    @cached_property
    def facts(self) -> ToolFacts:
        """What the log keeps of this tool."""
        return ToolFacts(
            name=self.name,
            kind=self.kind,
            target=self.target,
            confirmable=self.confirmable,
            idempotent=self.idempotent,
            repeatable=self.repeatable,
            settle=self.settle,
            agent=self.agent,
            tied=self.readback is not None and self.readback.tied,
        )

    @cached_property
    def spec(self) -> ToolSpec:
        """What a model is told of this tool."""
        return ToolSpec(self.name, self.description, self.signature.schema)

    def approval(self, arguments: Mapping[str, JSON]) -> str:
        """Why a person has to approve a call with these arguments; empty when nobody has to."""
        if self.approve is None:
            return ""
        if self.approve is True:
            return "this tool always waits for approval"
        with Trap() as trap:
            asked = self.approve.function(**self.approve.select(self.signature.bind(arguments), {}))
            return asked if isinstance(asked, str) else "its rule asks for approval" if asked else ""
        return f"its rule could not be asked ({short_error(trap.error)})" if trap.error is not None else ""

    def target_of(self, arguments: Mapping[str, JSON]) -> str | None:
        """What canonical arguments act on, as text."""
        if self.target is None:
            return None
        return target_text(arguments.get(self.target))


def target_text(value: JSON) -> str | None:
    """A target as the log and the effect ledger know it: text as it is, nothing as None, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    kind: Kind = "exec",
    target: str | None = None,
    timeout: float = 60.0,
    idempotent: bool = False,
    confirm: Callable[..., Any] | None = None,
    repeatable: bool = False,
    settle: float = 0.0,
    approve: bool | Callable[..., Any] = False,
    restore: bool = True,
    name: str | None = None,
    description: str | None = None,
    max_result: int = 20_000,
    isolate: bool = False,
    memory: int = 2048,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    kind: Kind = "exec",
    target: str | None = None,
    timeout: float = 60.0,
    idempotent: bool = False,
    confirm: Callable[..., Any] | None = None,
    repeatable: bool = False,
    settle: float = 0.0,
    approve: bool | Callable[..., Any] = False,
    restore: bool = True,
    name: str | None = None,
    description: str | None = None,
    max_result: int = 20_000,
    isolate: bool = False,
    memory: int = 2048,
) -> Tool[P, R]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    kind: Kind = "exec",
    target: str | None = None,
    timeout: float = 60.0,
    idempotent: bool = False,
    confirm: Callable[..., Any] | None = None,
    repeatable: bool = False,
    settle: float = 0.0,
    approve: bool | Callable[..., Any] = False,
    restore: bool = True,
    name: str | None = None,
    description: str | None = None,
    max_result: int = 20_000,
    isolate: bool = False,
    memory: int = 2048,
) -> Any:
    """Offer a function (sync or async, a method, a `functools.partial`) to agents. Used bare or with arguments.

    - `kind`: what it does to the world: "read", "search", "poll" look; "write", "exec", "message" act. The default
      is the careful one: an undeclared tool counts as acting, so it is never run twice behind your back.
    - `target`: name of the parameter that says what is acted on.
    - `timeout`: seconds one use may take; there is no "none".
    - `idempotent`: running it again with the same `ToolContext.idempotency_key` does no harm.
    - `confirm`: reads back whether the effect is there; gets the arguments by name and, if it takes them, `result`,
      `idempotency_key` and `phase` ("before" or "after" the act). True or a row: yes. False or empty: no.
      None or an exception: unknown.
    - `repeatable`: the same act may be done twice in one task.
    - `settle`: seconds after which a "no" from `confirm` is final.
    - `restore`: False gives it the placeholders the model used instead of the person's own data behind them.
    - `approve`: True, or a quick synchronous rule on the arguments: a person has to say yes before the act.
    - `max_result`: characters of the result the model is shown; the log keeps all of it.
    - `isolate`: run each call in a process of its own, which is killed with all its descendants at the limit. The
      function has to stand at the top of a module; `memory` is the most it may use, in megabytes.

    Raises `ToolMisuse` when the function cannot be offered as it is written.

    >>> @tool(kind="read")
    ... def find_order(order_id: str) -> dict[str, str]:
    ...     '''Look an order up.'''
    ...     return {"id": order_id, "state": "paid"}
    >>> find_order("81")["state"], find_order.facts.kind
    ('paid', 'read')
    """

    def make(function: Callable[..., Any], scope: FrameType) -> Tool[..., Any]:
        return _make(
            function,
            scope,
            name=name,
            kind=kind,
            target=target,
            timeout=timeout,
            idempotent=idempotent,
            confirm=confirm,
            repeatable=repeatable,
            settle=settle,
            approve=approve,
            restore=restore,
            words=description,
            max_result=max_result,
            isolate=isolate,
            memory=memory,
        )

    if function is not None:
        return make(function, _caller())

    def decorate(function: Callable[..., Any]) -> Tool[..., Any]:
        return make(function, _caller())

    return decorate


def _make(
    function: Callable[..., Any],
    scope: FrameType,
    *,
    name: str | None,
    kind: Kind,
    target: str | None,
    timeout: float,
    idempotent: bool,
    confirm: Callable[..., Any] | None,
    repeatable: bool,
    settle: float,
    approve: bool | Callable[..., Any],
    restore: bool,
    words: str | None,
    max_result: int,
    isolate: bool,
    memory: int,
) -> Tool[..., Any]:
    name = _name_of(function, name)
    _refuse_nonsense(name, kind, timeout, settle, max_result)
    if isolate:
        _refuse_unreachable(function, name, memory)
    if inspect.isgeneratorfunction(plain(function)) or inspect.isasyncgenfunction(plain(function)):
        raise ToolMisuse(f"tool {name}: it is a generator function; return a list")
    signature = read_signature(function, name, scope)
    if target is not None and target not in signature.names:
        raise ToolMisuse(f"tool {name}: target={target!r} is none of its parameters{_instead(target, signature.names)}")
    return Tool(
        function=function,
        name=name,
        description=description(function) if words is None else words,
        kind=kind,
        target=target,
        timeout=float(timeout),
        idempotent=idempotent,
        repeatable=repeatable,
        settle=float(settle),
        max_result=max_result,
        signature=signature,
        readback=read_readback(confirm, name, signature.names) if confirm is not None else None,
        asynchronous=is_async(function),
        approve=_approve(approve, name, signature.names),
        restore=restore,
        isolate=isolate,
        memory=memory,
    )


def _approve(approve: bool | Callable[..., Any], name: str, names: tuple[str, ...]) -> Literal[True] | ReadBack | None:
    if isinstance(approve, bool):
        return True if approve else None
    if not callable(approve):
        raise ToolMisuse(f"tool {name}: approve={approve!r}: give True, or a function of the arguments that says when")
    if is_async(approve):
        raise ToolMisuse(
            f"tool {name}: approve={approve!r} is asynchronous; a rule is asked at once, write it with def"
        )
    return read_readback(approve, name, names, "approve")


def _caller() -> FrameType:
    """The frame that uses `tool`, two above this one."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame.f_back if frame is not None else None
    assert frame is not None
    return frame


def _name_of(function: Callable[..., Any], name: str | None) -> str:
    if isinstance(function, Tool):
        raise ToolMisuse(f"tool {function.name} is a tool already: decorate the function once")
    if not callable(function):
        raise ToolMisuse(f"tool: {function!r} is not a function: use @tool or @tool(kind=...)")
    if name is None:
        inner = plain(function)
        name = str(getattr(inner, "__name__", ""))
        name = type(function).__name__ if name == "__call__" else name
    if not _NAME.fullmatch(str(name)):
        raise ToolMisuse(f"tool {name!r}: providers take only letters, digits, _ and -, at most 64: give it name=...")
    return name


def _refuse_nonsense(name: str, kind: str, timeout: float, settle: float, max_result: int) -> None:
    if kind not in get_args(Kind):
        raise ToolMisuse(f"tool {name}: kind={kind!r}: write one of {', '.join(get_args(Kind))}")
    if not (_is_number(timeout) and timeout > 0 and math.isfinite(timeout)):
        raise ToolMisuse(f"tool {name}: timeout={timeout!r}: give the seconds one use may take, above 0 and finite")
    if not (_is_number(settle) and settle >= 0 and math.isfinite(settle)):
        raise ToolMisuse(f"tool {name}: settle={settle!r}: give seconds, 0 or more")
    if not _is_number(max_result) or max_result < 200:
        raise ToolMisuse(f"tool {name}: max_result={max_result!r}: a model needs at least 200 characters")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _refuse_unreachable(function: Callable[..., Any], name: str, memory: int) -> None:
    """Another process has to find the function by its module and name."""
    place = str(getattr(function, "__qualname__", "<none>"))
    if "<" in place or getattr(function, "__self__", None) is not None:
        raise ToolMisuse(
            f"tool {name}: isolate=True runs it in another process, which can only find functions that stand at the "
            "top of a module: move it there"
        )
    if os.name != "posix":
        raise ToolMisuse(f"tool {name}: isolate=True needs a POSIX system: process groups can be killed only there")
    if memory < 64:
        raise ToolMisuse(f"tool {name}: memory={memory!r}: an interpreter needs at least 64 megabytes")


def _instead(name: str, names: tuple[str, ...]) -> str:
    near = get_close_matches(name, names, 1)
    if near:
        return f": did you mean {near[0]!r}?"
    return f" ({', '.join(names)})" if names else ": it has none"
