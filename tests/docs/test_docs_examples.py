"""Every example a reader can copy is run: fences of pages, fences and `>>>` lines of docstrings, commands of the CLI.

A page runs from top to bottom in one namespace and in an empty folder, as a reader would type it.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import capataz
from tests.docs.fences import ROOT, Fence, docstrings, fences, name, pages

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMMAND_SECONDS = 50
WITH_EXAMPLES = [page for page in pages() if page.is_file() and any(f.runs for f in fences(page.read_text("utf-8")))]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(capataz.__path__, "capataz.")
    if not module.name.endswith("__main__")  # importing it runs the program
)


def run_python(fence: Fence, where: str, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    code = compile("\n" * fence.line + fence.body, where, "exec", dont_inherit=True)
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_commands(fence: Fence) -> str:
    printed = ""
    for line in fence.body.splitlines():
        command, _, comment = line.partition("#")
        if not command.startswith("capataz"):
            continue
        words = shlex.split(command)
        program = [str(Path(sys.executable).with_name("capataz")), *words[1:]]
        plain = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "PYTHONPATH": os.getcwd()}
        done = subprocess.run(program, env=plain, capture_output=True, text=True, timeout=COMMAND_SECONDS)
        expected = re.search(r"exits (\d)", comment)
        assert done.returncode == (int(expected[1]) if expected else 0), f"{line}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
    return printed


def expect(printed: str, fence: Fence, where: str) -> None:
    matches = doctest.OutputChecker().check_output(fence.body, printed, OPTIONS)
    assert matches, f"{where}:{fence.line} says\n{fence.body}\nbut this was printed\n{printed}"


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    printed = ""
    for fence in fences(page.read_text(encoding="utf-8")):
        where = f"{name(page)}:{fence.line}"
        if fence.language == "python" and fence.runs:
            printed = run_python(fence, where, module.__dict__)
        elif fence.language == "sh" and fence.runs:
            printed = run_commands(fence)
        elif fence.words == "printed":
            expect(printed, fence, name(page))


@pytest.mark.parametrize("page", [page for page in pages() if page.is_file()], ids=name)
def test_an_example_is_left_out_only_for_a_reason(page: Path) -> None:
    for fence in fences(page.read_text(encoding="utf-8")):
        known = fence.runs or re.fullmatch(r"no-run: \S.{9,}", fence.words)
        assert known, f"{name(page)}:{fence.line} {fence.info}: say why"


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_docstrings_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = importlib.import_module(module)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    said = io.StringIO()
    for example in doctest.DocTestFinder(exclude_empty=True).find(loaded, module):
        runner.run(example, out=said.write)
    assert runner.failures == 0, said.getvalue()


def test_fences_in_docstrings_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in sorted((ROOT / "src" / "capataz").rglob("*.py")):
        for text in docstrings(path):
            namespace: dict[str, Any] = {"__name__": "example"}
            for fence in fences(text):
                if fence.language == "python" and fence.runs:
                    run_python(fence, f"{name(path)} (docstring, line {fence.line})", namespace)
