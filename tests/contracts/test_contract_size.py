"""Small pieces: a file, a function or a class that outgrows these sizes is two things with one name."""

from __future__ import annotations

import ast

import pytest

from tests.contracts.walk import functions, listed, qualified, sources

FILE_LINES = 500
FUNCTION_LINES = 50
PUBLIC_METHODS = 12


@pytest.mark.parametrize("folder", ["src/capataz", "tests", "scripts", "benchmarks"])
def test_files_and_functions_stay_small(folder: str) -> None:
    problems: list[str] = []
    for source in sources(folder):
        lines = source.text.count("\n")
        if lines > FILE_LINES:
            problems.append(f"{source.name}: {lines} lines, at most {FILE_LINES}")
        for name, node in functions(source.tree):
            long = (node.end_lineno or node.lineno) - node.lineno + 1
            if long > FUNCTION_LINES:
                problems.append(f"{source.at(node)} {name}: {long} lines, at most {FUNCTION_LINES}")
    assert not problems, listed(problems)


def test_no_class_offers_more_than_a_dozen_public_methods() -> None:
    problems: list[str] = []
    for source in sources():
        for name, node in qualified(source.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            public = [
                child.name
                for child in node.body
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_")
            ]
            if len(public) > PUBLIC_METHODS:
                problems.append(f"{source.at(node)} {name}: {len(public)} public methods, at most {PUBLIC_METHODS}")
    assert not problems, listed(problems)
