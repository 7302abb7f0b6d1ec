"""Options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

from pathlib import Path

import click

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
