"""Reading the project's own source: what the contract tests walk over."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "capataz"

PURE = (
    "events",
    "faults",
    "guards",
    "kernel",
    "lens",
    "memory",
    "mistakes",
    "money",
    "outcome",
    "policy",
    "privacy",
)
"""The layers above the line: they read no clock, draw no number and touch nothing."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file, parsed. `name` is its path from the root of the repository, with forward slashes."""

    name: str
    text: str
    tree: ast.Module

    @property
    def layer(self) -> str:
        """First part of the path inside the package: `guards`, `kernel`, `outcome`..."""
        return self.name.removeprefix("src/capataz/").split("/")[0].removesuffix(".py")

    def at(self, node: ast.AST) -> str:
        return f"{self.name}:{getattr(node, 'lineno', 0)}"


@cache
def sources(folder: str = "src/capataz") -> tuple[Source, ...]:
    """Every Python file under a folder of the repository, in order."""
    found: list[Source] = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Source(path.relative_to(ROOT).as_posix(), text, ast.parse(text)))
    return tuple(found)


def pure_sources() -> Iterator[Source]:
    return (source for source in sources() if source.layer in PURE)


@cache
def tracked() -> tuple[Path, ...]:
    """Files that git tracks; skips those deleted from the work tree but not yet from the index."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=30
    ).stdout
    return tuple(path for name in listing.split("\0") if name and (path := ROOT / name).is_file())


def imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str, tuple[str, ...]]]:
    """Each import with the module it names and the names it takes from there (none for `import x`)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name, ()
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node, node.module, tuple(alias.name for alias in node.names)


def dotted(node: ast.AST) -> str:
    """`asyncio.wait_for` for such an attribute chain; what cannot be named becomes `?`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return "?"


def qualified(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every node with the dotted name of the innermost class or function around it (empty at module level)."""
    for child in ast.iter_child_nodes(tree):
        inner = prefix
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{prefix}.{child.name}".lstrip(".")
        yield inner, child
        yield from qualified(child, inner)


def functions(tree: ast.AST) -> Iterator[tuple[str, Function]]:
    for name, node in qualified(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, node


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def listed(problems: Iterable[str]) -> str:
    """For a failing assertion: one problem a line."""
    return "\n" + "\n".join(problems)
