"""Reading the fenced examples of a page, so that they can be run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Fence:
    """One example. `info` is what stands after the back-ticks: the language, then words for the runner.

    python                 run, in the order of the page
    python no-run: REASON  shown only; the reason has to be there
    text printed           what the example before it prints (`...` matches anything)
    sh                     each line that begins with `capataz` is run and must exit as a `# exits N` says, else with 0
    """

    info: str
    body: str
    line: int

    @property
    def language(self) -> str:
        return self.info.split()[0] if self.info.split() else ""

    @property
    def words(self) -> str:
        return self.info.partition(" ")[2].strip()

    @property
    def runs(self) -> bool:
        return not self.words.startswith("no-run")


def fences(text: str) -> Iterator[Fence]:
    for match in FENCE.finditer(text):
        indent = len(match["indent"])
        body = "".join(line[indent:] for line in match["body"].splitlines(keepends=True))
        yield Fence(match["info"].strip(), body, text.count("\n", 0, match.start()) + 1)


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield text


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
