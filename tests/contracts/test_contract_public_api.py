"""What users may rely on: few names, written down, and no change without a word in the changelog."""

from __future__ import annotations

import re

import capataz
from scripts.public_api import SNAPSHOT, render
from tests.contracts.walk import ROOT

MOST_NAMES = 25


def test_the_public_api_is_small_and_exists() -> None:
    names = capataz.__all__
    assert 0 < len(names) <= MOST_NAMES
    assert len(set(names)) == len(names)
    assert all(hasattr(capataz, name) for name in names)


def test_the_public_api_is_the_one_written_down() -> None:
    assert render() == SNAPSHOT.read_text(encoding="utf-8"), (
        "the public API changed: if that is meant, run `make docs` and say so in CHANGELOG.md"
    )


def test_the_changelog_names_every_public_name() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    words = set(re.findall(r"`([A-Za-z_]+)", changelog))
    assert set(capataz.__all__) <= words


def test_every_public_name_explains_itself() -> None:
    silent = [
        name
        for name in capataz.__all__
        if callable(getattr(capataz, name)) and not (getattr(capataz, name).__doc__ or "").strip()
    ]
    assert not silent
