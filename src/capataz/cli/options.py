"""Options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import click


class _Output(click.Path):
    """A file that is written when the work is over: whether it can be is found out before the work begins."""

    name = "file"

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = cast(Path, super().convert(value, param, ctx))
        if not path.parent.is_dir():
            self.fail(f"there is no folder {str(path.parent)!r} to write {path.name!r} in", param, ctx)
        if not path.exists() and not os.access(path.parent, os.W_OK | os.X_OK):
            self.fail(f"nothing can be written in the folder {str(path.parent)!r}", param, ctx)
        return path


OUTPUT = _Output()
"""The type of every option that names a file to write."""

store = click.option(
    "--store",
    metavar="URL",
    help="Where runs are kept: sqlite:///file.db or postgresql://host/database. Without it CAPATAZ_STORE, else "
    "sqlite:///capataz.db.",
)
policy = click.option(
    "--policy",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="CAPATAZ_POLICY",
    help="The policy file the run is driven under. Without it CAPATAZ_POLICY, else the default policy.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout.")
log_json = click.option("--log-json", is_flag=True, help="Each event as a masked JSON line on stderr.")
otel = click.option(
    "--otel", is_flag=True, help="Spans and metrics to OTEL_EXPORTER_OTLP_ENDPOINT, as the OTEL_* variables say."
)
