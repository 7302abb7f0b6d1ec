"""What `--otel` and `--log-json` mean: who watches the runs that a command drives."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from capataz.app import App


@contextmanager
def watched(app: App, otel: bool, log_json: bool) -> Generator[App]:
    """The App with the observers that were asked for; at the end what they still hold is sent."""
    if log_json:
        from capataz.telemetry.json_logs import JsonLines

        app.observers += (JsonLines(sys.stderr),)
    if not otel:
        yield app
        return
    from capataz.telemetry.otel_env import from_environment

    observer, let_go = from_environment()
    if observer is not None:
        app.observers += (observer,)
    try:
        yield app
    finally:
        let_go()
