"""Broad handlers stand in three places of the whole project; everywhere else an unknown error is let through.

A handler that only tidies up and raises again swallows nothing and is not counted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.contracts.walk import Source, dotted, listed, qualified, sources

ALLOWED = {
    "the model call": "src/capataz/models/gateway.py",
    "code of the user's": "src/capataz/tools/usercode.py",
    "the job": "src/capataz/engines/local.py",
}
BROAD = {"Exception", "BaseException", "builtins.Exception", "builtins.BaseException"}


def broad(node: ast.expr | None) -> bool:
    if node is None:
        return True
    if isinstance(node, ast.Tuple):
        return any(broad(item) for item in node.elts)
    return dotted(node) in BROAD


def raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def may_be_true(value: ast.expr | None) -> bool:
    """A context manager that returns something true keeps the exception to itself."""
    return value is not None and not (isinstance(value, ast.Constant) and not value.value)


def swallowing(source: Source) -> Iterator[tuple[str, str]]:
    """(file and function, file and line) of every place that can swallow any exception."""
    for name, node in qualified(source.tree):
        if isinstance(node, ast.ExceptHandler) and broad(node.type) and not raises_again(node):
            yield f"{source.name}::{name}", source.at(node)
        leaving = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in ("__exit__", "__aexit__")
        if leaving and any(isinstance(inner, ast.Return) and may_be_true(inner.value) for inner in ast.walk(node)):
            yield f"{source.name}::{name}", source.at(node)
        suppressing = isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] == "suppress"
        if suppressing and isinstance(node, ast.Call) and any(broad(item) for item in node.args):
            yield f"{source.name}::{name}", source.at(node)


def test_broad_handlers_stand_only_where_they_are_listed() -> None:
    found = [place for source in sources() for place in swallowing(source)]
    strange = [f"{line} ({name})" for name, line in found if name.split("::")[0] not in ALLOWED.values()]
    assert not strange, listed(strange)
    functions = {name for name, _ in found}
    assert len(functions) <= len(ALLOWED), listed(sorted(functions))


def test_nothing_hides_warnings_or_switches_the_check_off() -> None:
    marks = ("noqa: BLE", "noqa:BLE", "simplefilter(")
    strange = [
        f"{source.name}:{number}"
        for source in sources()
        for number, line in enumerate(source.text.splitlines(), 1)
        if any(mark in line for mark in marks) and source.name not in ALLOWED.values()
    ]
    assert not strange, listed(strange)
