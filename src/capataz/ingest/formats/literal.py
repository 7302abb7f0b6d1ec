"""Reading what a Python program printed of its objects, without running any of it.

Some frameworks keep their steps as the text of `repr`: literals with constructor calls between. A call becomes an
object of its keywords under its class's name; a name becomes a text. Size and depth are bounded by the caller's
limits and the parser's own, and whatever cannot be read is None.
"""

from __future__ import annotations

import ast

from capataz.events.facts import JSON

LONGEST = 8 << 20
_DEEPEST = 60


def read(source: str) -> JSON:
    """The value printed in `source`, or None. `Thing(a=1)` reads as `{"__class__": "Thing", "a": 1}`."""
    if len(source) > LONGEST or _nesting(source) > _DEEPEST:
        return None
    try:
        tree = ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    try:
        return _value(tree.body)
    except (RecursionError, ValueError):
        return None


def _nesting(source: str) -> int:
    """An upper bound of the nesting: the most brackets ever open, quotes not looked at."""
    open_, most = 0, 0
    for char in source:
        if char in "([{":
            open_ += 1
            most = max(most, open_)
        elif char in ")]}" and open_:
            open_ -= 1
    return most


def _value(node: ast.expr) -> JSON:
    match node:
        case ast.Constant(value=value):
            return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return [_value(element) for element in elements]
        case ast.Dict(keys=keys, values=values):
            told = zip(keys, values, strict=True)
            return {_key(key): _value(value) for key, value in told if key is not None}
        case ast.Call():
            return _called(node)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Name(id=name):
            return name
        case ast.JoinedStr():
            return ""
        case _:
            return ast.unparse(node)[:1000]


def _called(node: ast.Call) -> JSON:
    name = node.func.id if isinstance(node.func, ast.Name) else "call"
    said: dict[str, JSON] = {word.arg: _value(word.value) for word in node.keywords if word.arg}
    if node.args:
        said["__args__"] = [_value(argument) for argument in node.args]
    return {"__class__": name, **said}


def _key(node: ast.expr) -> str:
    value = _value(node)
    return value if isinstance(value, str) else str(value)
