"""Options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

import click

store = click.option(
    "--store",
    metavar="URL",
    help="Where runs are kept: sqlite:///file.db. Without it CAPATAZ_STORE, else sqlite:///capataz.db.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout.")
