"""Nothing unfinished is handed over, and nothing that belongs to one machine."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.contracts.walk import ROOT, Function, Source, dotted, functions, listed, qualified, sources, tracked

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|not (yet )?implemented")

OF_ONE_MACHINE = re.compile("|".join(("/" + "home/[a-z]", "/" + "work/", "C:" + r"\\Users")))
REGISTRIES = re.compile("|".join(("pypi" + r"\.org", "pythonhosted" + r"\.org", "npmjs" + r"\.(org|com)")))
RECORDS = ("tests/data/", "benchmarks/data/")
"""Recorded cases speak of the machines they were recorded on."""


def comments(source: Source) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_no_marker_of_unfinished_work() -> None:
    found = [
        f"{source.name}:{number} {comment}"
        for folder in ("src/capataz", "scripts", "benchmarks", "tests")
        for source in sources(folder)
        if UNFINISHED.search(source.text)
        for number, comment in comments(source)
        if UNFINISHED.search(comment)
    ]
    assert not found, listed(found)


def hollow(function: Function) -> bool:
    """Nothing but a docstring, `pass`, `...` or a bare `raise NotImplementedError`."""
    return all(
        isinstance(node, ast.Pass)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or ast.unparse(node) in ("raise NotImplementedError", "raise NotImplementedError()")
        for node in function.body
    )


def protocols(source: Source) -> set[str]:
    bases = {
        name: {dotted(base.value if isinstance(base, ast.Subscript) else base).split(".")[-1] for base in node.bases}
        for name, node in qualified(source.tree)
        if isinstance(node, ast.ClassDef)
    }
    return {name for name, known in bases.items() if "Protocol" in known}


def declares(source: Source, name: str, function: Function) -> bool:
    """Whether an empty body is the point: a protocol, an overload, an abstract method, a group of commands."""
    marks = {ast.unparse(mark).split("(")[0].split(".")[-1] for mark in function.decorator_list}
    return name.rpartition(".")[0] in protocols(source) or bool(marks & {"overload", "abstractmethod", "group"})


def test_no_function_is_a_stub() -> None:
    """A body may be empty where a docstring says why nothing has to be done, or what others have to fill in."""
    found = [
        f"{source.at(function)} {name}"
        for source in sources()
        for name, function in functions(source.tree)
        if hollow(function) and ast.get_docstring(function) is None and not declares(source, name, function)
    ]
    assert not found, listed(found)


def test_no_path_or_host_of_one_machine_in_a_tracked_file() -> None:
    found: list[str] = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(RECORDS):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := OF_ONE_MACHINE.search(line) or REGISTRIES.search(line):
                found.append(f"{name}:{number} {match[0]}")
    assert not found, listed(found)
