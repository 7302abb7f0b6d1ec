"""The pure layers: time, chance and identity come in as data. import-linter knows modules; this knows names.

An allow-list is safer than a list of what is forbidden: a new import in a pure layer has to be argued for here.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from tests.contracts.walk import PURE, Source, dotted, imports, listed, pure_sources, sources

STANDARD = {
    "__future__",
    "abc",
    "base64",
    "binascii",
    "bisect",
    "collections",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "errno",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "inspect",
    "itertools",
    "json",
    "math",
    "operator",
    "posixpath",
    "re",
    "statistics",
    "string",
    "struct",
    "textwrap",
    "tomllib",
    "types",
    "typing",
    "unicodedata",
    "zlib",
}
BEYOND = {"privacy": {"phonenumbers", "stdnum", "importlib"}, "lens": {"jinja2"}}
"""Besides orjson, by layer; `importlib` loads the checkers of stdnum one by one, when they are first needed."""

PARTS = {"urllib.parse"}
"""Harmless modules of packages that are not: reading an address opens nothing."""

CLOCKS = {"now", "utcnow", "today"}
WORLDLY = {"open", "input", "print", "exec", "eval", "compile", "__import__", "breakpoint", "globals"}


def declares(node: ast.AST) -> bool:
    """A signature of a protocol: it says what others promise and does nothing."""
    return isinstance(node, ast.AsyncFunctionDef) and all(
        isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) for part in node.body
    )


def problems_of(source: Source) -> Iterator[str]:
    allowed = STANDARD | {"capataz", "orjson"} | BEYOND.get(source.layer, set())
    for place, module, _ in imports(source.tree):
        if module.split(".")[0] not in allowed and module not in PARTS:
            yield f"{source.at(place)} imports {module}"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith) and not declares(node):
            yield f"{source.at(node)} is asynchronous: the pure layers wait for nothing"
        if isinstance(node, ast.Global):
            yield f"{source.at(node)} changes a global"
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        if name.split(".")[-1] in CLOCKS and name.split(".")[0] in {"datetime", "date"}:
            yield f"{source.at(node)} reads the clock with {name}()"
        if name in WORLDLY:
            yield f"{source.at(node)} calls {name}()"


def test_pure_layers_use_only_what_is_allowed_there() -> None:
    assert not (problems := [problem for source in pure_sources() for problem in problems_of(source)]), listed(problems)


def test_the_pure_layers_are_where_this_test_looks() -> None:
    seen = {source.layer for source in pure_sources()}
    assert seen == set(PURE)


def test_the_allow_list_names_real_modules() -> None:
    assert set(sys.stdlib_module_names) >= STANDARD


def test_ports_take_one_type_from_asyncio_and_no_more() -> None:
    ports = [source for source in sources() if source.layer == "ports"]
    taken = {names for port in ports for _, module, names in imports(port.tree) if module.split(".")[0] == "asyncio"}
    assert taken == {("Future",)}
    assert not [node for port in ports for node in ast.walk(port.tree) if isinstance(node, ast.Await)]
