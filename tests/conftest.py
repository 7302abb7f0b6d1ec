"""What every test can rely on: nothing of the caller's own settings reaches it."""

from __future__ import annotations

import os

OF_THE_CALLER = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CAPATAZ_STORE")
"""A terminal's width and colours (the parallel runner sets some of them too), and where runs are kept."""


def pytest_configure() -> None:
    for name in OF_THE_CALLER:
        os.environ.pop(name, None)
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        del os.environ[name]
