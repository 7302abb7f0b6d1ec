"""The locks, the commands and the licence: what a fresh clone on a bare machine stands on."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.contracts.walk import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ("requirements.lock", "requirements-run.lock")


def locked(name: str) -> list[Requirement]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def wanted(group: str) -> list[Requirement]:
    """A dependency group with those it includes."""
    found: list[Requirement] = []
    for entry in PROJECT["dependency-groups"][group]:
        found += wanted(entry["include-group"]) if isinstance(entry, dict) else [Requirement(entry)]
    return found


@pytest.mark.parametrize(("lock", "group"), [("requirements.lock", "dev"), ("requirements-run.lock", "build")])
def test_a_lock_holds_everything_the_project_asks_for(lock: str, group: str) -> None:
    versions = {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in locked(lock)}
    asked = [Requirement(text) for text in PROJECT["project"]["dependencies"]] + wanted(group)
    missing = [
        str(one)
        for one in asked
        if (version := versions.get(canonicalize_name(one.name))) is None or not one.specifier.contains(version)
    ]
    assert not missing, f"run `make lock`: {missing}"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_one_version_each_and_no_place_to_fetch_from(lock: str) -> None:
    for requirement in locked(lock):
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert requirement.url is None, requirement
    assert "://" not in (ROOT / lock).read_text(encoding="utf-8")


def test_running_and_developing_use_the_same_versions() -> None:
    developing = {(one.name, str(one.specifier)) for one in locked("requirements.lock")}
    running = {(one.name, str(one.specifier)) for one in locked("requirements-run.lock")}
    assert running <= developing


def test_ci_calls_the_test_command_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert commands[0] == "set -euo pipefail"
    assert commands[-1].startswith("make test")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make test" in readme
    assert "make demo" in readme


def test_hooks_call_make_and_nothing_from_elsewhere() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"repo: (\S+)", text)) == {"local"}
    assert all(entry.startswith("make ") for entry in re.findall(r"entry: (.+)", text))


def test_version_and_licence_agree() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "## [Unreleased]" in changelog or f"## [{PROJECT['project']['version']}]" in changelog


def test_nothing_outside_the_repository_is_needed() -> None:
    scripts = [ROOT / "Makefile", ROOT / ".ci" / "run", *Path(ROOT / "scripts").glob("*.py")]
    assert not [path for path in scripts if ".." + "/shared" in path.read_text(encoding="utf-8")]
