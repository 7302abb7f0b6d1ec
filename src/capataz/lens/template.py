"""The pages' templates: everything is escaped, no text turns what stands around it, a name not given is an error."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from capataz.lens.words import harmless

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def environment(package: str, folder: str) -> Environment:
    """An environment of its own over the templates in a folder of a package."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _plain(value: object) -> object:
    """What a template puts out: markup stays markup."""
    if not isinstance(value, str):
        return value
    shown = harmless(value)
    return value if shown == value else type(value)(shown)


@cache
def template(package: str, name: str) -> Template:
    """One page of a package that keeps its pages in the folder `pages`."""
    return environment(package, "pages").get_template(name)
