"""Nothing undocumented, nothing stale: guards, commands and options have their page, embedded source is the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from capataz.cli.main import main
from capataz.guards.catalogue import GUARDS
from scripts import embed
from tests.docs.fences import ROOT, name, pages

DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
EXISTING = [page for page in [*pages(), ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"] if page.is_file()]


def commands(command: click.Command, path: str = "capataz") -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for key in command.list_commands(context):
            inner = command.get_command(context, key)
            if inner is not None:
                yield from commands(inner, f"{path} {key}")


def test_every_guard_has_a_page() -> None:
    """A page of its own, or a heading on a page it shares with its kin."""
    headings = [
        line
        for page in sorted((DOCS / "guards").glob("*.md"))
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("#")
    ]
    missing = [guard for guard in GUARDS if not any(re.search(rf"\b{guard}\b", line, re.I) for line in headings)]
    assert not missing


def test_every_command_and_option_is_documented() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    missing = [path for path, command in commands(main) if not command.hidden and f"help: {path} -->" not in text]
    for path, command in commands(main):
        for parameter in command.params:
            silent = isinstance(parameter, click.Option) and not parameter.hidden and not parameter.help
            missing += [f"{path} {parameter.opts[0]} has no help"] if silent else []
    assert not missing


@pytest.mark.parametrize("page", EXISTING, ids=name)
def test_no_page_is_stale(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert embed.embedded(text) == text, f"run `make docs`: {name(page)} shows what is no longer so"


@pytest.mark.parametrize("page", EXISTING, ids=name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    broken = [
        match[1] for match in LINK.finditer(page.read_text(encoding="utf-8")) if not (page.parent / match[1]).exists()
    ]
    assert not broken


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or not page.is_file() or page.suffix != ".md":
            continue
        reached.add(page)
        text = page.read_text(encoding="utf-8")
        waiting += [(page.parent / match[1]).resolve() for match in LINK.finditer(text)]
    lost = [name(page) for page in EXISTING if page not in reached]
    assert not lost, "no link leads to these pages"


def test_the_loop_is_shown_as_it_is() -> None:
    page = (DOCS / "how-it-works.md").read_text(encoding="utf-8")
    assert (ROOT / "src" / "capataz" / "kernel" / "decide.py").read_text(encoding="utf-8") in page
