"""Small pieces: a file, a function or a class that outgrows these sizes is two things with one name."""

from __future__ import annotations

import ast

import pytest

from tests.contracts.walk import Function, functions, listed, qualified, sources

FILE_LINES = 500
FUNCTION_LINES = 50
PUBLIC_METHODS = 12


def code_lines(function: Function) -> int:
    """Lines of a function without its docstring: explaining is not to be saved on."""
    text = function.body[0] if ast.get_docstring(function) is not None else None
    explained = (text.end_lineno or text.lineno) - text.lineno + 1 if text is not None else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - explained


@pytest.mark.parametrize("folder", ["src/capataz", "tests", "scripts", "benchmarks"])
def test_files_and_functions_stay_small(folder: str) -> None:
    problems: list[str] = []
    for source in sources(folder):
        lines = source.text.count("\n")
        if lines > FILE_LINES:
            problems.append(f"{source.name}: {lines} lines, at most {FILE_LINES}")
        for name, node in functions(source.tree):
            long = code_lines(node)
            if long > FUNCTION_LINES:
                problems.append(f"{source.at(node)} {name}: {long} lines, at most {FUNCTION_LINES}")
    assert not problems, listed(problems)


def test_no_class_offers_more_than_a_dozen_public_methods() -> None:
    """The tests of a conformance suite are not methods anyone calls."""
    problems: list[str] = []
    for source in sources():
        for name, node in qualified(source.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            methods = [child.name for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)]
            public = [method for method in methods if not method.startswith(("_", "test_"))]
            if len(public) > PUBLIC_METHODS:
                problems.append(f"{source.at(node)} {name}: {len(public)} public methods, at most {PUBLIC_METHODS}")
    assert not problems, listed(problems)
