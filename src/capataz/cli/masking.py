"""The mask of the command line: what it shows of runs goes through it, unless a person asks for the originals.

Masks take a moment to make, so they are made when something is shown. The answer of a run is for the one who asked:
it keeps what is theirs, but no secrets.
"""

from __future__ import annotations

import os
from functools import lru_cache

import click

from capataz.lens.masked import Shower
from capataz.privacy.found import KINDS, SECRETS
from capataz.privacy.mask import Mask
from capataz.runtime.privacy import environment_secrets

reveal = click.option(
    "--reveal", "--no-mask", "reveal", is_flag=True, help="Show personal data and secrets as they are in the store."
)


def shower(reveal: bool = False) -> Shower:
    """What is shown of facts and words."""
    return Shower(None) if reveal else _made(environment_secrets(os.environ), KINDS)


def answers(reveal: bool = False) -> Shower:
    """What is shown of an answer to the person who asked for it."""
    return Shower(None) if reveal else _made(environment_secrets(os.environ), SECRETS)


@lru_cache(maxsize=4)
def _made(secrets: tuple[str, ...], kinds: frozenset[str]) -> Shower:
    return Shower(Mask(secrets, classes=kinds))
