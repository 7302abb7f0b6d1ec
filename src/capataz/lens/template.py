"""The pages' templates: everything is escaped, a name that is not given is an error."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def environment(package: str, folder: str) -> Environment:
    """An environment of its own over the templates in a folder of a package."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def template(package: str, name: str) -> Template:
    """One page of a package that keeps its pages in the folder `pages`."""
    return environment(package, "pages").get_template(name)
